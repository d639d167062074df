"""Advice, read from real Delta tables: operators see everything, tenants what concerns their size."""

import datetime as dt
from pathlib import Path

from contracts.advice import Metric, Urgency

from . import metered
from .conftest import Caller
from .delta_tables import write

TODAY = dt.datetime.now(dt.UTC).date()


def _advise(tables: Path, instance_id: str, run_date: dt.date = TODAY, **changes: object) -> None:
    write(tables, "advice", [metered.advice(instance_id, run_date, **changes)], by="run_date")
    rows = [metered.skew(instance_id, run_date, direction) for direction in ("produce", "consume")]
    write(tables, "skew", rows, by="run_date")
    forecasts = [metered.forecast(instance_id, run_date, metric) for metric in Metric]
    write(tables, "forecast", forecasts, by="run_date")
    moves = [metered.move(instance_id, run_date, step) for step in (2, 1)]
    write(tables, "moves", moves, by="run_date")


async def test_before_anything_is_advised(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    for path in ("advice", "instances/shop/advice"):
        answer = (await operator("GET", path)).json()
        assert answer["available"] is False
        assert "portico pipeline advise" in answer["hint"]
    _advise(tables, "iaaaaaaaaaaa")
    answer = (await operator("GET", "instances/shop/advice")).json()
    assert (answer["available"], answer["advice"], answer["moves"]) == (True, None, [])
    _advise(tables, str(made["id"]), TODAY - dt.timedelta(days=40))
    assert (await operator("GET", "instances/shop/advice")).json()["advice"] is None


async def test_the_newest_advice_of_every_instance(operator: Caller, tables: Path) -> None:
    owner = await operator.tenant("acme")
    calm, urgent = await operator.order("calm"), await owner.order("urgent")
    before = TODAY - dt.timedelta(days=1)
    _advise(tables, str(calm["id"]), before, urgency=Urgency.NOW, reason="old")
    _advise(tables, str(calm["id"]), TODAY, urgency=Urgency.NONE, reason="new")
    _advise(tables, str(urgent["id"]), before, urgency=Urgency.NOW)
    _advise(tables, "igone2222222")
    items = (await operator("GET", "advice")).json()["items"]
    assert [(one["tenant"], one["name"], one["advice"]["reason"]) for one in items] == [
        ("acme", "urgent", "peaks of 1.2 MB/s need 2 MB/s"),
        ("default", "calm", "new"),
    ]
    assert items[0]["advice"]["run_date"] == str(before)
    assert {one["direction"]: one["p_ratio_min"] for one in items[1]["skew"]} == {
        "produce": 0.5,
        "consume": 0.5,
    }
    assert (await owner("GET", "advice")).status_code == 403


async def test_an_instances_own_advice_tells_tenants_nothing_of_brokers(
    operator: Caller, tables: Path
) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    viewer = await operator.tenant("acme", "viewer")
    made = await owner.order()
    _advise(tables, str(made["id"]))
    full = (await operator("GET", f"instances/{made['id']}/advice")).json()
    assert [one["step"] for one in full["moves"]] == [1, 2]
    assert [one["direction"] for one in full["skew"]] == ["produce", "consume"]
    assert full["skew"][0]["points"][0]["node_id"] == 1
    assert len(full["forecast"]) == 3
    assert full["advice"]["produce_usable_share"] == 0.55
    for caller in (owner, viewer):
        own = (await caller("GET", "instances/shop/advice")).json()
        assert (own["skew"], own["moves"]) == (None, None)
        assert (own["advice"]["produce_usable_share"], own["advice"]["moves"]) == (None, 0)
        assert own["advice"]["recommended_produce_rate_bytes_per_s"] == 2_000_000
        assert "broker" not in str(own)
    assert (await stranger("GET", f"instances/{made['id']}/advice")).status_code == 404


async def test_a_damaged_table_of_advice_is_said(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _advise(tables, str(made["id"]))
    for file in (tables / "moves").rglob("*.parquet"):
        file.unlink()
    assert (await operator("GET", "instances/shop/advice")).status_code == 503
    assert (await operator("GET", "advice")).status_code == 200
