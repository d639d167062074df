"""When a server counts as silent."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from runtime.tree.kazoo_loop import LoopHandler, Mailbox
from runtime.tree.silence import Silence

_LIMIT_S = 0.05


def test_it_owes_an_answer_from_the_first_request_on() -> None:
    silence = Silence(4.0)
    assert silence.left_s(0.0) is None, "nothing was asked"
    for at_s in (10.0, 11.0, 13.5):
        silence.asked(at_s)
    assert silence.left_s(13.5) == 0.5, "later requests buy it no time"
    assert not silence.is_over(13.9)
    assert silence.left_s(14.0) == 0.0
    assert silence.is_over(14.0)
    silence.heard()
    assert silence.left_s(14.0) is None
    assert not silence.is_over(14.0)
    silence.asked(20.0)
    assert silence.left_s(20.0) == 4.0


@pytest.fixture
def pairs() -> Iterator[list[socket.socket]]:
    """A server's socket and its other end, a queue of requests and its other end."""
    sockets = [*socket.socketpair(), *socket.socketpair()]
    yield sockets
    for each in sockets:
        each.close()


@pytest.fixture
def handler() -> Iterator[LoopHandler]:
    loop = asyncio.new_event_loop()
    yield LoopHandler(Mailbox(loop), silence_s=_LIMIT_S)
    loop.close()


def _wait_for_ever(handler: LoopHandler, sources: list[socket.socket]) -> None:
    while True:
        handler.select(sources, [], [], 1)


def test_an_answer_that_came_in_time_counts_however_late_it_is_looked_for(
    handler: LoopHandler, pairs: list[socket.socket]
) -> None:
    ours, server, requests, caller = pairs
    caller.send(b"1")
    assert handler.select([ours, requests], [], [], 1)[0] == [requests]
    server.send(b"answer")
    requests.recv(1)
    time.sleep(2 * _LIMIT_S)  # this thread got no processor
    assert handler.select([ours, requests], [], [], 1)[0] == [ours]
    ours.recv(6)
    caller.send(b"2")
    assert handler.select([ours, requests], [], [], 1)[0] == [requests], "from here on it owes an answer"
    with pytest.raises(handler.timeout_exception, match="answers no requests"):
        _wait_for_ever(handler, [ours, requests])
