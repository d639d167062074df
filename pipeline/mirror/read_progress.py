"""Reads the progress topic, committed records only, up to where it ended when the reading began."""

import time
from typing import Final

from confluent_kafka.admin import NewTopic

from pipeline.ingest.admin import LATEST
from pipeline.mirror.clients import TRANSACTION_TIMEOUT_S, PartitionReader
from pipeline.mirror.cluster import Cluster
from pipeline.mirror.planning.errors import Paused, Unreachable
from pipeline.mirror.planning.progress import PROGRESS_PARTITION, PROGRESS_TOPIC, Progress

_PLACE: Final = (PROGRESS_TOPIC, PROGRESS_PARTITION)
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
}
_WITHIN_S: Final = TRANSACTION_TIMEOUT_S + 10


def ensure_progress_topic(target: Cluster) -> None:
    """The topic that the mirror keeps its progress in."""
    if target.topic(PROGRESS_TOPIC) is None:
        refused = target.create({PROGRESS_TOPIC: NewTopic(PROGRESS_TOPIC, 1, -1, config=_CONFIGS)})
        if refused:
            raise Paused(refused[PROGRESS_TOPIC])
        target.wait_for({PROGRESS_TOPIC: 1})


class ProgressReader:
    """Reads on, call by call. Needs a `close`."""

    def __init__(self, target: Cluster, progress: Progress) -> None:
        self._target = target
        self._progress = progress
        self._reader: PartitionReader | None = None

    def has_open(self) -> bool:
        """Whether a transaction is open in the topic, which hides what is behind it."""
        stable, everything = self._ends()
        return stable < everything

    def catch_up(self, *, wait: bool) -> None:
        """Read on, up to where the topic ends at this moment.

        `wait` for transactions that are open below its end: whoever fenced a unit before it asks here sees
        the last progress of that unit, also while another mirror's transaction holds the last stable offset
        back.
        """
        stable, everything = self._ends()
        end = everything if wait else stable
        if self._progress.next_offset >= end:
            return
        if self._reader is None:
            self._reader = PartitionReader(self._target.address, *_PLACE, self._progress.next_offset)
        try:
            self._read_to(self._reader, end)
        except Unreachable:
            self.close()  # where the topic was made anew, another reader begins
            raise

    def _ends(self) -> tuple[int, int]:
        """(last stable offset, high watermark)."""
        stable, everything = (
            self._target.offset(_PLACE, LATEST, committed=committed) for committed in (True, False)
        )
        return stable, everything

    def _read_to(self, reader: PartitionReader, end: int) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while self._progress.next_offset < end:
            for message in reader.read():
                self._progress.take(message.offset(), message.key(), message.value())
            self._progress.next_offset = max(self._progress.next_offset, reader.position)
            if time.monotonic() > deadline:
                raise Unreachable(
                    reader.fault or f"an open transaction keeps {PROGRESS_TOPIC} from being read"
                )

    def close(self) -> None:
        """End its connections."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
