"""Topics are watched while they are read: a consumer waits minutes for one that is gone."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.offsets import RefusedError, SourceOffsets, UnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S: Final = 2.0
UNREACHABLE_MAX_S: Final = 60.0
REFUSED_MAX_S: Final = 6.0
"""Shorter: a whitelist that lost us does not come back by itself, and other instances wait for this one."""


def gone(offsets: SourceOffsets, topics: Mapping[str, Topic]) -> dict[str, Topic | None]:
    """Topics that are not what they were, by name: None where deleted, else the one that has its name now."""
    now = offsets.topics(topics)
    return {
        name: now.get(name) for name, topic in topics.items() if name not in now or now[name].id != topic.id
    }


class Patience:
    """With topics that give nothing: they may be throttled, away for a moment, or gone."""

    def __init__(
        self,
        offsets: SourceOffsets,
        topics: Mapping[str, Topic],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._offsets, self._topics, self._clock_s = offsets, topics, clock_s
        self._answered_s = clock_s()

    def must_last(self) -> None:
        """Look. Raises: PipelineError where waiting on is of no use."""
        try:
            self._offsets.must_answer()
            self.must_be_same()
        except UnreachableError as error:
            most_s = REFUSED_MAX_S if isinstance(error, RefusedError) else UNREACHABLE_MAX_S
            if self._clock_s() - self._answered_s > most_s:
                raise
        else:
            self._answered_s = self._clock_s()

    def must_be_same(self) -> None:
        """Raises: PipelineError."""
        if missing := gone(self._offsets, self._topics):
            raise PipelineError(
                f"topic {', '.join(missing)} was deleted while it was read: nothing of it was committed"
            )


class TopicWatch:
    """While a batch runs in this thread: stops it when a topic is gone or nobody answers any more."""

    def __init__(self, spark: "SparkSession", offsets: SourceOffsets, topics: Mapping[str, Topic]) -> None:
        self._spark = spark
        self._patience = Patience(offsets, topics)
        self._tag = f"watched-{uuid.uuid4().hex}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="topic-watch")

    def __enter__(self) -> Self:
        self._spark.addTag(self._tag)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._spark.removeTag(self._tag)

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self._patience.must_last()
            except PipelineError:
                if not self._ended.is_set():
                    self._spark.interruptTag(self._tag)
