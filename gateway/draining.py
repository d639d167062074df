"""A worker that was replaced lets its connections go: each when nothing of it is under way, over some time.

A client takes the end of an idle connection as what it is and comes again, to the successor. All at once they
would be a storm of connections there.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from gateway.causes import DisconnectCause
from gateway.connection import Connection
from gateway.worker import Worker
from wire.api_table import ApiKey

CUT_AFTER_MS: Final = 30_000
"""Connections that were never idle for so long after idle ones were closed are cut."""
_LOOK_S: Final = 0.05


def is_idle(connection: Connection) -> bool:
    """Whether nobody would miss a word: nothing is under way but Fetch, of which nothing was answered yet and
    which is asked again, and nothing stands unread in the kernel."""
    session, upstream, replies = connection.session, connection.upstream, connection.replies
    if not session.requests.frames or not session.sides.flows or connection.task is not None:
        return False
    if session.requests.in_frame or session.requests.is_held_back or not session.is_taken:
        return False
    halves = [connection.requests] if replies is None else [connection.requests, replies]
    if any(half.unhandled is not None or half.waits for half in halves):
        return False
    if connection.client.queue or (upstream is not None and (upstream.queue or upstream.held)):
        return False
    if session.replies.editor is not None or session.replies.stash:
        return False
    if any(each.api_key != ApiKey.FETCH or each.reply for each in session.queue.waiting or ()):
        return False
    return not connection.place.network.unread_bytes(cast(socket.socket, connection.client.sock))


async def let_go(worker: Worker, spread_ms: int, nameless: Callable[[], int]) -> None:
    """Close every connection of a worker that accepts none any more. `nameless` are those that will be one
    soon, or have ended, by a timeout of their own."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while (left := [one for served in worker.served.values() for one in served.connections]) or nameless():
        passed_s = loop.time() - began_s
        if passed_s * 1000 >= spread_ms + CUT_AFTER_MS:
            for connection in left:
                connection.close(DisconnectCause.GATEWAY_STOPPED)
            return
        looks_left = max(1.0, (spread_ms / 1000 - passed_s) / _LOOK_S)
        at_once = max(1, round(len(left) / looks_left))
        for connection in left:
            if not at_once:
                break
            assert isinstance(connection, Connection)
            if is_idle(connection):
                connection.close(DisconnectCause.GATEWAY_REPLACED)
                at_once -= 1
        await asyncio.sleep(_LOOK_S)
