"""A part of a process on a thread and an event loop of its own, so that it does not wait for the others."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from runtime.notify import Notifier


class LoopThread:
    """One thread that runs a coroutine until it ends or is stopped. Made on the loop that waits for it."""

    def __init__(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`main` is called in the thread; a cancellation asks it to end."""
        self._main = main
        self._waiting = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._waiting.create_future()
        """Done when the thread's work is, with its exception if there was one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """Cancel its work and wait until that has cleaned up."""
        with self._turn:
            self._is_stopping = True
            if self._loop is not None and self._task is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.wait([self.ended])

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._until_stopped())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - told to whom waits for the thread, also SystemExit
            failure = error
        self._waiting.call_soon_threadsafe(self._tell, failure)

    async def _until_stopped(self) -> None:
        with self._turn:
            if self._is_stopping:
                return
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.ensure_future(self._main())
        beats = asyncio.ensure_future(Notifier().beat(self._thread.name))
        try:
            await self._task
        finally:
            beats.cancel()

    def _tell(self, failure: BaseException | None) -> None:
        if self.ended.done():
            return
        if failure is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(failure)
