"""A synthetic month of usage: instances that come and go, points that restart, records lost and late.

Rows are as the ingest leaves them in `usage_raw`: each id once. One that is missing stands there as a
recovered row, with the bytes that later totals told, until it arrives; of every second instance late ones are
not there at all until then. What it all adds up to is counted here with numpy, slot by slot, apart from
everything in `pipeline`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.metering.amounts import calendar
from tests.pipeline.usage_rows import SLOT_MS, ms

Ints = npt.NDArray[np.int64]
SLOTS = 288


class Fate(IntEnum):
    """What becomes of a record."""

    ON_TIME = 0
    LATE = 1
    """Arrives before the month is closed."""
    TOO_LATE = 2
    """Arrives after."""
    LOST = 3


@dataclass(frozen=True)
class Size:
    """How much there is of a month."""

    month: str
    instances: int
    points: int
    seed: int = 20261
    restarts: int = 3
    """Of each point."""
    late_days: int = 4
    """Days with late records, of which the last one's are too late."""


@dataclass(frozen=True)
class Totals:
    """By instance and slot of the month; `missing_ms` is what was not reported."""

    produce: Ints
    consume: Ints
    requests: Ints
    stored_byte_ms: Ints
    missing_ms: Ints


class SyntheticMonth:
    """Makes a day at a time, in order; the same seed makes the same days."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.first = calendar.first_day(size.month)
        self.days = calendar.slots_in(size.month) // SLOTS
        slots = self.days * SLOTS
        rng = np.random.default_rng(size.seed)
        self.names = np.array([f"i{index:011d}" for index in range(1, size.instances + 1)])
        half_way = rng.integers(0, slots, (2, size.instances))
        self.born = np.where(rng.random(size.instances) < 0.1, half_way[0], 0)
        self.gone = np.where(rng.random(size.instances) < 0.1, half_way[1], slots)
        self.scale = rng.lognormal(13, 3, size.instances)
        self.restarts = [np.unique(rng.integers(0, slots, size.restarts)) for _ in range(size.points)]
        self.cut_ms = rng.integers(1, SLOT_MS, slots)
        self.late_days = sorted(rng.choice(self.days, size.late_days, replace=False).tolist())
        self._boot = [""] * size.points
        self._grown = np.zeros((size.points, 2, size.instances), np.int64)

    def tables(self) -> Iterator[tuple[date, pa.Table, Totals]]:
        """Rows with a column `fate`, and what the day truly was."""
        for day in range(self.days):
            parts = [self._point(day, point) for point in range(self.size.points)]
            totals = [np.sum([part[1][index] for part in parts], axis=0) for index in range(5)]
            yield (
                self.first + timedelta(days=day),
                pa.concat_tables(part[0] for part in parts),
                Totals(*totals),
            )

    def _point(self, day: int, point: int) -> tuple[pa.Table, tuple[Ints, ...]]:
        rng = np.random.default_rng([self.size.seed, day, point])
        shape = (self.size.instances, SLOTS)
        slots = np.arange(SLOTS) + day * SLOTS
        alive = (slots >= self.born[:, None]) & (slots < self.gone[:, None])
        busy = alive & (rng.random(shape) < 0.6)
        produce = np.where(busy, (rng.lognormal(0, 1.5, shape) * self.scale[:, None]).astype(np.int64), 0)
        consume = produce * rng.integers(0, 4, shape)
        stored = (slots * 1013 + 7 * point)[None, :] * (self.scale.astype(np.int64)[:, None] % 65521)
        missing, requests = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        tables = []
        for boot, low, high, begin, end in self._pieces(day, point):
            now = (slice(None), slice(low, high))
            fate = self._fates(rng, day, produce[now].shape)
            shares = [_share(of[now], begin, end) for of in (produce, consume)]
            asked = np.where(fate == Fate.LOST, 0, shares[0] // 16384 + 1)
            numbers = {
                "interval_start_ms": ms(str(self.first)) + slots[low:high] * SLOT_MS + begin,
                "interval_ms": np.int64(end - begin),
                "produce_bytes": shares[0],
                "consume_bytes": shares[1],
                "produce_bytes_total": self._total(point, 0, boot, shares[0]),
                "consume_bytes_total": self._total(point, 1, boot, shares[1]),
                "produce_requests": asked,
                "stored_byte_ms": stored[now] * (end - begin),
                "fate": fate,
            }
            self._boot[point] = boot
            tables.append(self._table(boot, alive[now], numbers))
            missing[now] += np.where(alive[now] & (fate == Fate.LOST), end - begin, 0)
            requests[now] += np.where(alive[now], asked, 0)
        held = np.where(alive, stored * SLOT_MS, 0)
        return pa.concat_tables(tables), (produce, consume, requests, held, missing)

    def _pieces(self, day: int, point: int) -> Iterator[tuple[str, int, int, int, int]]:
        """(boot id, first slot, end slot, begin and end within each slot in ms) between restarts."""
        low = 0
        boot = int(np.sum(self.restarts[point] < day * SLOTS))
        for at in self.restarts[point]:
            slot = int(at) - day * SLOTS
            if 0 <= slot < SLOTS:
                cut = int(self.cut_ms[at])
                if slot > low:
                    yield f"boot-{point}-{boot}", low, slot, 0, SLOT_MS
                yield f"boot-{point}-{boot}", slot, slot + 1, 0, cut
                boot += 1
                yield f"boot-{point}-{boot}", slot, slot + 1, cut, SLOT_MS
                low = slot + 1
        if low < SLOTS:
            yield f"boot-{point}-{boot}", low, SLOTS, 0, SLOT_MS

    def _fates(self, rng: np.random.Generator, day: int, shape: tuple[int, ...]) -> Ints:
        chance = rng.random(shape)
        fate = np.where(chance < 0.002, Fate.LOST, Fate.ON_TIME)
        if day in self.late_days:
            late = Fate.TOO_LATE if day == self.late_days[-1] else Fate.LATE
            fate = np.where(chance > 0.98, late, fate)
        return fate.astype(np.int64)

    def _total(self, point: int, direction: int, boot: str, shares: Ints) -> Ints:
        """The growing counter at each interval's end; a new boot id begins at zero."""
        before = self._grown[point][direction] * (boot == self._boot[point])
        totals: Ints = before[:, None] + np.cumsum(shares, axis=1)
        self._grown[point][direction] = totals[:, -1]
        return totals

    def _table(self, boot: str, alive: npt.NDArray[np.bool_], numbers: dict[str, Ints]) -> pa.Table:
        chosen = alive.ravel()
        columns = {
            name: pa.array(np.broadcast_to(of, alive.shape).ravel()[chosen]) for name, of in numbers.items()
        }
        names = pa.array(np.broadcast_to(self.names[:, None], alive.shape).ravel()[chosen])
        boots = pa.repeat(boot, len(names))
        start = columns["interval_start_ms"]
        columns |= {"instance_id": names, "boot_id": boots}
        columns["id"] = pc.binary_join_element_wise(boots, names, start.cast(pa.string()), "/")
        return pa.table(columns)


def raw_rows(day: pa.Table, schema: pa.Schema, batch: int, arrived: Iterable[Fate]) -> pa.Table:
    """Rows of `usage_raw` when records of those fates have arrived."""
    seen = pc.is_in(day["fate"], pa.array([int(fate) for fate in arrived]))
    is_odd = pc.is_in(pc.utf8_slice_codeunits(day["instance_id"], -1), pa.array(list("13579")))
    is_told = pc.or_(seen, pc.or_(pc.invert(is_odd), pc.equal(day["fate"], int(Fate.LOST))))
    day, seen = day.filter(is_told), seen.filter(is_told)
    start = day["interval_start_ms"].cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
    zero = pa.array(np.zeros(len(day), np.int64))
    known = {name: day[name] for name in day.column_names if name != "fate"} | {
        "produce_requests": pc.if_else(seen, day["produce_requests"], 0),
        "recovered": pc.invert(seen),
        "interval_start": start,
        "day": start.cast(pa.date32()),
        "partitions_led": pc.add(zero, 1),
        "ingest_batch": pc.add(zero, batch),
    }
    empty = {"string": pa.repeat("", len(day)), "int32": zero.cast(pa.int32())}
    return pa.table(
        [known.get(field.name, empty.get(str(field.type), zero)).cast(field.type) for field in schema],
        schema=schema,
    )


def _share(of: Ints, begin: int, end: int) -> Ints:
    """What of a slot's bytes is carried between two of its ms."""
    until: Ints = of * end // SLOT_MS - of * begin // SLOT_MS
    return until
