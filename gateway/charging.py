"""What we answer ourselves is charged to its instance all the same: the broker is told, and says when to go
on. Nothing of the client is read meanwhile."""

import struct
from typing import Final

import msgspec

from contracts.charging import CHARGE_KEY, ChargeRequest, decode_response, encode
from wire.faults import MalformedFrame

_HEAD: Final = struct.Struct(">ihhih")
_HEAD_BYTES: Final = _HEAD.size - 4
_NO_CLIENT_ID: Final = -1


def charge_frame(request: ChargeRequest) -> bytes:
    """What goes up to a broker that we are logged in at, with 0 as its correlation id."""
    body = encode(request)
    return _HEAD.pack(_HEAD_BYTES + len(body), CHARGE_KEY, 0, 0, _NO_CLIENT_ID) + body


def charged_throttle_ms(answer: bytes) -> int:
    """throttle_time_ms of the broker's answer. Raises: MalformedFrame."""
    try:
        return decode_response(answer).throttle_time_ms
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
