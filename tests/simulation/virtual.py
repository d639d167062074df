"""An event loop whose time jumps to the next timer when nothing is left to do, and nodes that stop in it.

Everything a node does runs in a context that names it. A dead node's callbacks never run again, a paused
one's are kept until it goes on: kill -9 and SIGSTOP for a part of a process. Nothing here is of the machine:
sockets are those of `network`, threads do not exist (what is meant for one runs at once), and what is due at
the same moment happens in the order in which it was asked for.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
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
        self.parked: list[Step] = []


NODE: contextvars.ContextVar[NodeState | None] = contextvars.ContextVar("node", default=None)


class Watched(Protocol):
    """A socket, as the loop knows it."""

    reader: "Step | None"
    writer: "Step | None"

    def watch(self) -> None:
        """What is waited for has changed: have it called when it is so."""


class Step:
    """A callback of a node, to be run once, at a time, or whenever a socket is ready."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "node", "when_s")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.node = self.context.get(NODE)
        self.is_cancelled = False
        self.when_s = 0.0

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class VirtualLoop(asyncio.BaseEventLoop):
    """`sockets` finds those that are watched by their number."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.sockets: dict[int, Watched] = {}
        self.steps = 0
        self._due: deque[Step] = deque()
        self._timers: list[tuple[float, int, Step]] = []
        self._timer_numbers = count()

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        step = Step(callback, args, context)
        self._due.append(step)
        return step

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        step = Step(callback, args, context)
        step.when_s = when
        heapq.heappush(self._timers, (when, next(self._timer_numbers), step))
        return step

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def again(self, step: Step) -> None:
        """Run a step that was made before."""
        self._due.append(step)

    def _run_once(self) -> None:
        due = self._due
        if not due:
            self._jump()
        for _ in range(len(due)):
            step = due.popleft()
            node = step.node
            if step.is_cancelled or (node is not None and not node.is_alive):
                continue
            if node is not None and node.is_paused:
                node.parked.append(step)
                continue
            self.steps += 1
            try:
                step.context.run(step.callback, *step.args)
            except Exception as error:  # noqa: BLE001 - as loops do: one callback's failure is not another's
                self.call_exception_handler({"message": f"{step.callback} failed", "exception": error})

    def _jump(self) -> None:
        timers, due = self._timers, self._due
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        if not timers:
            raise AssertionError("nothing will ever happen any more")
        self.now_s = now_s = max(self.now_s, timers[0][0] + _AFTER_TIMER_S)
        while timers and timers[0][0] <= now_s:
            due.append(heapq.heappop(timers)[2])

    def thaw(self, node: NodeState) -> None:
        """The node goes on: what was due happens now, in its order."""
        node.is_paused = False
        self._due.extend(node.parked)
        node.parked = []

    def run_in_executor(self, _executor: Any, func: Any, *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    # -- sockets -----------------------------------------------------------------------------------------

    def _socket(self, fd: Any) -> Watched:
        found: Watched = self.sockets[fd] if isinstance(fd, int) else fd
        return found

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        sock = self._socket(fd)
        sock.reader = Step(callback, args, None)
        sock.watch()

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:
        sock = self._socket(fd)
        sock.writer = Step(callback, args, None)
        sock.watch()

    def remove_reader(self, fd: Any) -> bool:
        sock = self._socket(fd)
        had, sock.reader = sock.reader, None
        return had is not None

    def remove_writer(self, fd: Any) -> bool:
        sock = self._socket(fd)
        had, sock.writer = sock.writer, None
        return had is not None

    async def sock_connect(self, sock: Any, address: Any) -> None:
        sock.connect_ex(address)
        await self._ready_to(self.add_writer, self.remove_writer, sock)
        sock.raise_error()

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        while data:
            try:
                data = data[sock.send(data) :]
            except BlockingIOError:
                await self._ready_to(self.add_writer, self.remove_writer, sock)

    async def sock_recv(self, sock: Any, nbytes: int) -> bytes:
        while True:
            try:
                data: bytes = sock.recv(nbytes)
            except BlockingIOError:
                await self._ready_to(self.add_reader, self.remove_reader, sock)
            else:
                return data

    async def _ready_to(self, add: Callable[..., None], remove: Callable[[Any], bool], sock: Any) -> None:
        future = self.create_future()
        add(sock, lambda: future.done() or future.set_result(None))
        try:
            await future
        finally:
            remove(sock)


def virtual_clock(loop: VirtualLoop, state: NodeState) -> Clock:
    """A node's: steps cost nothing, and the wall clock is off by the node's skew."""

    def monotonic_ns() -> int:
        return int(loop.now_s * 1e9)

    def monotonic_ms() -> int:
        return int(loop.now_s * 1e3)

    def epoch_ms() -> int:
        return EPOCH_MS + monotonic_ms() + state.clock_skew_ms

    return Clock(epoch_ms, monotonic_ms, monotonic_ns, monotonic_ns)
