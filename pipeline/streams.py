"""Runs streaming queries to their end, and turns what Spark tells of them into progress and totals."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from pipeline.errors import PipelineError
from pipeline.ingest.failures import reason, unreadable_time
from pipeline.progress import Progress

_LOOK_EVERY_S: Final = 0.2
_BATCH_LOOK_S: Final = 0.01
_BATCH_ENDS_WITHIN_S: Final = 20.0
_LAST_BATCH_ENDS_WITHIN_S: Final = 300.0
"""Where nothing has failed and nobody waits."""
_BRIEF_LENGTH: Final = 2000
_INTERRUPTION: Final = re.compile(r"java\.[a-z.]*\w*Interrupt\w*Exception")
_LOSS: Final = ("data loss", "Some data may have been lost", "OffsetOutOfRange")


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


class Watched:
    """A query, and how far what Spark told of its batches was passed on."""

    def __init__(self, query: StreamingQuery, progress: Progress) -> None:
        self.query = query
        self._progress = progress
        self._told_until = ""
        self._rows = 0

    def tell(self) -> None:
        """Pass on records read of those planned, rows and batches, speed, lag, where a batch was since."""
        last = self.query.lastProgress
        if last is None or last.timestamp <= self._told_until:
            return
        for one in self.query.recentProgress:
            if one.timestamp > self._told_until:
                self._rows += one.numInputRows
                self._told_until = one.timestamp
        told = json.loads(last.json)
        lag = sum(lag_records(source) for source in told["sources"])
        self._progress.planned(self._rows + lag)
        self._progress.done(self._rows)
        self._progress.figures(
            rows=self._rows,
            batch=int(told["batchId"]),
            batch_ms=int(told["durationMs"].get("triggerExecution", 0)),
            rows_per_s=int(told.get("processedRowsPerSecond") or 0),
            input_rows_per_s=int(told.get("inputRowsPerSecond") or 0),
            lag_records=lag,
        )


class QueryRun:
    """Queries that run together: the first that dies ends them all."""

    def __init__(self) -> None:
        self._watched: list[Watched] = []

    def __enter__(self) -> "QueryRun":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_failure: object) -> None:
        in_haste = kind is not None and not issubclass(kind, Exception)
        for one in self._watched:
            if in_haste:
                one.query.stop()
            else:
                _stop_between_batches(one.query)
                one.tell()

    def watch(self, query: StreamingQuery, progress: Progress) -> None:
        """One more query that was started."""
        self._watched.append(Watched(query, progress))

    def wait(self, for_s: float | None, on_end: Callable[[StreamingQuery], None]) -> None:
        """Until all queries ended by themselves, or for so long. `on_end` is called as each ends well.

        Raises: PipelineError when one died.
        """
        deadline = None if for_s is None else time.monotonic() + for_s
        running = list(self._watched)
        while running:
            is_over = deadline is not None and time.monotonic() >= deadline
            for one in list(running):
                if is_over:
                    _stop_between_batches(one.query, _LAST_BATCH_ENDS_WITHIN_S)
                has_ended = not one.query.isActive  # looked at first: then all of its batches are told of
                one.tell()
                if has_ended:
                    running.remove(one)
                    raise_failure(one.query)
                    on_end(one.query)
            time.sleep(_LOOK_EVERY_S)


class Py4JJavaError(Exception):
    """What a batch of ours failed with, by the name at which Spark looks for what its stop has cut off."""

    __module__ = "py4j.protocol"


def brief(error: BaseException) -> Py4JJavaError:
    """The same for Spark: a regular expression of it recurses for each letter of what a batch says once the
    query is stopped, and the stack trace of a Java task is enough to overflow its stack.
    """
    text = str(error)
    interruption = _INTERRUPTION.search(text)
    told = f"An error occurred while calling a batch: {text[:_BRIEF_LENGTH]}"
    return Py4JJavaError(f"{told} {interruption[0]}" if interruption else told)


def _stop_between_batches(query: StreamingQuery, within_s: float = _BATCH_ENDS_WITHIN_S) -> None:
    """Stop where that costs no work. A batch that is cut off all the same is repeated by the next run."""
    deadline = time.monotonic() + within_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(_BATCH_LOOK_S)
    query.stop()


def raise_failure(query: StreamingQuery) -> None:
    """Raises: PipelineError with the reason, when a query died."""
    error = query.exception()
    if error is not None:
        raise stopped(query.name, error) from error


def stopped(name: str, error: BaseException) -> PipelineError:
    """What is said of a query that died."""
    if isinstance(error, PipelineError):
        return error
    return PipelineError(f"query {name} stopped: {failure_sentence(error)}")


def failure_sentence(error: BaseException) -> str:
    """Why a query died and what to do about it."""
    if record := unreadable_time(error):
        return (
            f"the record at offset {record.offset} of {record.topic}-{record.partition} has a time that "
            "Spark cannot hold: delete the records up to it (DeleteRecords), then start again"
        )
    found = reason(error)
    if any(mark in str(error) for mark in _LOSS):
        return (
            f"records were gone before they were read ({found}): raise the topic's retention; to go on with "
            "what is left, remove the query's checkpoint: events that were read already are not counted twice"
        )
    return found
