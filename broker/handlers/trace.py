"""Trace (20001, ours), v0: the connection's next request is traced, as a child of a gateway's span (ADR 33).

Behaviour: remembers the context and answers nothing. Bodies are messages of `contracts.tracing`. Served to
gateways that have named an instance only, and not in ApiVersions; whether it is welcome is in the answer to
SaslAuthenticate.
"""

import msgspec

from broker.requests.call import Call
from contracts import tracing
from wire.faults import MalformedFrame


def handle(call: Call, deps: object) -> None:  # noqa: ARG001 - every handler has this signature
    try:
        call.channel.traced = tracing.decode(call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    call.reply_nothing()
