"""The last hour of one instance: every second for ten minutes, ten-second averages before that.

Columns of machine integers, all of one length; a point that was not there has NONE. Stretches in which
nothing changed are kept as their two ends, so an idle instance costs nothing.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

from contracts.quota_view import History, HistoryBroker, HistoryCpu, HistoryDirection

FINE_SPAN_MS: Final = 600_000
COARSE_SPAN_MS: Final = 3_600_000
COARSE_STEP_MS: Final = 10_000
NONE: Final = 2**32 - 1
"""Also bounds what a column can hold: 4.29 GB/s."""
DIRECTION_COLUMNS: Final = 5
"""r, F, P, q, throttled ms/s."""
BROKER_COLUMNS: Final = 2 * DIRECTION_COLUMNS
_TRIM_AT: Final = 128
"""Rows are dropped from the front so many at a time."""


Key = TypeVar("Key", int, str)


class Row(NamedTuple):
    """One sample: node id -> produce's five columns, then consume's; point -> the five of request time."""

    stored_bytes: int
    blocked: bool
    brokers: Mapping[int, Sequence[int]]
    cpu: Mapping[str, Sequence[int]] = {}


class Sample(NamedTuple):
    """A row and its time."""

    at_ms: int
    row: Row


class Slot(NamedTuple):
    """Ten seconds that have ended."""

    samples: Sequence[Sample]
    mean: Sample


class Columns(Generic[Key]):
    """Samples as columns: as many for every key that was there in some sample."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._length = 0
        self._of: dict[Key, list[array[int]]] = {}

    def __iter__(self) -> Iterator[Key]:
        """Everybody who was there in some sample."""
        return iter(self._of)

    def append(self, rows: Mapping[Key, Sequence[int]]) -> None:
        """Add a sample."""
        for key in rows:
            if key not in self._of:
                self._of[key] = [array("I", [NONE]) * self._length for _ in range(self._width)]
        self._length += 1
        for key, columns in self._of.items():
            values = rows.get(key)
            for index, column in enumerate(columns):
                column.append(NONE if values is None else min(values[index], NONE - 1))

    def trim(self, gone: int) -> None:
        """Drop so many samples from the front, and who was there in none of the others."""
        self._length -= gone
        for key, columns in list(self._of.items()):
            for column in columns:
                del column[:gone]
            if all(value == NONE for value in columns[0]):
                del self._of[key]

    def read(self, key: Key, span: slice) -> list[list[int | None]]:
        """The columns of one key in a part of the samples."""
        known = self._of.get(key)
        if known is None:
            return [[None] * len(range(self._length)[span]) for _ in range(self._width)]
        return [[None if value == NONE else value for value in column[span]] for column in known]


class Series:
    """Samples of one resolution, oldest first."""

    def __init__(self, span_ms: int) -> None:
        self._span_ms = span_ms
        self.at_ms = array("q")
        self.stored_bytes = array("q")
        self.blocked = array("b")
        self.brokers: Columns[int] = Columns(BROKER_COLUMNS)
        self.cpu: Columns[str] = Columns(DIRECTION_COLUMNS)
        self._last: Row | None = None
        self._flat_until_ms = 0

    def record(self, at_ms: int, row: Row) -> None:
        """Add a sample; `at_ms` grows."""
        if row == self._last:
            self._flat_until_ms = at_ms
            return
        self.close_flat()
        self._append(at_ms, row)
        self._last = row
        self._flat_until_ms = at_ms
        self._trim(at_ms - self._span_ms)

    def close_flat(self) -> None:
        """Write down the end of a stretch in which nothing changed."""
        if self._last is not None and self._flat_until_ms > self.at_ms[-1]:
            self._append(self._flat_until_ms, self._last)

    def _append(self, at_ms: int, row: Row) -> None:
        self.at_ms.append(at_ms)
        self.stored_bytes.append(row.stored_bytes)
        self.blocked.append(row.blocked)
        self.brokers.append(row.brokers)
        self.cpu.append(row.cpu)

    def _trim(self, before_ms: int) -> None:
        if self.at_ms[min(_TRIM_AT, len(self.at_ms)) - 1] >= before_ms or len(self.at_ms) <= _TRIM_AT:
            return
        gone = bisect_left(self.at_ms, before_ms)
        del self.at_ms[:gone], self.stored_bytes[:gone], self.blocked[:gone]
        self.brokers.trim(gone)
        self.cpu.trim(gone)


class InstanceHistory:
    """Both resolutions of one instance."""

    def __init__(self) -> None:
        self._fine = Series(FINE_SPAN_MS)
        self._coarse = Series(COARSE_SPAN_MS)
        self._slot: list[Sample] = []
        self._slot_start_ms = 0

    @classmethod
    def of(cls, means: Sequence[Sample], fine: Sequence[Sample]) -> "InstanceHistory":
        """From what was kept of an earlier one; both in order."""
        made = cls()
        fine_start_ms = fine[0].at_ms if fine else 0
        for at_ms, row in means:
            if not fine or at_ms + COARSE_STEP_MS <= fine_start_ms:
                made._coarse.record(at_ms, row)
        for at_ms, row in fine:
            made.record(at_ms, row)
        return made

    def record(self, at_ms: int, row: Row) -> Slot | None:
        """Add a second's sample. A wall clock that was set back starts the history anew.

        The slot that has ended with it, if any.
        """
        if self._fine.at_ms and at_ms < self._fine.at_ms[-1]:
            self._fine, self._coarse, self._slot = Series(FINE_SPAN_MS), Series(COARSE_SPAN_MS), []
        self._fine.record(at_ms, row)
        ended = None
        slot_start_ms = at_ms - at_ms % COARSE_STEP_MS
        if slot_start_ms != self._slot_start_ms:
            if self._slot:
                mean = Sample(self._slot_start_ms, _average([one.row for one in self._slot]))
                self._coarse.record(*mean)
                ended = Slot(self._slot, mean)
            self._slot = []
            self._slot_start_ms = slot_start_ms
        self._slot.append(Sample(at_ms, row))
        return ended

    def view(self, since_ms: int) -> History:
        """The samples from `since_ms` on, and what held at that moment."""
        for series in (self._coarse, self._fine):
            series.close_flat()
        fine_from = max(0, bisect_right(self._fine.at_ms, since_ms) - 1)
        fine_start_ms = self._fine.at_ms[0] if self._fine.at_ms else 0
        coarse_from = max(0, bisect_right(self._coarse.at_ms, since_ms) - 1)
        coarse_to = bisect_left(self._coarse.at_ms, fine_start_ms)
        parts = (
            (self._coarse, slice(coarse_from, max(coarse_from, coarse_to))),
            (self._fine, slice(fine_from, None)),
        )
        return History(
            at_ms=[max(at, since_ms) for series, span in parts for at in series.at_ms[span]],
            stored_bytes=[each for series, span in parts for each in series.stored_bytes[span]],
            blocked=[bool(each) for series, span in parts for each in series.blocked[span]],
            brokers=tuple(
                HistoryBroker(
                    node_id=node_id,
                    produce=_direction(columns[:DIRECTION_COLUMNS]),
                    consume=_direction(columns[DIRECTION_COLUMNS:]),
                )
                for node_id, columns in _read([(series.brokers, span) for series, span in parts])
            ),
            cpu=tuple(
                HistoryCpu(point=point, flow=_direction(columns))
                for point, columns in _read([(series.cpu, span) for series, span in parts])
            ),
        )


def _read(parts: Sequence[tuple[Columns[Key], slice]]) -> list[tuple[Key, list[list[int | None]]]]:
    """The columns of everybody, one part after the other, in order of the key."""
    found = []
    for key in sorted({key for columns, _ in parts for key in columns}):
        pieces = [columns.read(key, span) for columns, span in parts]
        joined = [list(chain.from_iterable(each)) for each in zip(*pieces, strict=True)]
        found.append((key, joined))
    return found


def _direction(columns: Sequence[list[int | None]]) -> HistoryDirection:
    rate, share, proportion, allocated, throttled = columns
    return HistoryDirection(
        rate_per_s=rate,
        share_per_s=share,
        proportion_per_s=proportion,
        allocated_per_s=allocated,
        throttled_ms_per_s=throttled,
    )


def _average(rows: Sequence[Row]) -> Row:
    """Means of the columns while the point was there; stored as it was last; blocked if ever."""
    if all(row == rows[0] for row in rows):
        return rows[0]
    return Row(
        rows[-1].stored_bytes,
        any(row.blocked for row in rows),
        _means([row.brokers for row in rows]),
        _means([row.cpu for row in rows]),
    )


def _means(samples: Sequence[Mapping[Key, Sequence[int]]]) -> dict[Key, Sequence[int]]:
    means: dict[Key, Sequence[int]] = {}
    for key in {key for sample in samples for key in sample}:
        present = [sample[key] for sample in samples if key in sample]
        means[key] = tuple(sum(column) // len(present) for column in zip(*present, strict=True))
    return means
