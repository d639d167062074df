"""fdatasync off the reply path: dirty logs every second, and at once where acks wait for it.

Preparing and completing a flush happen on the event loop, only the blocking part on the thread. One flush of
a log runs at a time; who asks meanwhile is served by the next one.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker.log.errors import StorageFailed
from broker.log.manager import LogManager
from broker.log.partition_log import PartitionLog

Done = Callable[[bool], None]
"""Called with whether the flush failed."""
_THREADS: Final = 2


class _Ticket:
    """One request that waits for several logs."""

    __slots__ = ("done", "failed", "waits_for")

    def __init__(self, waits_for: int, done: Done) -> None:
        self.waits_for = waits_for
        self.done = done
        self.failed = False

    def one_done(self, failed: bool) -> None:
        self.failed |= failed
        self.waits_for -= 1
        if self.waits_for == 0:
            self.done(self.failed)


class Flusher:
    """Flushes logs for the broker. `on_failure` hears of every refusal of the disk."""

    def __init__(
        self,
        logs: LogManager,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self._logs = logs
        self._loop = loop
        self._on_failure = on_failure
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flush")
        self._running: dict[PartitionLog, asyncio.Future[None]] = {}
        self._waiting: dict[PartitionLog, list[_Ticket]] = {}

    def sync(self, logs: Iterable[PartitionLog], done: Done) -> None:
        """Call `done` when everything appended to these logs so far is on the disk, or the disk refused."""
        distinct = list(dict.fromkeys(logs))
        ticket = _Ticket(len(distinct), done)
        for log in distinct:
            self._waiting.setdefault(log, []).append(ticket)
            if log not in self._running:
                self._start(log)

    def flush_dirty(self) -> None:
        """Start flushing every log that is dirty long enough."""
        for log in self._logs.dirty_logs():
            if log not in self._running:
                self._start(log)

    def _start(self, log: PartitionLog) -> None:
        tickets = self._waiting.pop(log, [])
        try:
            job = log.begin_flush()
        except StorageFailed as error:
            self._on_failure("a flush cannot begin", error)
            self._loop.call_soon(_tell, tickets, True)
            return
        if job is None:
            self._loop.call_soon(_tell, tickets, log.failure is not None)
            return
        future = self._loop.run_in_executor(self._threads, job.run)
        self._running[log] = future

        def finished(_future: "asyncio.Future[None]") -> None:
            del self._running[log]
            failed = False
            try:
                log.complete_flush(job)
            except StorageFailed as error:
                failed = True
                self._on_failure("a flush failed", error)
            _tell(tickets, failed)
            if log in self._waiting:
                self._start(log)

        future.add_done_callback(finished)

    async def settle(self) -> None:
        """Wait until no flush runs."""
        while self._running:
            await asyncio.gather(*self._running.values())
            await asyncio.sleep(0)

    async def run(self, work: Callable[[], None]) -> None:
        """Run blocking work on a flush thread."""
        await self._loop.run_in_executor(self._threads, work)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


def _tell(tickets: list[_Ticket], failed: bool) -> None:
    for ticket in tickets:
        ticket.one_done(failed)
