"""Usage by the hour from the master's records: each byte once, whatever comes twice, late or never."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.billing import HOUR_MS, SLOT_MS, PeriodState, PriceBook
from contracts.usage_batches import encoded
from contracts.usage_records import USAGE_VERSION, UsageRecord, record_id
from tenants.backend.usage_topic import Values
from tenants.console import Console
from tenants.rules.costs import month_of
from tenants.rules.counted_usage import FUTURE_MS, KEPT_MS, NUMBER_MAX, Position, Tally, Unfit
from tenants.store import counted_usage
from tenants.store.engine import Store
from tenants.store.shared_session import SoleOffice
from tenants.usage_counter import UsageCounter
from tests.unit.tenants import metered
from tests.unit.tenants.conftest import Caller
from tests.unit.tenants.delta_tables import write

MINUTE_MS: Final = 60_000
NOW_MS: Final = 1_793_620_800_000
HOUR: Final = NOW_MS - 5 * HOUR_MS
ID: Final = "iaaaaaaaaaaa"
TOPIC_ID: Final = "11111111-1111-1111-1111-111111111111"


def _record(start_ms: int, produced: int, total: int, **changes: Any) -> UsageRecord:
    boot, instance = changes.pop("boot_id", "b1"), changes.pop("instance_id", ID)
    values = dict.fromkeys(UsageRecord.__struct_fields__, 0) | {
        "id": record_id(boot, instance, start_ms),
        "point": "1",
        "node_id": 1,
        "cluster_id": "builtin-1",
        "boot_id": boot,
        "counted_since_ms": 1,
        "instance_id": instance,
        "interval_start_ms": start_ms,
        "interval_ms": MINUTE_MS,
        "grid_ms": MINUTE_MS,
        "produce_bytes": produced,
        "produce_bytes_total": total,
        "version": USAGE_VERSION,
    }
    return msgspec.convert(values | changes, UsageRecord)


def _series(amounts: list[int], boot_id: str = "b1") -> list[UsageRecord]:
    """A record a minute."""
    totals = [sum(amounts[: number + 1]) for number in range(len(amounts))]
    return [
        _record(HOUR + number * MINUTE_MS, amount, total, boot_id=boot_id)
        for number, (amount, total) in enumerate(zip(amounts, totals, strict=True))
    ]


def _produced(tally: Tally) -> int:
    return sum(one.produce_bytes for one in tally.hours.values())


@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=150),
    st.sets(st.integers(0, 149)),
    st.lists(st.tuples(st.integers(0, 149), st.integers(0, 5)), max_size=30),
)
def test_bytes_add_up_to_the_counters(
    amounts: list[int], lost: set[int], again: list[tuple[int, int]]
) -> None:
    records = _series(amounts)
    sent = [
        one for number, one in enumerate(records) if number not in lost or number in (0, len(records) - 1)
    ]
    for number, behind in again:  # sent anew a little later
        if number < len(records) and records[number] in sent:
            sent.insert(sent.index(records[number]) + 1 + behind, records[number])
    tally = Tally({}, {})
    tally.take(sent, NOW_MS)
    assert _produced(tally) == sum(amounts)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=90), st.integers(0, 90))
def test_counting_goes_on_where_it_stopped(amounts: list[int], cut: int) -> None:
    records = _series(amounts)
    whole, parts = Tally({}, {}), Tally({}, {})
    whole.take(records, NOW_MS)
    parts.take(records[:cut], NOW_MS)
    parts = Tally(parts.meters, parts.hours)
    parts.take(records[cut:], NOW_MS)
    assert (parts.meters, parts.hours) == (whole.meters, whole.hours)


def test_what_the_counters_had_before_is_not_this_hours() -> None:
    tally = Tally({}, {})
    tally.take([_record(HOUR, 5, 1_000_000)], NOW_MS)
    assert _produced(tally) == 5
    fresh = Tally({}, {})
    fresh.take([_record(HOUR, 5, 1_000, counted_since_ms=HOUR - 30_000)], NOW_MS)
    assert _produced(fresh) == 1_000, "its first reports reached nobody"


def test_records_of_several_points_and_runs_are_one_hours() -> None:
    tally = Tally({}, {})
    tally.take([*_series([10] * 60), *_series([7] * 60, "b2"), *_series([1] * 61, "b3")], NOW_MS)
    assert {start: one.produce_bytes for (_, start), one in tally.hours.items()} == {
        HOUR: 18 * 60,
        HOUR + HOUR_MS: 1,
    }


def test_a_lost_record_is_marked_and_no_peak() -> None:
    records = _series([300] * 20)
    tally = Tally({}, {})
    tally.take([*records[:5], *records[10:]], NOW_MS)
    hour = tally.hours[ID, HOUR]
    assert (hour.produce_bytes, hour.recovered_bytes) == (6_000, 1_500)
    assert max(hour.produce_peak_bytes, hour.slot_produce_bytes) == 5 * 300


@pytest.mark.parametrize(
    ("record", "unfit"),
    [
        (_record(NOW_MS + FUTURE_MS, 1, 1), Unfit.CLOCK),
        (_record(NOW_MS - KEPT_MS - 1, 1, 1), Unfit.CLOCK),
        (_record(HOUR, 2, 1), Unfit.IMPOSSIBLE),
        (_record(HOUR, 0, 0, consume_bytes=1), Unfit.IMPOSSIBLE),
    ],
)
def test_what_cannot_be_is_left_out(record: UsageRecord, unfit: Unfit) -> None:
    tally = Tally({}, {})
    tally.take([record], NOW_MS)
    assert (tally.hours, tally.meters, tally.unfit) == ({}, {}, {unfit: 1})


def test_a_clock_that_is_behind_the_masters_leaves_nothing_out() -> None:
    tally = Tally({}, {})
    tally.take(_series([10] * 60), HOUR - 20 * MINUTE_MS)
    assert tally.hours[ID, HOUR].produce_bytes == 600 and not tally.unfit


def test_a_clock_that_was_ahead_for_a_while_hides_nothing() -> None:
    day_ms, tally = 24 * HOUR_MS, Tally({}, {})
    before = _series([10] * 100)
    tally.take(before[:10], NOW_MS)
    later = (_record(one.interval_start_ms + day_ms, 10, one.produce_bytes_total) for one in before[10:20])
    ahead = list(later)
    tally.take(ahead, NOW_MS)
    tally.take(before[20:], NOW_MS)
    tally.take([*ahead, *before], NOW_MS)
    assert _produced(tally) == 1_000
    assert tally.hours[ID, HOUR].produce_bytes == 500, "the ten minutes are a day later"


def test_counters_that_were_set_back_are_told_apart() -> None:
    tally = Tally({}, {})
    tally.take(_series([100] * 10), NOW_MS)
    tally.take([_record(HOUR + 10 * MINUTE_MS, 7, 507), _record(HOUR + 11 * MINUTE_MS, 600, 1_107)], NOW_MS)
    assert (_produced(tally), tally.unfit) == (1_107, {Unfit.LESS: 1})


# --- in a database -----------------------------------------------------------------------------------


@pytest.fixture
def office() -> SoleOffice:
    return SoleOffice()


@pytest.fixture
def feed_it(plane: Console, office: SoleOffice) -> Callable[..., Any]:
    """Counts values as if the topic's partition 0 had them next."""
    found: list[Values] = []

    async def read(*_: object) -> list[Values]:
        return found

    counter = UsageCounter(plane.store, plane.cluster, office, read)

    async def feed(values: list[bytes], at: int, now_ms: int = NOW_MS) -> UsageCounter:
        found[:] = [Values(0, Position(TOPIC_ID, at + len(values)), values, None)]
        await counter.step(now_ms)
        return counter

    return feed


def _bytes(records: list[UsageRecord]) -> list[bytes]:
    return [encoded([one]) for one in records]


def _stored(store: Store) -> tuple[dict[int, int], dict[int, int]]:
    with store.read() as connection:
        hours = counted_usage.of_instance(connection, ID, 0, NUMBER_MAX)
        positions = counted_usage.positions(connection, "builtin-1")
    assert {one.topic_id for one in positions.values()} <= {TOPIC_ID}
    offsets = {partition: one.next_offset for partition, one in positions.items()}
    return offsets, {at: one.produce_bytes for at, one in hours}


async def test_hours_and_positions_are_kept_together(plane: Console, feed_it: Any) -> None:
    records = _series([10] * 70)
    await feed_it(_bytes(records[:30]), 0)
    await feed_it(_bytes(records[20:]), 30)
    assert _stored(plane.store) == ({0: 80}, {HOUR: 600, HOUR + HOUR_MS: 100})


async def test_what_is_no_record_stops_nothing(plane: Console, feed_it: Any) -> None:
    large = _record(HOUR + MINUTE_MS, NUMBER_MAX, NUMBER_MAX, boot_id="b2", produce_requests=NUMBER_MAX)
    again = _record(HOUR + 2 * MINUTE_MS, 0, 0, boot_id="b3", produce_requests=NUMBER_MAX)
    values = [
        b"",
        b"{}",
        b"\xff",
        b'{"version":2,"x":' + b"[" * 100_000,
        b'{"\xff":1}',
        _bytes([_record(HOUR, 1, 1, boot_id="a\0b")])[0],
    ]
    counter = await feed_it([*values, *_bytes([_record(HOUR, 7, 7), large, again])], 0)
    assert (counter.counts["unreadable"], counter.counts["counted"]) == (6, 3)
    positions, hours = _stored(plane.store)
    assert positions == {0: 9} and hours == {HOUR: NUMBER_MAX}


async def test_long_past_hours_are_forgotten(plane: Console, feed_it: Any) -> None:
    await feed_it(_bytes(_series([10] * 3)), 0)
    later_ms = HOUR + KEPT_MS
    await feed_it(_bytes([_record(later_ms - HOUR_MS, 1, 1, boot_id="b2")]), 4, later_ms)
    assert _stored(plane.store)[1] == {HOUR: 30, later_ms - HOUR_MS: 1}
    await feed_it(_bytes([_record(later_ms, 1, 2, boot_id="b2")]), 5, later_ms + HOUR_MS)
    assert _stored(plane.store)[1] == {later_ms - HOUR_MS: 1, later_ms: 1}


async def test_a_clock_that_is_years_ahead_makes_nothing_old(plane: Console, feed_it: Any) -> None:
    await feed_it(_bytes(_series([10] * 3)), 0)
    await feed_it([], 3, NOW_MS + 400 * 24 * HOUR_MS)
    assert _stored(plane.store)[1] == {HOUR: 30}


async def test_who_lost_the_office_counts_nothing(
    plane: Console, feed_it: Any, office: SoleOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office, "holds", lambda _: False)
    await feed_it(_bytes(_series([10])), 0)
    assert _stored(plane.store) == ({}, {})


# --- as tenants see it -------------------------------------------------------------------------------


async def _count(plane: Console, feed_it: Any, instance_id: str, start: datetime, hours: int) -> None:
    start_ms = int(start.timestamp() * 1000)
    records = [
        _record(
            start_ms + number * HOUR_MS,
            3_000,
            3_000 * (number + 1),
            instance_id=instance_id,
            stored_byte_ms=10**9 * MINUTE_MS,
        )
        for number in range(hours)
    ]
    await feed_it(_bytes(records), 0, start_ms + hours * HOUR_MS)


async def test_an_hour_is_known_before_the_pipeline_ran(
    operator: Caller, plane: Console, feed_it: Any
) -> None:
    made = await operator.order()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    await _count(plane, feed_it, str(made["id"]), start, 3)
    told = (await operator("GET", "instances/shop/usage")).json()
    assert (told["available"], told["hint"], told["p95"]) == (True, None, None)
    assert [one["produce_bytes"] for one in told["items"]] == [3_000] * 3
    assert [one["provisional"] for one in told["items"]] == [True] * 3
    assert [one["produce_peak_bytes_per_s"] for one in told["items"]] == [3_000 * 1000 // SLOT_MS] * 3
    assert (told["totals"]["provisional"], told["totals"]["gb_hours"]) == (True, "0.050000")
    days = (await operator("GET", "instances/shop/usage?resolution=day")).json()
    assert sum(one["produce_bytes"] for one in days["items"]) == 9_000
    assert {one["state"] for one in days["items"]} == {"open"}
    slots = (await operator("GET", "instances/shop/usage?resolution=5m")).json()
    assert (slots["available"], slots["items"]) == (False, [])
    csv = (await operator("GET", "instances/shop/usage?format=csv")).text.splitlines()
    assert csv[0].endswith(",provisional") and len(csv) == 4


async def test_what_the_pipeline_settled_holds(
    operator: Caller, plane: Console, feed_it: Any, tables: Path
) -> None:
    made = await operator.order()
    instance_id = str(made["id"])
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = today - timedelta(days=2)
    await _count(plane, feed_it, instance_id, start, 30)
    behind = {"state": PeriodState.OPEN, "covered_ms": 900_000}
    hours = [metered.hour(instance_id, start + timedelta(hours=number), 2_000) for number in range(24)]
    hours.append(metered.hour(instance_id, start + timedelta(hours=24), 10, **behind))
    hours.append(metered.hour(instance_id, start + timedelta(hours=25), 10**6, **behind))
    write(tables, "usage_hour", hours, by="day")
    settled = metered.day(instance_id, start, 48_000)
    write(tables, "usage_day", [settled], by="month")
    span = f"from={start:%Y-%m-%dT%H:%M:%SZ}&to={today:%Y-%m-%dT%H:%M:%SZ}"
    told = (await operator("GET", f"instances/shop/usage?{span}")).json()["items"]
    assert [one["produce_bytes"] for one in told] == [2_000] * 24 + [3_000, 10**6] + [3_000] * 4
    assert [one["provisional"] for one in told] == [False] * 24 + [True, False] + [True] * 4
    days = (await operator("GET", f"instances/shop/usage?{span}&resolution=day")).json()["items"]
    assert [one["produce_bytes"] for one in days] == [48_000, 10**6 + 5 * 3_000]
    assert [one["provisional"] for one in days] == [False, True]
    assert days[1]["stored_bytes_avg"] is not None, "the day is over"


async def test_what_this_month_costs_before_anybody_settled_it(
    operator: Caller, plane: Console, feed_it: Any, tables: Path
) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    made = await owner.order()
    nothing = (await owner("GET", "instances/shop/costs")).json()
    assert (nothing["available"], nothing["lines"], nothing["so_far_minor"]) == (False, [], None)
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    await _count(plane, feed_it, str(made["id"]), this_hour, 1)
    told = (await owner("GET", "instances/shop/costs")).json()
    assert (told["available"], told["provisional"], told["price_version"]) == (True, True, None)
    quantities = {one["dimension"]: one["quantity"] for one in told["lines"]}
    assert (quantities["produce"], quantities["storage"]) == ("0.000003", "0.016667")
    left_out = [(one["dimension"], one["cause"]) for one in told["left_out"]]
    assert left_out == [("bandwidth_p95", "five_minutes")]
    assert (await stranger("GET", f"instances/{made['id']}/costs")).status_code == 404
    text = 'currency = "EUR"\neffective_from = 2020-01-01\n[produce]\nprice = 1000000'
    book = PriceBook(
        version=3,
        effective_from=date(2020, 1, 1),
        currency="EUR",
        minor_unit_digits=2,
        text=text,
        set_at_ms=0,
    )
    write(tables, "price_book", [book])
    told = (await owner("GET", "instances/shop/costs")).json()
    assert (told["currency"], told["price_version"], told["so_far_minor"]) == ("EUR", 3, 300)


async def test_what_other_rates_cost_is_told_before_they_are_ordered(
    operator: Caller, plane: Console, tables: Path
) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    made = await owner.order(produce_rate_bytes_per_s=2**20, consume_rate_bytes_per_s=2**20)
    path = f"instances/{made['id']}/costs/limits"
    free = (await owner("GET", path)).json()
    assert (free["price_version"], free["now_minor"], free["then_minor"]) == (None, 0, 0)
    text = 'currency = "EUR"\neffective_from = 2020-01-01\n[provisioned]\nprice = 1'
    book = PriceBook(
        version=3,
        effective_from=date(2020, 1, 1),
        currency="EUR",
        minor_unit_digits=2,
        text=text,
        set_at_ms=0,
    )
    write(tables, "price_book", [book])
    month = month_of(round(datetime.now(UTC).timestamp() * 1000))
    hours = (month.end_ms - month.begin_ms) // HOUR_MS
    told = (await owner("GET", f"{path}?produce_rate_bytes_per_s={4 * 2**20}")).json()
    assert (told["currency"], told["now_minor"], told["then_minor"]) == ("EUR", 200 * hours, 500 * hours)
    assert (await owner("GET", f"{path}?consume_rate_bytes_per_s=1")).status_code == 422
    assert (await stranger("GET", path)).status_code == 404


async def test_rates_have_no_price_before_a_price_book_is_in_effect(
    operator: Caller, plane: Console, tables: Path
) -> None:
    made = await operator.order()
    book = PriceBook(
        version=1,
        effective_from=date(2999, 1, 1),
        currency="EUR",
        minor_unit_digits=2,
        text="",
        set_at_ms=0,
    )
    write(tables, "price_book", [book])
    told = (await operator("GET", f"instances/{made['id']}/costs/limits")).json()
    assert (told["available"], told["now_minor"]) == (False, None) and "in effect" in told["hint"]


async def test_nobody_sees_anothers_hours(operator: Caller, plane: Console, feed_it: Any) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    made = await owner.order()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    await _count(plane, feed_it, str(made["id"]), start, 2)
    assert len((await owner("GET", f"instances/{made['id']}/usage")).json()["items"]) == 2
    assert (await stranger("GET", f"instances/{made['id']}/usage")).status_code == 404
    await stranger.order(name="own")
    told = (await stranger("GET", "instances/own/usage")).json()
    assert (told["available"], told["items"]) == (False, [])
