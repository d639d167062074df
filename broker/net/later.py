"""Calls that are answered after their handler has returned: in their turn, from a coroutine, in time."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial

from broker.net.request_time import RequestTime
from broker.requests.call import Call, Channel

HandlerFailed = Callable[[Channel, int], None]
"""Told of a channel and the API key while the exception is handled."""


class Later:
    """What goes on outside of the dispatch is guarded as there: a handler's bug costs one connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        time: RequestTime,
        handler_failed: HandlerFailed,
        is_cluster_known: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._time = time
        self._handler_failed = handler_failed
        self._is_cluster_known = is_cluster_known
        self._until_known: list[Callable[[], None]] = []
        """Calls that wait until a controller has described the cluster."""
        self._answers: set[asyncio.Task[None]] = set()
        """Handlers that wait for the controller."""

    def after_ms(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """A timer. Its callback is not guarded."""
        return self._loop.call_later(delay_ms / 1000, callback)

    def in_turn(self, call: Call, go_on: Callable[[], object]) -> None:
        """Go on with a call when it is its instance's turn; not for a client that is gone."""
        self._time.go_on(call.channel.turn, partial(self._unless_gone, call, go_on))

    def after_others(self, call: Call, go_on: Callable[[], object]) -> None:
        """Give others their turn before going on with a long call."""
        self._loop.call_soon(self.in_turn, call, go_on)

    def _unless_gone(self, call: Call, go_on: Callable[[], object]) -> None:
        if not call.is_gone:
            self.guarded(call, go_on)

    def guarded(self, call: Call, go_on: Callable[[], object]) -> None:
        """Go on now, whether or not the client is gone."""
        try:
            go_on()
        except Exception:  # noqa: BLE001 - as in dispatch: a bug costs one connection
            self._handler_failed(call.channel, call.header.api_key)

    def when_known(self, call: Call, go_on: Callable[[], None]) -> None:
        """Answer a call that needs the cluster's metadata, as soon as there is any."""
        if self._is_cluster_known():
            go_on()
        else:
            self._until_known.append(partial(self._unless_gone, call, go_on))

    def cluster_is_known(self) -> None:
        """A controller has described the cluster."""
        waiting, self._until_known = self._until_known, []
        for go_on in waiting:
            go_on()

    def answer(self, call: Call, answer: Coroutine[object, None, None]) -> None:
        """Answer a call from a coroutine. What it has begun goes on when the client is gone."""
        task = self._loop.create_task(self._awaited(call, answer))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _awaited(self, call: Call, answer: Coroutine[object, None, None]) -> None:
        try:
            await answer
        except Exception:  # noqa: BLE001 - as in dispatch: a bug costs one connection
            self._handler_failed(call.channel, call.header.api_key)

    def close(self) -> None:
        """Nobody waits for an answer any more."""
        for task in self._answers:
            task.cancel()
