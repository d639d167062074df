"""Series that stay: what is recorded, how points are packed, and with which step they are told. Pure.

A step is 15 s. What was recorded at one step of all instances is one packed value. Blocks of one instance are
made of these: 15 minutes of steps, and later 6 hours of five minutes. A block holds every series of its
instance, each metric as differences from one point to the next.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from tenants.rules.lifecycle import Fault, unfit

STEP_MS: Final = 15_000
BLOCK_MS: Final = 900_000
COARSE_STEP_MS: Final = 300_000
COARSE_BLOCK_MS: Final = 6 * 3_600_000
WIDE_STEPS_MS: Final = (STEP_MS, COARSE_STEP_MS, 1_800_000, 7_200_000, 21_600_000, 86_400_000)
"""With which steps points are told."""
FINE_KEPT_MS: Final = 25 * 3_600_000
"""How long the points of each 15 s stay; an hour longer than is promised."""
COARSE_KEPT_MS: Final = 31 * 86_400_000
POINTS_MAX: Final = 1_500
"""Points of one answer."""
NAMES_MAX: Final = 20
"""Topics, groups, clients or brokers of one instance that have a series of their own; the others add up."""
BLOCK_NAMES_MAX: Final = 2 * NAMES_MAX
"""Those that have one within a block: who is among the busiest may change with each step."""
REST: Final = ""
"""The name of what the others add up to. No topic, group or broker is called so; of clients those are that
have given no name."""
DEPLOYMENT: Final = ""
"""Instead of an instance: the sums over all, and the brokers."""
_BLOCK_BYTES_MAX: Final = 64 * 1024 * 1024


class Kind(StrEnum):
    """What a series is of."""

    INSTANCE = "instance"
    BROKER = "broker"
    """What one broker does for an instance; of the deployment: for all."""
    TOPIC = "topic"
    GROUP = "group"
    CLIENT = "client"
    """What calls itself by one client id."""
    FLEET = "fleet"
    """All instances together."""


class Merge(StrEnum):
    """What many points become."""

    MEAN = "mean"
    MAX = "max"


class Metric(NamedTuple):
    """A number that is recorded, never negative."""

    name: str
    merge: Merge
    adds_up: bool = True
    """Whether the rest is a sum; else the largest."""


_RATES: Final = tuple(
    Metric(name, Merge.MEAN) for name in ("produce_bytes_per_s", "consume_bytes_per_s", "cpu_us_per_s")
)
_THROTTLED: Final = tuple(
    Metric(name, Merge.MEAN, adds_up=False)
    for name in ("produce_throttled_ms_per_s", "consume_throttled_ms_per_s", "cpu_throttled_ms_per_s")
)
METRICS: Final[Mapping[Kind, tuple[Metric, ...]]] = {
    Kind.INSTANCE: (
        *_RATES,
        *_THROTTLED,
        Metric("stored_bytes", Merge.MAX),
        Metric("capacity_bytes", Merge.MAX),
        Metric("produce_bought_bytes_per_s", Merge.MAX),
        Metric("consume_bought_bytes_per_s", Merge.MAX),
        Metric("connections", Merge.MAX),
        Metric("blocked", Merge.MAX),
    ),
    Kind.BROKER: (
        *_RATES[:2],
        *_THROTTLED[:2],
        Metric("stored_bytes", Merge.MAX),
        Metric("partitions_led", Merge.MAX),
        Metric("silent", Merge.MAX, adds_up=False),
    ),
    Kind.TOPIC: (Metric("records_per_s", Merge.MEAN), Metric("stored_bytes", Merge.MAX)),
    Kind.GROUP: (Metric("lag_records", Merge.MAX), Metric("lag_ms", Merge.MAX, adds_up=False)),
    Kind.CLIENT: (
        Metric("in_bytes_per_s", Merge.MEAN),
        Metric("out_bytes_per_s", Merge.MEAN),
        Metric("requests_per_s", Merge.MEAN),
        Metric("connections", Merge.MAX),
        Metric("throttled_ms_per_s", Merge.MEAN, adds_up=False),
    ),
    Kind.FLEET: (
        *_RATES[:2],
        Metric("throttled_instances", Merge.MAX),
        Metric("blocked_instances", Merge.MAX),
        Metric("instances", Merge.MAX),
        Metric("stored_bytes", Merge.MAX),
        Metric("capacity_bytes", Merge.MAX),
        Metric("produce_bought_bytes_per_s", Merge.MAX),
        Metric("consume_bought_bytes_per_s", Merge.MAX),
    ),
}
"""The columns of each kind. New ones are appended: old blocks are shorter, and are read as unknown there."""

Value = int | None
Point = Sequence[Value]
"""Of one series at one step, in the order of METRICS."""
Figures = dict[Kind, dict[str, Point]]
"""Of one owner (an instance, or the deployment) at one step: by name; the instance's own name is REST."""
Columns = dict[int, list[Value]]
"""Points of one series by the time of their step (epoch ms)."""

_FIGURES: Final = msgspec.msgpack.Decoder(dict[str, dict[str, list[int | None]]])
_STEP: Final = msgspec.msgpack.Decoder(dict[str, bytes])
_BLOCK: Final = msgspec.msgpack.Decoder(dict[str, dict[str, msgspec.Raw]])
_DIFFERENCES: Final = msgspec.msgpack.Decoder(list[list[int]])
_UNKNOWN: Final = -1


def step_of(at_ms: int, step_ms: int = STEP_MS) -> int:
    """When the step begins in which a time lies."""
    return at_ms - at_ms % step_ms


# --- the busiest ------------------------------------------------------------------------------------


def bounded(kind: Kind, found: Mapping[str, Point], names: Sequence[str]) -> dict[str, Point]:
    """`found` of the first `names`, in order of importance, and of the others together."""
    own = [name for name in names if name in found][:NAMES_MAX]
    kept = {name: found[name] for name in own}
    if others := [point for name, point in found.items() if name not in kept]:
        kept[REST] = added_up(kind, others)
    return kept


def added_up(kind: Kind, points: Sequence[Point]) -> Point:
    """Several series of a kind at one step, as one."""
    columns = zip(*points, strict=True)
    return [_together(values, metric) for metric, values in zip(METRICS[kind], columns, strict=True)]


def _together(values: Iterable[Value], metric: Metric) -> Value:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if metric.adds_up else max(known)


def narrowed(kinds: Mapping[Kind, dict[str, Columns]]) -> dict[Kind, dict[str, Columns]]:
    """Names that came and went within a block may be more than it has room for: those that were there longest
    stay, of several who did most, and the others are added to the rest."""
    return {kind: _narrowed(kind, named) for kind, named in kinds.items()}


def _narrowed(kind: Kind, named: dict[str, Columns]) -> dict[str, Columns]:
    names = [name for name in named if name != REST]
    if len(names) <= BLOCK_NAMES_MAX:
        return named
    names.sort(key=lambda name: (-len(named[name]), -_weight(named[name]), name))
    points: dict[int, list[Point]] = {}
    for columns in (named.get(REST, {}), *(named[name] for name in names[BLOCK_NAMES_MAX:])):
        for at_ms, point in columns.items():
            points.setdefault(at_ms, []).append(point)
    rest: Columns = {at_ms: list(added_up(kind, found)) for at_ms, found in sorted(points.items())}
    return {**{name: named[name] for name in names[:BLOCK_NAMES_MAX]}, REST: rest}


def _weight(columns: Columns) -> int:
    return sum(value or 0 for point in columns.values() for value in point[:2])


# --- packing ----------------------------------------------------------------------------------------


def pack_step(found: Mapping[str, Figures]) -> bytes:
    """What was recorded of every owner at one step."""
    each = {owner: msgspec.msgpack.encode(figures) for owner, figures in found.items()}
    return zlib.compress(msgspec.msgpack.encode(each), 1)


def unpack_step(packed: bytes) -> dict[str, bytes]:
    """By owner, still packed. Raises: ValueError for what is not ours."""
    return _decoded(_STEP, packed)


def figures_of(packed: bytes) -> dict[str, dict[str, list[Value]]]:
    """Of one owner: kind, name, point. Raises: ValueError."""
    try:
        return _FIGURES.decode(packed)
    except msgspec.MsgspecError as error:
        raise ValueError("not a step of series") from error


def pack_block(
    series: Mapping[Kind, Mapping[str, Columns]], start_ms: int, step_ms: int, count: int
) -> bytes:
    """`count` points of each series of one owner, from `start_ms` on."""
    times = [start_ms + step_ms * place for place in range(count)]
    packed = {
        kind.value: {
            name: _differences(columns, times, len(METRICS[kind])) for name, columns in named.items()
        }
        for kind, named in series.items()
    }
    return zlib.compress(msgspec.msgpack.encode(packed), 6)


def _differences(columns: Columns, times: Sequence[int], width: int) -> list[list[int]]:
    found = []
    for metric in range(width):
        before, row = 0, []
        for at_ms in times:
            point = columns.get(at_ms)
            value = None if point is None or metric >= len(point) else point[metric]
            number = _UNKNOWN if value is None else value
            row.append(number - before)
            before = number
        found.append(row)
    return found


class Block:
    """A packed block, opened: a series is unpacked when it is asked for.

    Raises: ValueError for what is not ours.
    """

    def __init__(self, packed: bytes, start_ms: int, step_ms: int) -> None:
        self._start_ms = start_ms
        self._step_ms = step_ms
        self._found: dict[str, dict[str, msgspec.Raw]] = _decoded(_BLOCK, packed)

    def names(self, kind: Kind) -> list[str]:
        """Which series of a kind there are."""
        return list(self._found.get(kind.value, {}))

    def columns(self, kind: Kind, name: str) -> Columns:
        """The points of a series in which anything is known."""
        raw = self._found.get(kind.value, {}).get(name)
        if raw is None:
            return {}
        try:
            differences = _DIFFERENCES.decode(raw)
        except msgspec.MsgspecError as error:
            raise ValueError("not a block of series") from error
        values: list[list[Value]] = []
        for row in differences:
            number, column = 0, list[Value]()
            for change in row:
                number += change
                column.append(number if number >= 0 else None)
            values.append(column)
        missing: list[Value] = [None] * (len(METRICS[kind]) - len(values))
        return {
            self._start_ms + place * self._step_ms: [*point, *missing]
            for place, point in enumerate(zip(*values, strict=True))
            if any(value is not None for value in point)
        }

    def every(self) -> dict[Kind, dict[str, Columns]]:
        """All series of the kinds that this release knows."""
        return {kind: {name: self.columns(kind, name) for name in self.names(kind)} for kind in Kind}


def _decoded(decoder: msgspec.msgpack.Decoder, packed: bytes) -> dict:  # type: ignore[type-arg]
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(packed, _BLOCK_BYTES_MAX)
        if unpacking.unconsumed_tail:
            raise ValueError("a block of series is too large")
        found: dict = decoder.decode(plain)  # type: ignore[type-arg]
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError("not a block of series") from error
    return found


def gathered(steps: Iterable[tuple[int, bytes]]) -> dict[Kind, dict[str, Columns]]:
    """The series of one owner from its steps. Raises: ValueError."""
    found: dict[Kind, dict[str, Columns]] = {}
    for at_ms, packed in steps:
        for kind_name, named in figures_of(packed).items():
            if kind_name not in _KINDS:
                continue
            kind = _KINDS[kind_name]
            width = len(METRICS[kind])
            for name, point in named.items():
                padded = [*point[:width], *[None] * (width - len(point))]
                found.setdefault(kind, {}).setdefault(name, {})[at_ms] = padded
    return found


_KINDS: Final = {kind.value: kind for kind in Kind}


# --- merging ----------------------------------------------------------------------------------------


def merged(kind: Kind, columns: Columns, step_ms: int) -> Columns:
    """Points of longer steps."""
    slots: dict[int, list[Point]] = {}
    for at_ms, point in columns.items():
        slots.setdefault(step_of(at_ms, step_ms), []).append(point)
    return {
        at_ms: [
            _merged(values, metric)
            for metric, values in zip(METRICS[kind], zip(*points, strict=True), strict=True)
        ]
        for at_ms, points in sorted(slots.items())
    }


def _merged(values: Iterable[Value], metric: Metric) -> Value:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if metric.merge is Merge.MAX else round(sum(known) / len(known))


# --- what is asked for ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """From (inclusive) to (exclusive), and the step that it is told with."""

    from_ms: int
    to_ms: int
    step_ms: int

    def times(self) -> Iterator[int]:
        """When its steps begin."""
        return iter(range(step_of(self.from_ms, self.step_ms), self.to_ms, self.step_ms))


SPAN_MS_DEFAULT: Final = 3_600_000
SPAN_MS_MAX: Final = 31 * 86_400_000
_YEAR_9999_MS: Final = 253_402_214_400_000


def span_of(
    from_ms: int | None,
    to_ms: int | None,
    now_ms: int,
    points: int = POINTS_MAX,
    longest_ms: int = SPAN_MS_MAX,
) -> Span | list[Fault]:
    """What is asked for, with the finest step that is recorded of it and that makes at most `points` points;
    or what is wrong with it."""
    end_ms = now_ms if to_ms is None else to_ms
    start_ms = max(0, end_ms - SPAN_MS_DEFAULT) if from_ms is None else from_ms
    faults = [
        unfit(name, "must be in the years 1970 to 9999")
        for name, at_ms in (("from", start_ms), ("to", end_ms))
        if not 0 <= at_ms <= _YEAR_9999_MS
    ]
    if not faults and end_ms <= start_ms:
        faults.append(unfit("to", "must be after `from`"))
    if not faults and end_ms - start_ms > longest_ms:
        faults.append(unfit("from", f"at most {longest_ms // 86_400_000} days may be asked for at once"))
    if faults:
        return faults
    least_ms = STEP_MS if start_ms >= now_ms - FINE_KEPT_MS else COARSE_STEP_MS
    return with_step(start_ms, end_ms, points, least_ms)


def with_step(from_ms: int, to_ms: int, points: int, least_ms: int = STEP_MS) -> Span:
    """A span with the finest step, of `least_ms` or longer, that makes at most `points` points."""
    for step_ms in WIDE_STEPS_MS:
        if step_ms >= least_ms and (to_ms - from_ms) // step_ms < points:
            return Span(from_ms, to_ms, step_ms)
    return Span(from_ms, to_ms, WIDE_STEPS_MS[-1])
