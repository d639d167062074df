"""Compacts logs in the background, one after the other, each in a process that computes beside the broker."""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.log.errors import StorageFailed
from broker.storage.log_cleaner import CleaningRound, LogCleaner
from broker.storage.manager import LogManager
from runtime.logs import get_logger

_log = get_logger(__name__)
BACKOFF_S: Final = 15.0
"""Kafka's log.cleaner.backoff.ms: how often it looks when there was nothing to compact."""


class Compacting:
    """`on_failure` hears of every refusal of the disk."""

    def __init__(
        self, logs: LogManager, epoch_ms: Callable[[], int], on_failure: Callable[[str, Exception], None]
    ) -> None:
        self._cleaner = LogCleaner(logs.logs)
        self._epoch_ms = epoch_ms
        self._on_failure = on_failure

    async def run(self) -> None:
        """For ever; when cancelled, what is being computed is dropped."""
        while True:
            await asyncio.sleep(BACKOFF_S)
            while await self.compact_one():
                pass

    async def compact_one(self) -> bool:
        """Whether there may be more to do."""
        try:
            found = self._cleaner.begin(self._epoch_ms())
            if found is None:
                return False
            try:
                await asyncio.to_thread(found.run)
            except asyncio.CancelledError:
                found.job.is_cancelled = True  # the thread ends its process and removes what it wrote
                raise
            self._complete(found)
        except StorageFailed as error:
            self._on_failure("a compaction failed", error)
            return False
        return True

    def _complete(self, found: CleaningRound) -> None:
        log, result = found.log, self._cleaner.complete(found)
        name = f"{log.topic}-{log.partition}"
        if result is not None:
            _log.info(
                "log compacted",
                log=name,
                read_bytes=result.read_bytes,
                written_bytes=result.written_bytes,
                records_kept=result.records_kept,
                records_dropped=result.records_dropped,
            )
        elif log.compaction.uncleanable is not None:
            _log.error("a damaged log is not compacted any more", log=name, reason=log.compaction.uncleanable)
