"""Topics are watched while Spark reads them: a consumer waits minutes for one that is gone."""

import threading
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pipeline.ingest.offsets import RefusedError, SourceOffsets, Topic, UnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_S: Final = 2.0
UNREACHABLE_MAX_S: Final = 60.0
REFUSED_MAX_S: Final = 6.0
"""Shorter: a whitelist that lost us does not come back by itself, and other instances wait for this one."""


def gone(offsets: SourceOffsets, topics: Mapping[str, Topic]) -> dict[str, Topic | None]:
    """Topics that are not what they were, by name: None where deleted, else the one that has its name now."""
    now = offsets.topics(topics)
    return {
        name: now.get(name) for name, topic in topics.items() if name not in now or now[name].id != topic.id
    }


class TopicWatch:
    """While a batch runs in this thread: stops it when a topic is gone or nobody answers any more."""

    def __init__(self, spark: "SparkSession", offsets: SourceOffsets, topics: Mapping[str, Topic]) -> None:
        self._spark = spark
        self._offsets = offsets
        self._topics = topics
        self._tag = f"watched-{uuid.uuid4().hex}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="topic-watch")
        self._answered_s = time.monotonic()

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
        while not self._ended.wait(_EVERY_S):
            if self._must_stop() and not self._ended.is_set():
                self._spark.interruptTag(self._tag)

    def _must_stop(self) -> bool:
        try:
            self._offsets.must_answer()
            missing = gone(self._offsets, self._topics)
        except RefusedError:
            return time.monotonic() - self._answered_s > REFUSED_MAX_S
        except UnreachableError:
            return time.monotonic() - self._answered_s > UNREACHABLE_MAX_S
        self._answered_s = time.monotonic()
        return bool(missing)
