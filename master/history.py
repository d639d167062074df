"""The last hour of one instance: every second for ten minutes, ten-second averages before that.

Columns of machine integers, all of one length; a broker that was not there has NONE. Stretches in which
nothing changed are kept as their two ends, so an idle instance costs nothing.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from contracts.quota_view import History, HistoryBroker, HistoryDirection

FINE_SPAN_MS: Final = 600_000
COARSE_SPAN_MS: Final = 3_600_000
COARSE_STEP_MS: Final = 10_000
NONE: Final = 2**32 - 1
"""Also bounds what a column can hold: 4.29 GB/s."""
DIRECTION_COLUMNS: Final = 5
"""r, F, P, q, throttled ms/s."""
COLUMNS: Final = 2 * DIRECTION_COLUMNS
_TRIM_AT: Final = 128
"""Rows are dropped from the front so many at a time."""


class Row(NamedTuple):
    """One sample: node id -> produce's five columns, then consume's."""

    stored_bytes: int
    blocked: bool
    brokers: Mapping[int, Sequence[int]]


class Series:
    """Samples of one resolution, oldest first."""

    def __init__(self, span_ms: int) -> None:
        self._span_ms = span_ms
        self.at_ms = array("q")
        self.stored_bytes = array("q")
        self.blocked = array("b")
        self.brokers: dict[int, list[array[int]]] = {}
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
        length = len(self.at_ms)
        self.at_ms.append(at_ms)
        self.stored_bytes.append(row.stored_bytes)
        self.blocked.append(row.blocked)
        for node_id in row.brokers:
            if node_id not in self.brokers:
                self.brokers[node_id] = [array("I", [NONE]) * length for _ in range(COLUMNS)]
        for node_id, columns in self.brokers.items():
            values = row.brokers.get(node_id)
            for index, column in enumerate(columns):
                column.append(NONE if values is None else min(values[index], NONE - 1))

    def _trim(self, before_ms: int) -> None:
        if self.at_ms[min(_TRIM_AT, len(self.at_ms)) - 1] >= before_ms or len(self.at_ms) <= _TRIM_AT:
            return
        gone = bisect_left(self.at_ms, before_ms)
        del self.at_ms[:gone], self.stored_bytes[:gone], self.blocked[:gone]
        for node_id, columns in list(self.brokers.items()):
            for column in columns:
                del column[:gone]
            if all(value == NONE for value in columns[0]):
                del self.brokers[node_id]


class InstanceHistory:
    """Both resolutions of one instance."""

    def __init__(self) -> None:
        self._fine = Series(FINE_SPAN_MS)
        self._coarse = Series(COARSE_SPAN_MS)
        self._slot: list[Row] = []
        self._slot_start_ms = 0

    def record(self, at_ms: int, row: Row) -> None:
        """Add a second's sample. A wall clock that was set back starts the history anew."""
        if self._fine.at_ms and at_ms < self._fine.at_ms[-1]:
            self._fine, self._coarse, self._slot = Series(FINE_SPAN_MS), Series(COARSE_SPAN_MS), []
        self._fine.record(at_ms, row)
        slot_start_ms = at_ms - at_ms % COARSE_STEP_MS
        if slot_start_ms != self._slot_start_ms:
            if self._slot:
                self._coarse.record(self._slot_start_ms, _average(self._slot))
            self._slot = []
            self._slot_start_ms = slot_start_ms
        self._slot.append(row)

    def view(self, since_ms: int) -> History:
        """The samples from `since_ms` on, and what held at that moment."""
        for series in (self._coarse, self._fine):
            series.close_flat()
        fine_from = max(0, bisect_right(self._fine.at_ms, since_ms) - 1)
        fine_start_ms = self._fine.at_ms[0] if self._fine.at_ms else 0
        coarse_from = max(0, bisect_right(self._coarse.at_ms, since_ms) - 1)
        coarse_to = bisect_left(self._coarse.at_ms, fine_start_ms)
        parts = [(self._coarse, coarse_from, max(coarse_from, coarse_to)), (self._fine, fine_from, None)]
        node_ids = sorted({node_id for series, _, _ in parts for node_id in series.brokers})
        return History(
            at_ms=[max(at, since_ms) for series, start, end in parts for at in series.at_ms[start:end]],
            stored_bytes=[each for series, start, end in parts for each in series.stored_bytes[start:end]],
            blocked=[bool(each) for series, start, end in parts for each in series.blocked[start:end]],
            brokers=tuple(self._broker(node_id, parts) for node_id in node_ids),
        )

    @staticmethod
    def _broker(node_id: int, parts: Sequence[tuple[Series, int, int | None]]) -> HistoryBroker:
        columns: list[list[int | None]] = [[] for _ in range(COLUMNS)]
        for series, start, end in parts:
            length = len(series.at_ms[start:end])
            known = series.brokers.get(node_id)
            for index, column in enumerate(columns):
                values = known[index][start:end] if known is not None else [NONE] * length
                column.extend(None if value == NONE else value for value in values)
        return HistoryBroker(
            node_id=node_id,
            produce=_direction(columns[:DIRECTION_COLUMNS]),
            consume=_direction(columns[DIRECTION_COLUMNS:]),
        )


def _direction(columns: Sequence[list[int | None]]) -> HistoryDirection:
    rate, share, proportion, allocated, throttled = columns
    return HistoryDirection(
        rate_bytes_per_s=rate,
        share_bytes_per_s=share,
        proportion_bytes_per_s=proportion,
        allocated_bytes_per_s=allocated,
        throttled_ms_per_s=throttled,
    )


def _average(rows: Sequence[Row]) -> Row:
    """Means of the columns while the broker was there; stored as it was last; blocked if ever."""
    if all(row == rows[0] for row in rows):
        return rows[0]
    node_ids = {node_id for row in rows for node_id in row.brokers}
    brokers: dict[int, Sequence[int]] = {}
    for node_id in node_ids:
        present = [row.brokers[node_id] for row in rows if node_id in row.brokers]
        brokers[node_id] = tuple(sum(column) // len(present) for column in zip(*present, strict=True))
    return Row(rows[-1].stored_bytes, any(row.blocked for row in rows), brokers)
