"""What we answer ourselves is charged to its instance all the same: the broker is told, and says when to go
on.

Nothing of the client is read meanwhile. A backend that nobody logs in at has no quota of ours.
"""

import asyncio
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from contracts.charging import CHARGE_KEY, ChargeRequest, decode_response, encode
from gateway.ordering import Exchange
from wire.codec import duration
from wire.faults import MalformedFrame

if TYPE_CHECKING:
    from gateway.connection import Connection

_HEAD: Final = struct.Struct(">ihhih")
_HEAD_BYTES: Final = _HEAD.size - 4
_NO_CLIENT_ID: Final = -1


async def charge(conn: "Connection", request: ChargeRequest) -> int:
    """Have it charged; answers throttle_time_ms, when the instance's turn has come.

    Raises: ConnectionStop, MalformedFrame.
    """
    if not conn.worker.has_secret:
        return 0
    exchange = Exchange(CHARGE_KEY, 0, 0)
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    exchange.taker = answered.set_result
    conn.queue.forwarded(exchange)
    body = encode(request)
    conn.dialled().send([_HEAD.pack(_HEAD_BYTES + len(body), CHARGE_KEY, 0, 0, _NO_CLIENT_ID) + body])
    try:
        return decode_response(await answered).throttle_time_ms
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error


def throttled(response: Any, throttle_time_ms: int) -> Any:
    """The response with its throttle_time_ms, where its version has one."""
    if not throttle_time_ms or not hasattr(response, "throttle_time"):
        return response
    return replace(response, throttle_time=duration(throttle_time_ms))
