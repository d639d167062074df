"""Advice on instances whose right advice is known, by the real job on real tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from deltalake import DeltaTable

from contracts.advice import (
    ADVICE_TABLE,
    FORECAST_TABLE,
    MOVES_TABLE,
    SKEW_TABLE,
    Action,
    AdviceRow,
    ForecastRow,
    Metric,
    Model,
    SkewRow,
    Urgency,
)
from pipeline.advice.job import Advised, advise
from pipeline.advice.judging.judgement import Bought
from pipeline.advice.judging.moves import Led, Placement
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from tests.pipeline.advice_usage import NOW_MS, Series, put_hours, put_points

pytestmark = pytest.mark.timeout(600)  # the first test waits for a whole run, on a loaded machine too

MB, GB = 10**6, 10**9
WEEK_H = 168
HOURS = np.arange(4.0 * WEEK_H)
STEADY = np.full(4 * WEEK_H, 4.0 * MB)
SEASON = 10 * MB * (np.sin(HOURS % 24 / 24 * 2 * np.pi) + 1.2) * np.where(HOURS // 24 % 7 == 6, 0.2, 1)


def instance_id(name: str) -> str:
    return f"i{name:a<11}"


def step(hours_ago: int) -> Series:
    return np.where(len(HOURS) - hours_ago > HOURS, 2.0 * MB, 30.0 * MB)


def spiky() -> Series:
    series = np.full(4 * WEEK_H, 1.0 * MB)
    series[30::WEEK_H] = 60.0 * MB
    return series


def gaps() -> Series:
    series = SEASON.copy()
    series[[50, 51, 52, -20, -19]] = np.nan
    return series


FLAT = np.full(4 * WEEK_H, 5.0 * GB)
SERIES: dict[str, tuple[Series, Series, Series]] = {
    "steady": (STEADY, STEADY * 2, FLAT),
    "season": (SEASON, SEASON, FLAT),
    "filling": (STEADY, STEADY, 10.0 * GB + 10.0 * MB * HOURS),
    "growing": (SEASON + 20_000 * HOURS, STEADY, FLAT),
    "hot": (STEADY, STEADY, FLAT),
    "idle": (np.zeros(4 * WEEK_H), np.zeros(4 * WEEK_H), FLAT),
    "spiky": (spiky(), spiky(), FLAT),
    "step": (step(48), step(48), FLAT),
    "gaps": (gaps(), gaps(), FLAT),
    "young": (STEADY[:40], STEADY[:40], 1.0 * GB + 1.0 * MB * HOURS[:40]),
}
BOUGHT = {name: Bought(instance_id(name), 20 * MB, 40 * MB, 20 * GB) for name in [*SERIES, "silent"]}
TOPIC = f"{instance_id('hot')}.orders"
LED = [
    Led(TOPIC, 0, 1, (1, 2), (1, 2), GB, 500),
    Led(TOPIC, 1, 1, (1, 3), (1, 3), GB, 400),
    Led(TOPIC, 2, 2, (2, 3), (2, 3), GB, 50),
    Led(TOPIC, 3, 3, (3, 1), (3, 1), GB, 50),
]


def points() -> list[Mapping[str, object]]:
    """The last 24 h: `hot` on three brokers, one of them nine times as busy; `steady` evenly on two."""
    start = NOW_MS // 60_000 * 60_000 - 24 * 3_600_000
    rows: list[Mapping[str, object]] = []
    shares = {"hot": {1: 90, 2: 5, 3: 5}, "steady": {1: 50, 2: 50}, "filling": {1: 100}}
    for name, of_broker in shares.items():
        stored = int(SERIES[name][2][-1])
        for minute in range(24 * 60):
            held_back = name == "hot" and minute >= 1_430
            rows += [
                {
                    "instance_id": instance_id(name),
                    "node_id": broker,
                    "point": f"broker-{broker}",
                    "interval_start_ms": start + minute * 60_000,
                    "produce_bytes": 4 * MB * 60 * share // 100,
                    "consume_bytes": 4 * MB * 60 // len(of_broker),
                    "stored_bytes": stored // len(of_broker),
                    "produce_throttled_ms": 30_000 if held_back and broker == 1 else 0,
                }
                for broker, share in of_broker.items()
            ]
    return rows


def places(asked: Sequence[str]) -> dict[str, Placement]:
    assert list(asked) == [instance_id("hot")]
    return {instance_id("hot"): Placement(LED, [1, 2, 3])}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> PipelineLayout:
    layout = PipelineLayout(tmp_path_factory.mktemp("advice"))
    put_hours(layout, {instance_id(name): series for name, series in SERIES.items()})
    put_points(layout, points())
    return layout


@pytest.fixture(scope="module")
def advised(tables: PipelineLayout) -> Advised:
    return advise(tables, Silent(), list(BOUGHT.values()), now_ms=NOW_MS, places=places)


def of(advised: Advised, name: str) -> AdviceRow:
    [row] = [row for row in advised.advice if row.instance_id == instance_id(name)]
    return row


def forecast_of(advised: Advised, name: str, metric: Metric) -> ForecastRow:
    [row] = [
        row
        for row in msgspec.convert(advised.forecast.to_pylist(), list[ForecastRow])
        if row.instance_id == instance_id(name) and row.metric is metric
    ]
    return row


def test_steady_keeps_what_fits_and_shrinks_what_is_twice_too_large(advised: Advised) -> None:
    row = of(advised, "steady")
    assert (row.produce_need_bytes_per_s, row.recommended_produce_rate_bytes_per_s) == (4 * MB, 10 * MB)
    assert (row.consume_need_bytes_per_s, row.recommended_consume_rate_bytes_per_s) == (8 * MB, 20 * MB)
    assert (row.produce_action, row.consume_action) == (Action.SHRINK, Action.SHRINK)
    assert (row.capacity_action, row.recommended_capacity_bytes) == (Action.SHRINK, 10 * GB)
    assert row.urgency is Urgency.SAVING and row.days_to_full is None
    assert row.produce_usable_share == row.consume_usable_share == 1
    assert row.history_hours == 4 * WEEK_H and row.is_enough_history


def test_a_season_is_forecast_as_it_was(advised: Advised) -> None:
    found = forecast_of(advised, "season", Metric.PRODUCE)
    assert found.model is Model.SEASONAL_NAIVE and found.mae is not None and found.mae < 1
    assert np.allclose(found.expected, SEASON[:WEEK_H], atol=1)
    assert of(advised, "season").produce_action is Action.GROW
    assert of(advised, "season").recommended_produce_rate_bytes_per_s == 40 * MB


def test_growth_fills_the_capacity_on_the_day_it_does(advised: Advised) -> None:
    row = of(advised, "filling")
    left = (20 * GB - SERIES["filling"][2][-1]) / (10 * MB) / 24
    assert row.days_to_full == pytest.approx(left, abs=0.1)
    assert row.days_to_full_low == pytest.approx(left, abs=0.1)
    assert row.growth_bytes_per_day == pytest.approx(240 * MB, rel=0.001)
    assert (
        row.urgency is Urgency.SOON
        and "full in 14 days = (20 GB - 16.7 GB stored) / 240 MB a day" in row.reason
    )
    assert forecast_of(advised, "filling", Metric.STORED).model is Model.SEASONAL_TREND


def test_growing_traffic_is_followed(advised: Advised) -> None:
    found = forecast_of(advised, "growing", Metric.PRODUCE)
    assert found.model is Model.SEASONAL_TREND and found.trend_per_day == pytest.approx(480_000, rel=0.01)
    assert found.p995 is not None and found.p995 > SERIES["growing"][0].max()
    assert "rising by 480 kB/s a day" in of(advised, "growing").reason


def test_a_hot_broker_gets_moves_that_can_be_carried_out(advised: Advised) -> None:
    row = of(advised, "hot")
    assert row.produce_usable_share == pytest.approx(1 / 2.7)
    assert row.consume_usable_share == pytest.approx(1)
    assert row.produce_throttled_ms == 10 * 30_000
    assert "broker 1 carries 90% of its produce traffic" in row.moves_reason
    assert "broker" not in row.reason, "tenants read it"
    first = advised.moves[0]
    assert (first.topic, first.partition, first.from_node_id, first.to_node_id) == (TOPIC, 1, 1, 3)
    assert first.replicas == [3, 1] and first.is_leadership_only and first.moved_bytes == 0
    assert advised.moves[-1].usable_share_after > 0.6 > first.usable_share_before
    assert row.moves == len(advised.moves) and {move.instance_id for move in advised.moves} == {
        instance_id("hot")
    }
    assert row.produce_action is Action.KEEP, "what was held back is not made smaller"


def test_idle_shrinks_to_the_smallest(advised: Advised) -> None:
    row = of(advised, "idle")
    assert row.produce_action is Action.SHRINK and row.recommended_produce_rate_bytes_per_s == 100_000
    assert "nothing is produced" in row.reason and "nothing is consumed" in row.reason


def test_spikes_of_each_week_are_provided_for(advised: Advised) -> None:
    row = of(advised, "spiky")
    assert row.produce_action is Action.GROW and row.recommended_produce_rate_bytes_per_s == 80 * MB


def test_a_step_counts_at_once(advised: Advised) -> None:
    assert of(advised, "step").recommended_produce_rate_bytes_per_s == 40 * MB


def test_gaps_change_nothing_much(advised: Advised) -> None:
    gappy, whole = of(advised, "gaps"), of(advised, "season")
    assert gappy.recommended_produce_rate_bytes_per_s == whole.recommended_produce_rate_bytes_per_s
    assert gappy.history_hours == 4 * WEEK_H


def test_little_history_is_said_and_nothing_is_shrunk(advised: Advised) -> None:
    row = of(advised, "young")
    assert row.reason.startswith("not enough data for a forecast (40 h of 336 h needed)")
    assert not row.is_enough_history and row.days_to_full is None
    assert row.growth_bytes_per_day == pytest.approx(24 * MB)
    assert row.produce_need_bytes_per_s == row.produce_peak_bytes_per_s == 4 * MB
    assert (row.produce_action, row.consume_action, row.capacity_action) == (Action.KEEP,) * 3
    assert forecast_of(advised, "young", Metric.PRODUCE).expected == []


def test_an_instance_without_usage_has_a_row(advised: Advised) -> None:
    row = of(advised, "silent")
    assert row.history_hours == 0 and row.urgency is Urgency.NONE and row.stored_bytes == 0


def test_skew_has_a_history_of_windows(advised: Advised) -> None:
    [row] = [
        row
        for row in msgspec.convert(advised.skew.to_pylist(), list[SkewRow])
        if row.instance_id == instance_id("hot") and row.direction == "produce"
    ]
    assert len(row.at_ms) == len(row.p_ratio) == len(row.throttled_ms) == len(row.rate_bytes_per_s) == 288
    assert row.p_ratio_min == pytest.approx(1 / 18) and row.share_of_time_uneven == 1
    assert set(row.rate_bytes_per_s) == {4 * MB}
    assert [point.node_id for point in row.points] == [1, 2, 3]
    assert row.points[0].bytes == 10 * 4 * MB * 60 * 9 // 10


def test_a_run_is_written_whole_and_again_in_its_place(tables: PipelineLayout, advised: Advised) -> None:
    names = (ADVICE_TABLE, SKEW_TABLE, FORECAST_TABLE, MOVES_TABLE)

    def written() -> dict[str, list[str]]:
        return {
            name: sorted(map(str, DeltaTable(str(tables.table(name))).to_pyarrow_table().to_pylist()))
            for name in names
        }

    before = written()
    assert [len(before[name]) for name in names] == [11, 6, 30, len(advised.moves)]
    only = [BOUGHT["hot"]]
    again = advise(tables, Silent(), only, now_ms=NOW_MS, places=places, only_one=True)
    assert [row.instance_id for row in again.advice] == [instance_id("hot")]
    assert written() == before


def test_without_usage_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="portico pipeline meter run"):
        advise(
            PipelineLayout(tmp_path),
            Silent(),
            list(BOUGHT.values()),
            now_ms=NOW_MS,
            places=places,
        )


def test_instances_that_nobody_used_are_advised_too(tables: PipelineLayout, advised: Advised) -> None:
    only = [BOUGHT["silent"]]
    found = advise(tables, Silent(), only, now_ms=NOW_MS, places=places, only_one=True)
    assert [row.instance_id for row in found.advice] == [instance_id("silent")]
    assert found.forecast.num_rows == found.skew.num_rows == len(found.moves) == 0
    assert len(advised.advice) == DeltaTable(str(tables.table(ADVICE_TABLE))).to_pyarrow_table().num_rows
