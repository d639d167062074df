"""Background tasks that may not die in silence: a failed one is logged and started again with back-off."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from runtime.logs import get_logger

_log = get_logger(__name__)
_BACKOFF_FIRST_S: Final = 0.1
_BACKOFF_LAST_S: Final = 10.0
_STEADY_S: Final = 30.0
"""A task that ran this long starts its back-off anew."""


class Supervised:
    """A set of named tasks; each runs its coroutine function again after a failure, until `aclose`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Start a task. One that returns is done; one that raises is restarted."""
        task = asyncio.create_task(self._run(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        backoff_s, loop = _BACKOFF_FIRST_S, asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            try:
                await work()
                return
            except Exception:  # noqa: BLE001 - the boundary where a task's failure is reported
                _log.exception("task failed, starting it again", task=name, backoff_s=backoff_s)
            if loop.time() - started_s > _STEADY_S:
                backoff_s = _BACKOFF_FIRST_S
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _BACKOFF_LAST_S)

    async def aclose(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
