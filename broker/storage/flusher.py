"""fdatasync off the reply path: dirty logs every second, and at once where acks wait for it.

Preparing and completing a flush happen on the event loop, only the blocking part on a thread. One flush runs
at a time; who asks meanwhile is served by the next one, together with everyone else who asked (group commit).
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from broker.log.errors import StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.results import FlushJob
from broker.storage.manager import LogManager

Done = Callable[[bool], None]
"""Called with whether the flush failed."""


class Flusher:
    """Flushes logs for the broker. `on_failure` hears of every refusal of the disk."""

    def __init__(
        self,
        logs: LogManager,
        loop: asyncio.AbstractEventLoop,
        epoch_ms: Callable[[], int],
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self._logs = logs
        self._loop = loop
        self._epoch_ms = epoch_ms
        self._on_failure = on_failure
        self._flush_thread = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._work_thread = ThreadPoolExecutor(1, thread_name_prefix="files")
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[list[PartitionLog], Done]] = []
        self._rounds: set[asyncio.Task[None]] = set()

    def sync(self, logs: Iterable[PartitionLog], done: Done) -> None:
        """Call `done` when everything appended to these logs so far is on the disk, or the disk refused."""
        self._waiting.append((list(dict.fromkeys(logs)), done))
        if len(self._waiting) == 1:
            task = self._loop.create_task(self._serve_waiting())
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)

    async def _serve_waiting(self) -> None:
        async with self._turn:
            waiting, self._waiting = self._waiting, []
            logs = dict.fromkeys(log for wanted, _ in waiting for log in wanted)
            failed: set[PartitionLog] = set()
            jobs: list[tuple[PartitionLog, FlushJob]] = []
            for log in logs:
                try:
                    job = log.durability.begin_flush()
                except StorageFailed as error:
                    self._fail(log, failed, error)
                    continue
                if job is not None:
                    jobs.append((log, job))
                elif log.standing.failure is not None:
                    failed.add(log)
            await self._loop.run_in_executor(self._flush_thread, _run_all, [job for _, job in jobs])
            for log, job in jobs:
                try:
                    log.durability.complete_flush(job)
                except StorageFailed as error:
                    self._fail(log, failed, error)
        for wanted, done in waiting:
            done(not failed.isdisjoint(wanted))

    def _fail(self, log: PartitionLog, failed: set[PartitionLog], error: StorageFailed) -> None:
        failed.add(log)
        self._on_failure("a flush failed", error)

    async def flush_dirty(self, within_ms: int) -> None:
        """Flush every log that is dirty for long enough, or will be `within_ms`."""
        async with self._turn:
            flush_round = self._logs.begin_flush(self._epoch_ms(), within_ms=within_ms)
            if flush_round is None:
                return
            await self._loop.run_in_executor(self._flush_thread, flush_round.run)
            for error in self._logs.complete_flush(flush_round):
                self._on_failure("a flush failed", error)

    async def run(self, work: Callable[[], None]) -> None:
        """Run blocking file work on a thread of its own."""
        await self._loop.run_in_executor(self._work_thread, work)

    async def aclose(self) -> None:
        """Let what runs come to its end."""
        if self._rounds:
            await asyncio.wait(self._rounds)
        async with self._turn:
            self._flush_thread.shutdown()
            self._work_thread.shutdown()


def _run_all(jobs: list[FlushJob]) -> None:
    for job in jobs:
        job.run()
