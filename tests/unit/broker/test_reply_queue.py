"""What leaves on a socket is what was queued, however little the socket takes."""

import os
import socket
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from broker.net.reply_queue import PeerGone, ReplyQueue
from runtime.network import KERNEL_NETWORK


class _Slice(NamedTuple):
    fd: int
    position: int
    size_bytes: int


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    yield ours, theirs
    ours.close()
    theirs.close()


def _drain(replies: ReplyQueue, theirs: socket.socket, step: int) -> bytes:
    out = bytearray()
    while True:
        try:
            out += theirs.recv(step)
        except BlockingIOError:
            if not replies:
                return bytes(out)
            replies.flush()


@pytest.mark.parametrize("step", [100, 5_000, 1 << 20])
def test_bytes_and_files_leave_in_order(pair: tuple[socket.socket, socket.socket], step: int) -> None:
    ours, theirs = pair
    content = os.urandom(300_000)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        replies = ReplyQueue(ours, KERNEL_NETWORK)
        parts = [
            b"head" * 3_000,
            _Slice(file.fileno(), 10, 200_000),
            b"between",
            memoryview(b"more"),
            _Slice(file.fileno(), 250_000, 50_000),
            _Slice(file.fileno(), 0, 1),
            b"tail" * 10_000,
        ]
        assert not replies.send(list(parts))
        expected = (
            b"head" * 3_000
            + content[10:200_010]
            + b"between"
            + b"more"
            + content[250_000:]
            + content[:1]
            + b"tail" * 10_000
        )
        assert _drain(replies, theirs, step) == expected
        assert replies.sent_bytes == len(expected)


def test_one_small_reply_leaves_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    replies = ReplyQueue(ours, KERNEL_NETWORK)
    assert replies.send([b"reply"])
    assert not replies
    assert theirs.recv(10) == b"reply"


def test_a_peer_that_is_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(PeerGone):
        ReplyQueue(ours, KERNEL_NETWORK).send([b"reply"])


def test_a_file_shorter_than_its_slice_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    with tempfile.TemporaryFile() as file, pytest.raises(PeerGone, match="shorter"):
        ReplyQueue(ours, KERNEL_NETWORK).send([b"head", _Slice(file.fileno(), 0, 10)])
