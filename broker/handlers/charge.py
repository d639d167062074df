"""Charge (20000, ours), v0: what a gateway answers by itself is charged like everything else.

Behaviour: Produce requests that a gateway refuses, and what it adds to Fetch answers. Charged at once; the
answer waits like the first frame of a connection, and leaves it unread like any other. Bodies are messages of
`contracts.charging`. Served to gateways that have named an instance only, and not in ApiVersions.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from broker.requests.payer import Charged
from contracts import charging
from wire.faults import MalformedFrame

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.requests.call import Call
    from broker.requests.throttling import Debt

_RATES_CHANGE_MS: Final = 1_000
"""How often a wait is looked at: rates change meanwhile."""


def handle(broker: "Broker", call: "Call") -> None:
    """Charge, then answer in turn."""
    try:
        request = charging.decode_request(call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    payer = call.channel.payer
    assert payer is not None, "the row is served to payers only"
    now_ms = broker.now_ms()
    payer.refuse(request.reason)
    if request.consume_bytes:
        before, debt = payer.charge_answered(Charged.CONSUME, request.consume_bytes, now_ms)
    else:
        before, debt = payer.charge_answered(Charged.PRODUCE, request.produce_bytes, now_ms)
    _answer_when_due(broker, call, before, debt)


def _answer_when_due(broker: "Broker", call: "Call", before: "Debt | None", debt: "Debt") -> None:
    if call.is_gone:
        return
    now_ms = broker.now_ms()
    remaining_ms = 0 if before is None else before.remaining_ms(now_ms)
    if remaining_ms > 0:
        again = partial(_answer_when_due, broker, call, before, debt)
        broker.call_later(min(remaining_ms, _RATES_CHANGE_MS), again)
        return
    response = charging.ChargeResponse(throttle_time_ms=debt.throttle_time_ms(now_ms))
    call.reply_body(charging.encode(response), mute=debt.mute(now_ms))
