"""A bounded number of requests on kazoo's connection; the rest wait their turn here.

kazoo wakes its thread with one byte per request on a blocking socket pair, which holds some 270: a caller
that sends more than the thread takes would block, and with it the event loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import ConnectionLoss, SessionExpiredError

from runtime.tree.kazoo_loop import Mailbox, Reply

Done = Callable[[Any, Exception | None], None]
_IN_FLIGHT_MAX: Final = 128


class Pipeline:
    """Requests in order. All of it runs on the event loop."""

    def __init__(self, client: Any, mailbox: Mailbox) -> None:
        self._client = client
        self._mailbox = mailbox
        self._waiting: deque[tuple[Any, Done]] = deque()
        self._in_flight = 0
        self._generation = 0

    def call(self, request: Any, done: Done) -> None:
        """Send a request; `done` is called with its answer or an error, unless the connection is lost."""
        self._waiting.append((request, done))
        self._send()

    def lost(self) -> None:
        """The connection is lost: what waits is dropped, what was sent counts no more."""
        self._waiting.clear()
        self._in_flight = 0
        self._generation += 1

    def _send(self) -> None:
        while self._waiting and self._in_flight < _IN_FLIGHT_MAX:
            request, done = self._waiting.popleft()
            self._in_flight += 1
            self._client._call(request, Reply(self._mailbox, self._answered(done)))

    def _answered(self, done: Done) -> Done:
        generation = self._generation

        def answered(answer: Any, error: Exception | None) -> None:
            if generation == self._generation:
                self._in_flight -= 1
                # after a failed connection the loss is told next: nothing more is sent on it
                if not isinstance(error, ConnectionLoss | SessionExpiredError):
                    self._send()
            done(answer, error)

        return answered
