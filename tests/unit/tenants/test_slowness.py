"""Why clients are slow: what the last minutes say, and what another size would change."""

from typing import Any

import msgspec
import pytest

from contracts.quota_view import (
    BrokerQuota,
    CpuQuota,
    DirectionQuota,
    History,
    HistoryBroker,
    HistoryDirection,
    PointFlow,
    QuotaView,
    Rule,
)
from tenants.rules.slowness import Flow, Verdict, busiest, why

_FLOW = PointFlow(
    rate_per_s=0,
    share_per_s=0,
    proportion_per_s=0,
    allocated_per_s=0,
    applied_per_s=0,
    throttled_ms_per_s=0,
    below_gate=True,
    used_total=0,
    refused_total=0,
)


def direction(purchased_per_s: int = 1_000_000, explanation: str = "quiet") -> DirectionQuota:
    return DirectionQuota(
        purchased_per_s=purchased_per_s,
        rate_per_s=900_000,
        allocated_per_s=1_000_000,
        rule=Rule.HEADROOM,
        explanation=explanation,
        reserved_per_s=0,
        p_min_per_s=0,
        p_max_per_s=0,
        p_ratio=None,
        throttled_ms_per_s=0,
    )


def series(throttled: list[int | None], rate: int = 500, allocated: int = 600) -> HistoryDirection:
    count = len(throttled)
    return HistoryDirection(
        rate_per_s=[rate] * count, allocated_per_s=[allocated] * count, throttled_ms_per_s=throttled
    )


def view(*throttled: list[int | None], **more: Any) -> QuotaView:
    """Of brokers whose producers were held back so long in each second."""
    seconds = max(len(one) for one in throttled)
    brokers = tuple(
        BrokerQuota(
            point=f"broker-{number}",
            node_id=number,
            partitions_led=1,
            stored_bytes=0,
            silent=False,
            on_lease=True,
            blocked=False,
            lease_epoch=1,
            report_age_ms=0,
            produce=_FLOW,
            consume=_FLOW,
        )
        for number in range(len(throttled))
    )
    history = History(
        at_ms=[second * 1_000 for second in range(seconds)],
        stored_bytes=[0] * seconds,
        blocked=more.pop("blocked_then", [False] * seconds),
        brokers=tuple(
            HistoryBroker(node_id=number, produce=series(one), consume=series([0] * seconds))
            for number, one in enumerate(throttled)
        ),
    )
    made = QuotaView(
        instance_id="i",
        at_ms=0,
        policy="seed",
        period_ms=1_000,
        capacity_bytes=100,
        stored_bytes=90,
        stored_left_bytes=0,
        unblock_below_bytes=80,
        blocked=False,
        produce=direction(explanation="broker-1 passed its gate"),
        consume=direction(),
        cpu=CpuQuota(request_percent=10, total=direction()),
        brokers=brokers,
        history=history,
    )
    return msgspec.structs.replace(made, **more)


def test_the_broker_that_held_back_longest_is_named_with_the_step() -> None:
    told = why(view([0] * 301, [600] * 301))
    assert told.verdict is Verdict.THROTTLED
    assert told.says == (
        "throttled 60 % of the last 5 min: producers were held back at broker-1. broker-1 passed its gate"
    )
    worst = told.flows[0]
    assert worst.flow is Flow.PRODUCE and worst.decision.rule is Rule.HEADROOM
    assert [(one.point, one.throttled_percent, one.rate_per_s) for one in worst.held] == [
        ("broker-1", 60.0, 500)
    ]
    assert [one.throttled_percent for one in told.flows[1:]] == [0.0, 0.0]
    assert not told.flows[1].effects, "nothing helps where nothing is held back"


def test_another_size_frees_the_time_in_proportion() -> None:
    effects = why(view([600] * 301)).flows[0].effects
    assert [(one.factor, one.purchased_per_s, one.throttled_percent) for one in effects] == [
        (1.5, 1_500_000, 40.0),
        (2.0, 2_000_000, 20.0),
        (4.0, 4_000_000, 0.0),
    ]
    assert effects[1].arithmetic == "100 - 2 x (100 - 60) = 20.0"


def test_calm_full_and_unknown_are_said() -> None:
    calm = why(view([5] * 301))
    assert (calm.verdict, calm.says) == (Verdict.CALM, "clients were not held back in the last 5 min")
    full = why(view([1000] * 301, blocked=True, blocked_then=[False] * 151 + [True] * 150))
    assert full.verdict is Verdict.FULL
    assert full.full_percent == pytest.approx(49.8)
    assert "producers are blocked until less than 80 bytes are stored, now 90" in full.says
    fresh = why(msgspec.structs.replace(view([0]), history=History()))
    assert (fresh.verdict, fresh.seconds) == (Verdict.CALM, 0)


def test_who_took_no_part_held_nobody_back() -> None:
    told = why(view([None] * 150 + [1000] * 150))
    assert told.flows[0].throttled_percent == 50.0


def test_the_busiest_topics_come_first_and_the_rest_has_no_name() -> None:
    found = busiest([("", [9_000]), ("a", [10, 30]), ("b", [None, 100]), ("idle", [0, 0]), ("new", [None])])
    assert [(one.name, one.records_per_s) for one in found] == [("b", 100), ("a", 20)]
