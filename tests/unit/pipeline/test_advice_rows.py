"""Rows of usage to rows of forecasts, skew and moves."""

import datetime
from typing import Any

import msgspec
import numpy as np
import pytest

from contracts.advice import PointShare, SkewRow
from contracts.billing import HOUR_MS
from pipeline.advice.judging.hours import forecasts, on_grid, reported_hours
from pipeline.advice.judging.judgement import Bought
from pipeline.advice.judging.moves import Led, Placement, advise_moves, is_skewed
from pipeline.advice.judging.skew import COLUMNS, WINDOW_MS, Balance, balance

INSTANCE = "iaaaaaaaaaaa"
BOUGHT = Bought(INSTANCE, 10_000_000, 10_000_000, 10**9)
DAY = datetime.date(2026, 11, 21)


def test_the_hour_that_goes_on_is_no_history() -> None:
    hours = [(0, True), (HOUR_MS, True), (2 * HOUR_MS, False)]
    assert reported_hours(hours, 2 * HOUR_MS + 5) == (0, HOUR_MS)
    assert reported_hours(hours, 3 * HOUR_MS) == (0, HOUR_MS), "it was rolled up while it went on"
    assert reported_hours([*hours[:2], (2 * HOUR_MS, True)], 3 * HOUR_MS) == (0, HOUR_MS, 2 * HOUR_MS)
    assert reported_hours([*hours, (3 * HOUR_MS, False)], 4 * HOUR_MS) == (0, HOUR_MS, 2 * HOUR_MS)
    assert reported_hours([], 5) == ()


def test_hours_without_a_row_are_zero_where_others_reported_and_unknown_where_nobody_did() -> None:
    reported = tuple(hour * HOUR_MS for hour in (0, 1, 2, 4, 5))
    series = on_grid(np.array([1, 4]) * HOUR_MS, np.array([7.0, 9.0]), reported)
    assert series.tolist()[:2] == [7, 0] and np.isnan(series[2]) and series.tolist()[3:] == [9, 0]
    assert len(on_grid(np.array([9]) * HOUR_MS, np.array([7.0]), reported)) == 0
    assert len(on_grid(np.array([9]) * HOUR_MS, np.array([7.0]), ())) == 0


def test_an_instance_of_this_hour_has_peaks_and_no_forecast() -> None:
    usage = {
        "hour_ms": np.array([9 * HOUR_MS]),
        "produce_peak_5m_bytes_per_s": np.array([5]),
        "consume_peak_5m_bytes_per_s": np.array([6]),
        "produce_peak_1m_bytes_per_s": np.array([7]),
        "consume_peak_1m_bytes_per_s": np.array([8]),
        "stored_bytes": np.array([9.4]),
    }
    rows = forecasts(usage, (), 100, None, INSTANCE, DAY).rows
    assert [(row.metric, row.model, row.peak) for row in rows] == [
        ("produce", "none", 7),
        ("consume", "none", 8),
        ("stored", "none", 9),
    ]
    assert all(row.expected == [] and row.history_hours == 0 for row in rows)


def balance_of(cells: dict[tuple[int, int], dict[str, Any]]) -> Balance:
    """(broker, window) -> what is not zero."""
    zero = dict.fromkeys(COLUMNS, 0)
    rows = [
        zero
        | {
            "node_id": broker,
            "point": f"broker-{broker}",
            "at_ms": window * WINDOW_MS,
            "covered_ms": WINDOW_MS,
            "partitions_led": 1,
        }
        | cell
        for (broker, window), cell in cells.items()
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in COLUMNS}
    return balance(columns, INSTANCE, DAY)


def test_windows_of_brokers_become_two_rows() -> None:
    cells: dict[tuple[int, int], dict[str, Any]] = {
        (2, 1): {"produce_bytes": 100, "stored_bytes": 50, "produce_throttled_ms": 10},
        (1, 0): {"produce_bytes": 300, "stored_bytes": 5, "blocked_ms": 40},
        (1, 1): {"produce_bytes": 300, "stored_bytes": 7, "produce_throttled_ms": 400_000},
        (2, 0): {"produce_bytes": 0, "blocked_ms": 30},
    }
    found = balance_of(cells)
    produce, consume = found.rows
    assert produce.at_ms == [0, 300_000]
    assert produce.rate_bytes_per_s == [1, 1]
    assert produce.p_ratio == [0, pytest.approx(1 / 3)] and consume.p_ratio == [None, None]
    assert produce.throttled_ms == [0, 300_000], "a broker cannot hold back for longer than it was"
    assert produce.usable_share == pytest.approx(200 / 300), "of the window in which it was held back"
    assert [point.bytes for point in produce.points] == [300, 100]
    assert [point.point for point in produce.points] == ["broker-1", "broker-2"]
    assert (found.stored_bytes, found.blocked_ms) == (57, 40)


def test_a_broker_that_gave_its_partitions_away_stores_nothing_and_is_no_zero() -> None:
    cells = {
        (1, window): {"produce_bytes": 300, "stored_bytes": 7, "partitions_led": 1} for window in range(4)
    }
    cells |= {(2, 0): {"produce_bytes": 10, "stored_bytes": 9}}
    cells |= {(2, window): {"stored_bytes": 9, "partitions_led": 0} for window in range(1, 4)}
    found = balance_of(cells)
    assert found.stored_bytes == 7
    produce, _ = found.rows
    assert produce.p_ratio[1:] == [1, 1, 1] and produce.usable_share == 1


def skew_row(direction: str, of_broker: dict[int, int], *, throttled_ms: int, rate: int = 5) -> SkewRow:
    loads = list(of_broker.values())
    return SkewRow(
        run_date=DAY,
        instance_id=INSTANCE,
        direction=direction,
        window_ms=300_000,
        at_ms=[0],
        rate_bytes_per_s=[rate],
        p_ratio=[0.0],
        usable_share_history=[0.0],
        throttled_ms=[throttled_ms],
        p_ratio_min=0.0,
        share_of_time_uneven=1.0,
        usable_share=sum(loads) / len(loads) / max(loads),
        throttled_total_ms=throttled_ms,
        points=[
            PointShare(
                point=f"broker-{node}", node_id=node, partitions_led=1, bytes=load, throttled_ms=throttled_ms
            )
            for node, load in of_broker.items()
        ],
    )


HOT = {1: 90, 2: 5, 3: 5}
PARTITIONS = [
    Led("t", 0, 1, (1, 2), (1, 2), 0, 45),
    Led("t", 1, 1, (1, 2), (1, 2), 0, 45),
    Led("t", 2, 2, (2,), (2,), 0, 5),
    Led("t", 3, 3, (3,), (3,), 0, 5),
]


@pytest.mark.parametrize(
    ("share", "throttled_ms", "skewed"), [(0.79, 1, True), (0.8, 1, False), (0.5, 0, False), (None, 9, False)]
)
def test_moves_are_for_hot_brokers_that_hold_clients_back(
    share: float | None, throttled_ms: int, skewed: bool
) -> None:
    row = skew_row("produce", HOT, throttled_ms=throttled_ms)
    assert is_skewed(msgspec.structs.replace(row, usable_share=share)) == skewed


def test_nothing_hot_nothing_said() -> None:
    rows = [skew_row("produce", HOT, throttled_ms=0), skew_row("consume", {1: 5, 2: 5}, throttled_ms=9)]
    assert advise_moves(rows, BOUGHT, Placement(PARTITIONS, [1, 2, 3]), DAY) == ((), "")


def test_moves_and_why() -> None:
    rows = [skew_row("produce", HOT, throttled_ms=60_000), skew_row("consume", {1: 1}, throttled_ms=0)]
    found = advise_moves(rows, BOUGHT, Placement(PARTITIONS, [1, 2, 3]), DAY)
    assert [(row.partition, row.from_node_id, row.to_node_id, row.step) for row in found.rows] == [
        (0, 1, 2, 1),
        (2, 2, 3, 2),
    ]
    assert found.rows[0].replicas == [2, 1] and found.rows[0].is_leadership_only
    assert not found.rows[1].is_leadership_only
    assert found.reason.startswith(
        "broker 1 carries 90% of its produce traffic (usable share 0.37) and clients were held back for 60 s"
    )
    assert "2 moves raise the usable share from 0.37 to 0.74" in found.reason
    assert "a larger one helps first" not in found.reason


def test_all_of_the_rate_in_use_is_said() -> None:
    rows = [skew_row("produce", HOT, throttled_ms=60_000, rate=9_500_000)]
    assert "a larger one helps first" in advise_moves(rows, BOUGHT, None, DAY).reason


def test_one_hot_partition_is_said() -> None:
    one = [Led("t", 0, 1, (1,), (1,), 0, 90), *PARTITIONS[2:]]
    found = advise_moves([skew_row("produce", HOT, throttled_ms=1)], BOUGHT, Placement(one, [1, 2, 3]), DAY)
    assert found.rows == ()
    assert "no move makes it more even, t-0 alone carries 90%: spread its keys or give" in found.reason


def test_partitions_that_went_elsewhere_meanwhile() -> None:
    gone = Placement([Led("t", 0, 7, (7,), (7,), 0, 90)], [7])
    found = advise_moves([skew_row("produce", HOT, throttled_ms=1)], BOUGHT, gone, DAY)
    assert found.rows == () and "lead none of its partitions any more" in found.reason
