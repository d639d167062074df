"""An event loop whose time jumps to the next timer when nothing is left to do, and nodes that stop in it.

Everything a node does runs in a context that names it. A dead node's callbacks never run again, a paused
one's are kept until it goes on: kill -9 and SIGSTOP for a part of a process. Threads do not exist: what is
meant for one runs at once.
"""

import asyncio
import contextvars
import selectors
import socket
from collections.abc import Callable
from typing import Any, Protocol

from runtime.clock import Clock

EPOCH_MS = 1_750_000_000_000
_AFTER_TIMER_S = 1e-6


class NodeState:
    """Whether what a node has begun goes on."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.is_alive = True
        self.is_paused = False
        self.clock_skew_ms = 0
        self.parked: list[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = []
        self.watched: dict[tuple[int, bool], tuple[contextvars.Context, Callable[..., object], Any]] = {}
        """What it waits for: (file descriptor, whether to write) -> how to go on."""


NODE: contextvars.ContextVar[NodeState | None] = contextvars.ContextVar("node", default=None)


class Route(Protocol):
    """The network, as connecting sockets see it."""

    def route(self, source: NodeState | None, port: int) -> int:
        """The port that leads to `port` from this source. Raises: ConnectionRefusedError."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: where it would, time moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            if timeout is None:
                raise AssertionError("nothing will ever happen any more")
            self.now_s += timeout + _AFTER_TIMER_S
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`network` is set before anybody connects."""

    network: Route

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return super().call_soon(*self._guarded(callback, args, context), context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return super().call_at(when, *self._guarded(callback, args, context), context=context)

    def _add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:
        return self._watch(fd, False, super()._add_reader, callback, args)  # type: ignore[misc]

    def _add_writer(self, fd: Any, callback: Any, *args: Any) -> Any:
        return self._watch(fd, True, super()._add_writer, callback, args)  # type: ignore[misc]

    def _remove_reader(self, fd: Any) -> Any:
        self._unwatch(fd, False)
        return super()._remove_reader(fd)  # type: ignore[misc]

    def _remove_writer(self, fd: Any) -> Any:
        self._unwatch(fd, True)
        return super()._remove_writer(fd)  # type: ignore[misc]

    def _watch(self, fd: Any, writes: bool, add: Any, callback: Any, args: Any) -> Any:
        node = NODE.get()
        if node is None:
            return add(fd, callback, *args)
        node.watched[_number(fd), writes] = (contextvars.copy_context(), callback, args)
        return add(fd, _run_if_awake, node, callback, args)

    def _unwatch(self, fd: Any, writes: bool) -> None:
        node = NODE.get()
        if node is not None:
            node.watched.pop((_number(fd), writes), None)

    def freeze(self, node: NodeState) -> None:
        """Look at none of the node's descriptors any more: they would be ready for ever."""
        for fd, writes in list(node.watched):
            (super()._remove_writer if writes else super()._remove_reader)(fd)  # type: ignore[misc]

    def thaw(self, node: NodeState) -> None:
        """The node goes on: what was due happens now, in its order."""
        node.is_paused = False
        parked, node.parked = node.parked, []
        for callback, args, context in parked:
            self.call_soon(callback, *args, context=context)
        for (fd, writes), (context, callback, args) in list(node.watched.items()):
            context.run(self._add_writer if writes else self._add_reader, fd, callback, *args)

    def _guarded(self, callback: Any, args: Any, context: contextvars.Context | None) -> tuple[Any, ...]:
        if callback is _run_of_node:  # call_later comes here by way of call_at
            return (callback, *args)
        node = NODE.get() if context is None else context.get(NODE)
        if node is None:
            return (callback, *args)
        return (_run_of_node, node, callback, args)

    def run_in_executor(self, _executor: Any, func: Any, *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        port = self.network.route(NODE.get(), int(address[1]))
        await super().sock_connect(sock, (address[0], port))


def _run_of_node(node: NodeState, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    if not node.is_alive:
        return
    if node.is_paused:
        node.parked.append((callback, args, contextvars.copy_context()))
        return
    callback(*args)


def _run_if_awake(node: NodeState, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    if node.is_alive and not node.is_paused:
        callback(*args)


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())


def virtual_clock(loop: VirtualLoop, state: NodeState) -> Clock:
    """A node's: steps cost nothing, and the wall clock is off by the node's skew."""

    def monotonic_ns() -> int:
        return int(loop.time() * 1e9)

    def monotonic_ms() -> int:
        return int(loop.time() * 1e3)

    def epoch_ms() -> int:
        return EPOCH_MS + monotonic_ms() + state.clock_skew_ms

    return Clock(epoch_ms, monotonic_ms, monotonic_ns, monotonic_ns)
