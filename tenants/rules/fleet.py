"""The operators' dashboard: sums over all instances, the first of each order, and what changed. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contracts.fleet import FleetOverview, FleetRow

WALL_MAX: Final = 25
"""Instances of each order that a dashboard is told of."""
_DIGITS: Final = 3
"""Of a rate or size: what changes less is not told."""


class Wall(StrEnum):
    """By what instances are ordered, the first being those that an operator looks for."""

    PRESSURE = "pressure"
    """Full first, then by the time that clients are held back."""
    PRODUCE = "produce"
    CONSUME = "consume"
    STORED = "stored"
    """By the part of their capacity that is used."""
    SKEW = "skew"
    """By how uneven their brokers' traffic is."""
    UNUSED = "unused"
    """By what was bought and is not used."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a dashboard shows."""

    at_ms: int
    policy: str
    totals: Mapping[str, int]
    rows: Mapping[str, Mapping[str, object]]
    """By instance id, of those on a wall."""
    walls: Mapping[str, list[str]]
    """Instance ids by order."""


def _pressure(row: FleetRow) -> tuple[int, ...]:
    # Steps, not exact numbers: rows must not jump every second.
    return (int(row.blocked), -(-row.throttled_ms_per_s // 250), min(row.silent_brokers, 1))


_WEIGHTS: Final[Mapping[Wall, Callable[[FleetRow], tuple[int, ...]]]] = {
    Wall.PRESSURE: _pressure,
    Wall.PRODUCE: lambda row: (_rounded(row.produce_per_s, 2),),
    Wall.CONSUME: lambda row: (_rounded(row.consume_per_s, 2),),
    Wall.STORED: lambda row: (1000 * row.stored_bytes // max(1, row.capacity_bytes),),
    Wall.SKEW: lambda row: (row.skew_percent // 10,),
    Wall.UNUSED: lambda row: (
        _rounded(
            max(0, row.produce_bought_per_s - row.produce_per_s)
            + max(0, row.consume_bought_per_s - row.consume_per_s),
            2,
        ),
    ),
}


def picture(overview: FleetOverview, names: Mapping[str, tuple[str, str]]) -> Picture:
    """`names`: tenant and name of each instance that is shown."""
    rows = [row for row in overview.rows if row.instance_id in names]
    walls: dict[str, list[str]] = {}
    for wall, weight in _WEIGHTS.items():
        first = sorted(
            ((weight(row), row) for row in rows),
            key=lambda one: (*(-part for part in one[0]), names[one[1].instance_id][1], one[1].instance_id),
        )
        walls[wall.value] = [row.instance_id for _, row in first[:WALL_MAX]]
    shown = {key for ids in walls.values() for key in ids}
    return Picture(
        overview.at_ms,
        overview.policy,
        _totals(rows),
        {row.instance_id: _told(row, *names[row.instance_id]) for row in rows if row.instance_id in shown},
        walls,
    )


def _totals(rows: list[FleetRow]) -> dict[str, int]:
    return {
        "instances": len(rows),
        "produce_per_s": _rounded(sum(row.produce_per_s for row in rows)),
        "consume_per_s": _rounded(sum(row.consume_per_s for row in rows)),
        "produce_bought_per_s": sum(row.produce_bought_per_s for row in rows),
        "consume_bought_per_s": sum(row.consume_bought_per_s for row in rows),
        "stored_bytes": _rounded(sum(row.stored_bytes for row in rows)),
        "capacity_bytes": sum(row.capacity_bytes for row in rows),
        "throttled": sum(row.throttled_ms_per_s > 0 for row in rows),
        "blocked": sum(row.blocked for row in rows),
        "silent": sum(row.silent_brokers > 0 for row in rows),
    }


def _told(row: FleetRow, tenant: str, name: str) -> dict[str, object]:
    return {
        "name": name,
        "tenant": tenant,
        "produce_per_s": _rounded(row.produce_per_s),
        "consume_per_s": _rounded(row.consume_per_s),
        "produce_bought_per_s": row.produce_bought_per_s,
        "consume_bought_per_s": row.consume_bought_per_s,
        "throttled_ms_per_s": row.throttled_ms_per_s,
        "stored_bytes": _rounded(row.stored_bytes),
        "capacity_bytes": row.capacity_bytes,
        "blocked": row.blocked,
        "skew_percent": row.skew_percent,
        "silent_brokers": row.silent_brokers,
    }


def _rounded(value: int, digits: int = _DIGITS) -> int:
    places = len(str(value)) - digits
    return value if places <= 0 else round(value, -places)


def whole(shown: Picture) -> dict[str, object]:
    """Everything, for who begins to look."""
    return {
        "whole": True,
        "at_ms": shown.at_ms,
        "policy": shown.policy,
        "totals": shown.totals,
        "rows": shown.rows,
        "walls": shown.walls,
        "gone": [],
    }


def changed(before: Picture, after: Picture) -> dict[str, object]:
    """What is other than in the picture before; of a row its fields that are."""
    rows = {}
    for key, row in after.rows.items():
        known = before.rows.get(key, {})
        if fields := {name: value for name, value in row.items() if known.get(name) != value}:
            rows[key] = fields
    return {
        "whole": False,
        "at_ms": after.at_ms,
        "policy": after.policy,
        "totals": {name: value for name, value in after.totals.items() if before.totals.get(name) != value},
        "rows": rows,
        "walls": {name: ids for name, ids in after.walls.items() if before.walls.get(name) != ids},
        "gone": sorted(before.rows.keys() - after.rows.keys()),
    }
