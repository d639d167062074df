"""What a gateway has a broker charge, on the client's own connection: bytes of what it answers itself.

A Kafka frame (request header v1, response header v0), api version 0; the body is msgpack of these structs.
The answer comes when the instance has paid for what was charged before, if the connection is new.
"""

from typing import Annotated, Final

import msgspec

CHARGE_KEY: Final = 20_000
"""Far from Kafka's own keys."""

Size = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class ChargeRequest(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Bytes on the client's socket, length prefixes included."""

    produce_bytes: Size = 0
    """Bytes of a Produce request, or of what is left out of it."""
    consume_bytes: Size = 0
    """Bytes of a Fetch answer, or of what is added to it."""
    reason: Annotated[str, msgspec.Meta(max_length=100)]
    """Why it was refused: an error's name."""


class ChargeResponse(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How long the connection is left unread now."""

    throttle_time_ms: int


_REQUEST: Final = msgspec.msgpack.Decoder(ChargeRequest)
_RESPONSE: Final = msgspec.msgpack.Decoder(ChargeResponse)


def encode(message: ChargeRequest | ChargeResponse) -> bytes:
    """A message's body."""
    return msgspec.msgpack.encode(message)


def decode_request(body: bytes | memoryview) -> ChargeRequest:
    """Raises: msgspec.MsgspecError."""
    return _REQUEST.decode(body)


def decode_response(body: bytes | memoryview) -> ChargeResponse:
    """Raises: msgspec.MsgspecError."""
    return _RESPONSE.decode(body)
