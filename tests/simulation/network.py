"""Relays between nodes: bytes arrive late, connections break, pairs of nodes lose sight of each other."""

import asyncio
import contextlib
import contextvars
import random
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.virtual import NodeState, VirtualLoop

_CHUNK_BYTES = 256 * 1024
NOBODY = contextvars.Context()
"""In which no node is named."""
CLIENT = 0
"""The node id of everybody who is no broker."""


class Network:
    """`port_of(node)` is where a node listens, None while it does not."""

    def __init__(
        self, loop: VirtualLoop, chance: random.Random, port_of: Callable[[int], int | None]
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._port_of = port_of
        self._listeners: dict[tuple[int, int], socket.socket] = {}
        self._cut: set[frozenset[int]] = set()
        self._healed = asyncio.Event()
        self._relays: set[_Relay] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay_max_s = 0.004
        self.addresses: dict[int, int] = {}
        """Port that is advertised -> node."""

    # -- faults ------------------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        """What they send each other waits from now on."""
        self._cut.add(frozenset((one, other)))

    def heal(self) -> None:
        """All see each other again; what waited arrives, late."""
        self._cut.clear()
        self._healed.set()
        self._healed = asyncio.Event()

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self._cut

    def close_all_of(self, node_id: int) -> None:
        """The node died: its connections are reset."""
        for relay in [each for each in self._relays if node_id in each.ends]:
            relay.close()

    def break_one(self) -> None:
        """Some connection breaks."""
        if self._relays:
            self._chance.choice(sorted(self._relays, key=lambda relay: relay.number)).close()

    # -- connecting --------------------------------------------------------------------------------------

    def route(self, source: NodeState | None, port: int) -> int:
        """The relay's port towards an advertised port."""
        target = self.addresses.get(port)
        if target is None or self._port_of(target) is None:
            raise ConnectionRefusedError(111, "nobody listens")
        pair = (CLIENT if source is None else source.node_id, target)
        listener = self._listeners.get(pair)
        if listener is None:
            listener = self._listeners[pair] = socket.create_server(("127.0.0.1", 0), backlog=1024)
            listener.setblocking(False)
            # made in the context of nobody: the listener outlives whoever connects first
            task = asyncio.Task(self._accept(listener, pair), loop=self._loop, context=NOBODY.copy())
            self._tasks.add(task)
        return int(listener.getsockname()[1])

    async def _accept(self, listener: socket.socket, pair: tuple[int, int]) -> None:
        while True:
            near, _ = await self._loop.sock_accept(listener)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._spawn(self._relay(near, pair))

    async def _relay(self, near: socket.socket, pair: tuple[int, int]) -> None:
        await self._in_sight(pair)
        port = self._port_of(pair[1])
        if port is None:
            near.close()
            return
        far = socket.socket()
        far.setblocking(False)
        try:
            await asyncio.SelectorEventLoop.sock_connect(self._loop, far, ("127.0.0.1", port))
        except OSError:
            near.close()
            far.close()
            return
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        relay = _Relay(len(self._tasks), pair, near, far)
        self._relays.add(relay)
        pumps = [
            self._spawn(self._pump(relay, near, far)),
            self._spawn(self._pump(relay, far, near)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        relay.close()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        near.close()
        far.close()
        self._relays.discard(relay)

    async def _pump(self, relay: "_Relay", source: socket.socket, target: socket.socket) -> None:
        try:
            while not relay.is_closed:
                data = await self._loop.sock_recv(source, _CHUNK_BYTES)
                if not data:
                    return
                await asyncio.sleep(self._chance.uniform(0.0001, self.delay_max_s))
                await self._in_sight(relay.ends)
                if relay.is_closed:
                    return
                await self._loop.sock_sendall(target, data)
        except (OSError, ValueError):
            return

    async def _in_sight(self, pair: tuple[int, int]) -> None:
        while self.is_cut(*pair):
            await self._healed.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.Task(work, loop=self._loop, context=NOBODY.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Relay:
    """One connection between two nodes."""

    def __init__(self, number: int, ends: tuple[int, int], near: socket.socket, far: socket.socket) -> None:
        self.number = number
        self.ends = ends
        self.is_closed = False
        self._sockets = (near, far)

    def close(self) -> None:
        """Reset both sides."""
        if not self.is_closed:
            self.is_closed = True
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
