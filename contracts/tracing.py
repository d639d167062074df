"""Whose child a request is: what a gateway that samples it tells a broker of ours in front of it.

A Kafka frame of its own on the client's connection (request header v1, api version 0) without an answer; the
body is msgpack of the struct. It is about the next frame and no other. A broker that takes such frames says
so when the gateway logs in. Tenants can neither send one, as no gateway passes on an unknown API key, nor see
one (ADR 33).
"""

from typing import Annotated, Final

import msgspec

TRACE_KEY: Final = 20_001
"""Far from Kafka's own keys."""
TAKES_TRACES: Final = b"portico-traces/1"
"""`auth_bytes` of the answer to SaslAuthenticate, which PLAIN leaves empty."""


class TraceContext(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The span that the broker's is a child of, as W3C Trace Context numbers it."""

    trace_id: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    span_id: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]


_CONTEXT: Final = msgspec.msgpack.Decoder(TraceContext)


def encode(context: TraceContext) -> bytes:
    """The message's body."""
    return msgspec.msgpack.encode(context)


def decode(body: bytes | memoryview) -> TraceContext:
    """Raises: msgspec.MsgspecError."""
    return _CONTEXT.decode(body)
