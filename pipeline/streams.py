"""Runs streaming queries to their end, and turns what Spark tells of them into progress and totals."""

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.errors import PipelineError
from pipeline.ingest.failures import reason, unreadable_time
from pipeline.progress import Progress

_LOOK_EVERY_S: Final = 0.1
_BATCH_LOOK_S: Final = 0.01
_BATCH_ENDS_WITHIN_S: Final = 20.0
_TOLD_WITHIN_S: Final = 10.0
_SENTENCE_LENGTH_MAX: Final = 500
_LOSS: Final = ("data loss", "Some data may have been lost", "OffsetOutOfRange")


class QueryFigures(StreamingQueryListener):
    """Tells each query's progress: records read of those planned, rows and batches, speed, lag.

    Spark calls it from its own thread after every batch; it only computes and hands over numbers.
    """

    def __init__(self, progress_of: Mapping[str, Progress]) -> None:
        self._progress_of = progress_of
        self._rows: dict[str, int] = {}
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to tell yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """After each batch."""
        name = event.progress.name
        if name is not None and name in self._progress_of:
            self._tell(name, json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Everything was told of it."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def wait_for_ends(self, runs: Collection[str], within_s: float) -> None:
        """Until everything was told of some runs: a moment after their ends. Or for so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended.issuperset(runs), within_s)

    def _tell(self, name: str, told: dict[str, Any]) -> None:
        with self._changed:
            rows = self._rows[name] = self._rows.get(name, 0) + int(told["numInputRows"])
        lag = sum(lag_records(source) for source in told["sources"])
        progress = self._progress_of[name]
        progress.planned(rows + lag)
        progress.done(rows)
        progress.figures(
            rows=rows,
            batch=int(told["batchId"]),
            batch_ms=int(told["durationMs"].get("triggerExecution", 0)),
            rows_per_s=int(told.get("processedRowsPerSecond") or 0),
            input_rows_per_s=int(told.get("inputRowsPerSecond") or 0),
            lag_records=lag,
        )


def lag_records(source: Mapping[str, Any]) -> int:
    """Offsets between the end of a source's last batch and what its brokers had then."""
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    return sum(max(0, offset - end.get(place, offset)) for place, offset in latest.items())


def _offsets(told: Any) -> dict[tuple[str, str], int]:
    if isinstance(told, str):
        told = json.loads(told)
    if not isinstance(told, dict):
        return {}
    return {
        (topic, partition): int(offset)
        for topic, by_partition in told.items()
        for partition, offset in by_partition.items()
    }


class QueryRun:
    """Queries that run together: the first that dies ends them all."""

    def __init__(self, spark: SparkSession, progress_of: Mapping[str, Progress]) -> None:
        self._spark = spark
        self._listener = QueryFigures(progress_of)
        self._queries: list[StreamingQuery] = []

    def __enter__(self) -> "QueryRun":
        self._spark.streams.addListener(self._listener)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_failure: object) -> None:
        in_haste = kind is not None and not issubclass(kind, Exception)
        try:
            for query in self._queries:
                if in_haste:
                    query.stop()
                else:
                    _stop_between_batches(query)
            if not in_haste:
                self._listener.wait_for_ends({str(query.runId) for query in self._queries}, _TOLD_WITHIN_S)
        finally:
            self._spark.streams.removeListener(self._listener)

    def start(self, query: StreamingQuery) -> None:
        """Watch one more query."""
        self._queries.append(query)

    def wait(self, for_s: float | None, on_end: Callable[[StreamingQuery], None] = lambda _: None) -> None:
        """Until all queries ended by themselves, or for so long. `on_end` is called as each ends well.

        Raises: PipelineError when one died.
        """
        deadline = None if for_s is None else time.monotonic() + for_s
        running = list(self._queries)
        while running and (deadline is None or time.monotonic() < deadline):
            for query in [one for one in running if not one.isActive]:
                running.remove(query)
                raise_failure(query)
                on_end(query)
            time.sleep(_LOOK_EVERY_S)
        for query in running:
            _stop_between_batches(query)
            raise_failure(query)
            on_end(query)


def _stop_between_batches(query: StreamingQuery) -> None:
    """Stop where that costs no work. A batch that is cut off all the same is repeated by the next run."""
    deadline = time.monotonic() + _BATCH_ENDS_WITHIN_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(_BATCH_LOOK_S)
    query.stop()


def raise_failure(query: StreamingQuery) -> None:
    """Raises: PipelineError with the reason, when a query died."""
    error = query.exception()
    if error is not None:
        raise PipelineError(f"query {query.name} stopped: {failure_sentence(error)}") from error


def failure_sentence(error: BaseException) -> str:
    """Why a query died and what to do about it."""
    if record := unreadable_time(error):
        return (
            f"the record at offset {record.offset} of {record.topic}-{record.partition} has a time that "
            "Spark cannot hold: delete the records up to it (DeleteRecords), then start again"
        )
    found = _python_error(str(error)) or reason(error)
    if any(mark in str(error) for mark in _LOSS):
        return (
            f"records were gone before they were read ({found}): raise the topic's retention; to go on with "
            "what is left, remove the query's checkpoint: events that were read already are not counted twice"
        )
    return found


def _python_error(text: str) -> str | None:
    """What Spark says when our part of a batch failed: the line below the traceback."""
    lines = text.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    if not frames:
        return None
    below = [line for line in lines[frames[-1] + 1 :] if line and not line.startswith(" ")]
    return below[0][:_SENTENCE_LENGTH_MAX] if below else None
