"""A worker's listening sockets go over to its successor (ADR 51): nobody is refused or reset.

The sockets themselves are handed over, with the connections in their queues: to close one would reset those,
also where another process listens beside it. The worker accepts until its successor says that it serves.
"""

import asyncio
import contextlib
import errno
import json
import os
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Final

from gateway.shared_ports import Place
from runtime.logs import get_logger

_log = get_logger(__name__)
_AT_ONCE: Final = 250
"""Descriptors of one message; the kernel takes 253."""
_MESSAGE_BYTES_MAX: Final = 64 * 1024
_FULL: Final = frozenset({errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS})
_AGAIN_S: Final = 0.01
_SUCCESSOR_S: Final = 60.0
"""How long a successor may take to serve. Then it has failed, and everything stays as it was."""
_TAKEN: Final = b"taken"
_CREDENTIALS: Final = struct.Struct("3i")


def _address(pid: int) -> str:
    return f"\0portico-gateway-{pid}"


def _is_ours(peer: socket.socket) -> bool:
    """Whether a process of our own user speaks."""
    told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(told)[1] == os.geteuid())


class Giver:
    """Waits for a successor. One at a time; a successor that fails leaves everything as it was."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Callable[[], Iterable[tuple[Place, socket.socket]]],
        taken: Callable[[], None],
    ) -> None:
        """`taken` is called when a successor serves with these sockets."""
        self._loop = loop
        self._sockets = sockets
        self._taken = taken
        self._task: asyncio.Task[None] | None = None
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)

    def start(self) -> None:
        """Listen under a name that only the process's id is needed for."""
        try:
            self._listening.bind(_address(os.getpid()))
        except OSError as error:  # another process, in another namespace of ids, has this one
            _log.warning("no successor can take the listeners over", error=str(error))
            return
        self._listening.listen(1)
        self._loop.add_reader(self._listening.fileno(), self._called)

    def _called(self) -> None:
        try:
            peer, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError):
            return
        if not _is_ours(peer) or self._task is not None:
            peer.close()
            return
        self._task = self._loop.create_task(self._give(peer))

    async def _give(self, peer: socket.socket) -> None:
        try:
            with peer:
                peer.setblocking(False)
                every = list(self._sockets())
                for start in range(0, len(every), _AT_ONCE):
                    await self._send(peer, every[start : start + _AT_ONCE])
                await self._send(peer, [])
                peer.settimeout(_SUCCESSOR_S)
                answer = await asyncio.to_thread(peer.recv, len(_TAKEN))
        except OSError as error:
            _log.warning("the successor did not take the listeners", error=str(error))
        else:
            if answer == _TAKEN:
                self._taken()
            else:
                _log.warning("the successor ended before it served")
        finally:
            self._task = None

    async def _send(self, peer: socket.socket, batch: list[tuple[Place, socket.socket]]) -> None:
        while True:
            open_now = [(place, sock.fileno()) for place, sock in batch if sock.fileno() >= 0]
            told = json.dumps([place for place, _ in open_now]).encode()
            try:
                socket.send_fds(peer, [told], [descriptor for _, descriptor in open_now])
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
            await asyncio.sleep(_AGAIN_S)

    def close(self) -> None:
        """Nobody is waited for any more."""
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        if self._task is not None:
            self._task.cancel()


class Taken:
    """What a predecessor has given. `serves` tells it that it may go."""

    def __init__(self, peer: socket.socket, sockets: dict[Place, socket.socket]) -> None:
        self._peer = peer
        self.sockets: Final = sockets

    def serves(self) -> None:
        """Those that no listener wanted are closed. A predecessor that has gone is not told."""
        for sock in self.sockets.values():
            sock.close()
        self.sockets.clear()
        with self._peer, contextlib.suppress(OSError):
            self._peer.send(_TAKEN)


def take(pid: int) -> Taken | None:
    """The listening sockets of a running worker; None: there is none, or it does not give any. Blocks."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(_SUCCESSOR_S)
    sockets: dict[Place, socket.socket] = {}
    try:
        peer.connect(_address(pid))
        if not _is_ours(peer):
            raise PermissionError(errno.EPERM, "it is another user's")
        while True:
            told, descriptors, _flags, _from = socket.recv_fds(peer, _MESSAGE_BYTES_MAX, _AT_ONCE)
            if not told:
                raise ConnectionError("it ended meanwhile")
            places = [(host, port) for host, port in json.loads(told)]
            if not places:
                return Taken(peer, sockets)
            received = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            for place, sock in zip(places, received, strict=True):
                sock.setblocking(False)
                sockets[place] = sock
    except (OSError, ValueError) as error:
        _log.warning("no listeners were taken over, they are bound anew", pid=pid, error=str(error))
        for sock in sockets.values():
            sock.close()
        peer.close()
        return None
