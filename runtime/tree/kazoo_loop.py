"""How kazoo's threads hand over to the event loop: in order, without ever waiting for it."""

import asyncio
import contextlib
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from runtime.logs import get_logger
from runtime.tree.silence import Silence

_log = get_logger(__name__)


class Mailbox:
    """Calls from other threads, made on the loop in the order they were posted; one wake-up for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._scheduled = False

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Have the loop call a function."""
        self._calls.append((function, arguments))
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        while self._calls:
            function, arguments = self._calls.popleft()
            try:
                function(*arguments)
            except Exception:  # noqa: BLE001 - the boundary where a thread's message is handled
                _log.exception("a message of kazoo's thread was not handled")


class Reply:
    """What kazoo's connection completes: it has the two methods of kazoo's AsyncResult that it calls."""

    def __init__(self, mailbox: Mailbox, done: Callable[[Any, Exception | None], None]) -> None:
        self._mailbox = mailbox
        self._done = done

    def set(self, value: Any = None) -> None:
        """The answer came."""
        self._mailbox.post(self._done, value, None)

    def set_exception(self, error: Exception) -> None:
        """The server refused, or the connection is lost."""
        self._mailbox.post(self._done, None, error)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's threads, with watches delivered to the loop and a select that makes no epoll per call and ends
    the wait for a server that has not answered within `silence_s`."""

    def __init__(self, mailbox: Mailbox, silence_s: float) -> None:
        super().__init__()
        self._mailbox = mailbox
        self._silence = Silence(silence_s)

    def dispatch_callback(self, callback: Any) -> None:
        """Deliver a watch."""
        self._mailbox.post(callback.func, *callback.args)

    def select(
        self,
        readable: Sequence[Any],
        writable: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Like select.select, for any file number. The first one read is the server's socket; a second one is
        readable when there are requests to send. Raises: the timeout of kazoo's handlers."""
        owes_s = self._silence.left_s(time.monotonic()) if len(readable) > 1 else None
        if owes_s is not None:
            timeout = owes_s if timeout is None else min(timeout, owes_s)
        poll = select.poll()
        for source in readable:
            poll.register(source, select.POLLIN)
        for sink in writable:
            poll.register(sink, select.POLLOUT)
        ready = dict(poll.poll(None if timeout is None else max(timeout, 0) * 1000))
        now_s = time.monotonic()
        if readable and readable[0].fileno() in ready:
            self._silence.heard()  # however late this thread comes to read it
        elif owes_s is not None and self._silence.is_over(now_s):
            self._silence.heard()
            raise self.timeout_exception("the server answers no requests")
        elif len(readable) > 1 and ready:
            self._silence.asked(now_s)
        return (
            [source for source in readable if source.fileno() in ready],
            [sink for sink in writable if sink.fileno() in ready],
            [],
        )
