"""Charge (20000, ours), v0: what a gateway answers by itself is charged like everything else.

Behaviour: Produce requests that a gateway refuses, and what it adds to Fetch answers. Charged at once; the
answer waits like the first frame of a connection, and leaves it unread like any other. Bodies are messages of
`contracts.charging`. Served to gateways that have named an instance only, and not in ApiVersions.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from broker.net.later import Later
from broker.requests.call import Call
from broker.requests.payer import Charged
from broker.requests.throttling import Debt
from contracts import charging
from wire.faults import MalformedFrame

_RATES_CHANGE_MS: Final = 1_000
"""How often a wait is looked at: rates change meanwhile."""


class _Deps(Protocol):
    later: Later
    now_ms: Callable[[], int]


def handle(call: Call, deps: _Deps) -> None:
    """Charge, then answer in turn."""
    try:
        request = charging.decode_request(call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    payer = call.channel.login.payer
    assert payer is not None, "the row is served to payers only"
    now_ms = deps.now_ms()
    payer.refuse(request.reason)
    if request.consume_bytes:
        before, debt = payer.charge_answered(Charged.CONSUME, request.consume_bytes, now_ms)
    else:
        before, debt = payer.charge_answered(Charged.PRODUCE, request.produce_bytes, now_ms)
    _answer_when_due(deps, call, before, debt)


def _answer_when_due(deps: _Deps, call: Call, before: Debt | None, debt: Debt) -> None:
    if call.is_gone:
        return
    now_ms = deps.now_ms()
    remaining_ms = 0 if before is None else before.remaining_ms(now_ms)
    if remaining_ms > 0:
        again = partial(_answer_when_due, deps, call, before, debt)
        deps.later.after_ms(min(remaining_ms, _RATES_CHANGE_MS), again)
        return
    response = charging.ChargeResponse(throttle_time_ms=debt.throttle_time_ms(now_ms))
    call.reply_body(charging.encode(response), mute=debt.mute(now_ms))
