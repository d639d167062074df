"""Invented events as the records that arrive: out of order, some late, twice, or damaged."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.activity.world import HOUR_MS, MINUTE_MS, Attack, Incident, Ints, Stream, World

LATE_MS: Final = 12 * MINUTE_MS
"""An event that arrives later than this after it happened counts as late in the truth."""
_LATE_MS_MAX: Final = 2 * HOUR_MS
_LATE_SHARE: Final = 0.01
_TWICE_SHARE: Final = 0.01
_DAMAGED_SHARE: Final = 0.0005
_DELAY_MS: Final = 800.0
_AGAIN_MS: Final = (200, 30_000)
_INTACT: Final = 0
_AGAIN: Final = 1
_DAMAGED: Final = 2
_ROWS_AT_ONCE: Final = 10_000


class Record(NamedTuple):
    """What a producer sends. `due_ms`: when, on the clock of the events."""

    topic: str
    key: str
    value: bytes
    due_ms: int


class Truth(msgspec.Struct, kw_only=True):
    """What was sent, known from how it was invented: what results are compared with."""

    seed: int
    start_ms: int
    span_ms: int
    records: dict[str, int]
    """Records by topic, with duplicates and damaged ones."""
    events: dict[str, int]
    """Events by topic: distinct and intact."""
    duplicates: dict[str, int]
    damaged: dict[str, int]
    late: dict[str, int]
    attacks: list[Attack]
    incident: Incident
    views: dict[str, dict[int, int]]
    """Distinct page views by page and start of the minute, the late ones among them."""


class Schedule:
    """All records of a world in the order in which they arrive."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng = np.random.default_rng([world.plan.seed, 1])
        parts = [_arrivals(stream, world.plan.start_ms + world.plan.span_ms, rng) for stream in world.streams]
        self._late = [part[3] for part in parts]
        self._topic = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
        due, row, kind = (np.concatenate([part[column] for part in parts]) for column in range(3))
        order = np.argsort(due, kind="stable")
        self._topic, self._row, self._kind = self._topic[order], row[order], kind[order]
        self.due_ms: Ints = due[order]

    def __len__(self) -> int:
        return len(self.due_ms)

    def __iter__(self) -> Iterator[Record]:
        for first in range(0, len(self), _ROWS_AT_ONCE):
            topics, rows = (column[first : first + _ROWS_AT_ONCE] for column in (self._topic, self._row))
            events = [
                self._events(stream, rows[topics == number])
                for number, stream in enumerate(self.world.streams)
            ]
            for position, number in enumerate(topics.tolist(), first):
                key, event = next(events[number])
                is_damaged = self._kind[position] == _DAMAGED
                value = _damage(event, position) if is_damaged else msgspec.json.encode(event)
                yield Record(self.world.streams[number].topic, key, value, int(self.due_ms[position]))

    def _events(self, stream: Stream, rows: Ints) -> Iterator[tuple[str, dict[str, Any]]]:
        """Keys and events."""
        taken = stream.fields.take(rows).to_pylist()
        for row, ts, fields in zip(rows.tolist(), stream.ts[rows].tolist(), taken, strict=True):
            known = {name: value for name, value in fields.items() if value is not None}
            event = {"id": f"{self.world.plan.seed:x}-{stream.topic}-{row}", "ts": ts} | known
            yield next(iter(known.values())), event

    def truth(self) -> Truth:
        """What there is to find."""
        streams, plan = self.world.streams, self.world.plan

        def by_topic(kind: int) -> dict[str, int]:
            return {
                stream.topic: int(((self._topic == number) & (self._kind == kind)).sum())
                for number, stream in enumerate(streams)
            }

        events, duplicates, damaged = by_topic(_INTACT), by_topic(_AGAIN), by_topic(_DAMAGED)
        return Truth(
            seed=plan.seed,
            start_ms=plan.start_ms,
            span_ms=plan.span_ms,
            records={topic: count + duplicates[topic] + damaged[topic] for topic, count in events.items()},
            events=events,
            duplicates=duplicates,
            damaged=damaged,
            late={stream.topic: late for stream, late in zip(streams, self._late, strict=True)},
            attacks=list(self.world.attacks),
            incident=self.world.incident,
            views=_views(next(stream for stream in streams if stream.topic == "page_views")),
        )


def _arrivals(stream: Stream, end_ms: int, rng: np.random.Generator) -> tuple[Ints, Ints, Ints, int]:
    """(when, which row, in which shape) of every record, and how many arrive late."""
    ts = stream.ts
    count = len(ts)
    due = ts + rng.exponential(_DELAY_MS, count).astype(np.int64)
    held_up = ts + rng.integers(LATE_MS, _LATE_MS_MAX, count)
    late = (rng.random(count) < _LATE_SHARE) & (held_up < end_ms)
    due = np.where(late, held_up, due)
    again = np.flatnonzero(rng.random(count) < _TWICE_SHARE)
    damaged = rng.integers(0, count, max(1, int(count * _DAMAGED_SHARE))) if count else again
    rows = np.concatenate((np.arange(count), again, damaged))
    kinds = np.repeat([_INTACT, _AGAIN, _DAMAGED], [count, len(again), len(damaged)])
    when = np.concatenate((due, due[again] + rng.integers(*_AGAIN_MS, len(again)), due[damaged]))
    return np.minimum(when, end_ms), rows, kinds.astype(np.int64), int(late.sum())


def _views(stream: Stream) -> dict[str, dict[int, int]]:
    minute = pa.array(stream.ts // MINUTE_MS * MINUTE_MS)
    viewed = pa.table({"page": stream.fields["page"].cast(pa.string()), "minute": minute})
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for each in viewed.group_by(["page", "minute"]).aggregate([([], "count_all")]).to_pylist():
        found[each["page"]][each["minute"]] = each["count_all"]
    return found


def _damage(event: dict[str, Any], number: int) -> bytes:
    """Kinds of damage in turn: cut off, no JSON, a field missing, one of another kind, a time far ahead."""
    text = msgspec.json.encode(event)
    match number % 5:
        case 0:
            return text[: len(text) // 2]
        case 1:
            return b"\xff\xfe\x00" + text[:20]
        case 2:
            return msgspec.json.encode({name: value for name, value in event.items() if name != "id"})
        case 3:
            return msgspec.json.encode(event | {"ts": "yesterday"})
    return msgspec.json.encode(event | {"ts": event["ts"] + 100 * 365 * 24 * HOUR_MS})
