"""The operators' dashboard: sums, the first of each order, and what changed."""

import msgspec

from contracts.fleet import FleetOverview, FleetRow
from tenants.rules.fleet import WALL_MAX, Picture, changed, picture, whole

_ROW = FleetRow("i0", 0, 0, 1_000, 1_000, 0, 0, 100, blocked=False, skew_percent=0, silent_brokers=0)


def _row(number: int, **fields: object) -> FleetRow:
    return msgspec.structs.replace(_ROW, instance_id=f"i{number}", **fields)


def _picture(*rows: FleetRow) -> Picture:
    names = {row.instance_id: ("acme", f"n-{row.instance_id}") for row in rows}
    return picture(FleetOverview(at_ms=1, policy="fair", rows=rows), names)


def test_full_ones_come_first_then_held_back_ones_then_silent_ones() -> None:
    shown = _picture(
        _row(1),
        _row(2, throttled_ms_per_s=10),
        _row(3, throttled_ms_per_s=900),
        _row(4, blocked=True),
        _row(5, silent_brokers=2),
    )
    assert shown.walls["pressure"] == ["i4", "i3", "i2", "i5", "i1"]
    assert {name: shown.totals[name] for name in ("throttled", "blocked", "silent", "instances")} == {
        "throttled": 2,
        "blocked": 1,
        "silent": 1,
        "instances": 5,
    }


def test_each_order_has_its_first_and_no_more() -> None:
    rows = [_row(number, produce_per_s=number, stored_bytes=50 - number) for number in range(50)]
    shown = _picture(*rows)
    assert shown.walls["produce"][0] == "i49"
    assert shown.walls["stored"][0] == "i0"
    assert shown.walls["unused"][0] == "i0"
    assert {len(ids) for ids in shown.walls.values()} == {WALL_MAX}
    assert shown.rows.keys() == {key for ids in shown.walls.values() for key in ids}


def test_only_what_changed_is_told_and_little_changes_are_none() -> None:
    before = _picture(_row(1, stored_bytes=123_456), _row(2, produce_per_s=500))
    same = _picture(_row(1, stored_bytes=123_499), _row(2, produce_per_s=500))
    told = changed(before, same)
    assert (told["totals"], told["rows"], told["walls"], told["gone"]) == ({}, {}, {}, [])
    after = _picture(_row(1, stored_bytes=123_456, blocked=True))
    told = changed(before, after)
    assert told["rows"] == {"i1": {"blocked": True}}
    assert told["gone"] == ["i2"]
    assert told["totals"]["instances"] == 1
    assert told["walls"]["pressure"] == ["i1"]
    assert whole(after)["rows"] == after.rows


def test_who_has_no_name_is_not_shown() -> None:
    shown = picture(FleetOverview(at_ms=1, policy="fair", rows=(_row(1),)), {})
    assert (shown.totals["instances"], shown.rows) == (0, {})
