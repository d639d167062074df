"""The quota rule: every vector of the specification, and properties that hold for all inputs."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.quota_view import Rule
from master.quota.allocation import capped_by, seed, share_out, static
from master.quota.demand import Demand
from master.quota.policies import POLICIES

MILLION = 1_000_000
VECTORS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("vectors.yaml").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['policy']}-{v['n']}-{v['r']}")
def test_vector(vector: dict[str, Any]) -> None:
    demands = [Demand(n, round(r * MILLION)) for n, r in zip(vector["n"], vector["r"], strict=True)]
    silent = vector.get("silent", [False] * len(demands))
    result = share_out(POLICIES[vector["policy"]], vector["t"] * MILLION, demands, silent).decision
    assert result.rule == Rule(vector["rule"])
    for name, values in (("f", result.shares), ("p", result.proportions), ("q", result.rates)):
        if name in vector:
            assert [round(value / MILLION, 2) for value in values] == vector[name], name


def test_gate_is_exact_where_floats_are_not() -> None:
    # 0.8 * 29.999999 is not representable; at its gate exactly, a broker is not below it.
    assert seed(30_000_000, [Demand(1, 8_000_000), Demand(2, 0)]).rule is Rule.HEADROOM
    assert seed(30_000_000, [Demand(1, 7_999_999), Demand(2, 0)]).rule is Rule.BELOW_GATE


def test_reserved_is_what_silent_brokers_hold() -> None:
    shared = share_out(seed, 90, [Demand(1, 50), Demand(2, 0)], [False, True])
    assert shared.reserved == 60
    assert shared.decision.rates == (30, 60)


demand_lists = st.lists(
    st.builds(Demand, st.integers(1, 300), st.integers(0, 10**10) | st.integers(0, 100)),
    min_size=1,
    max_size=24,
)
purchased = st.integers(100_000, 10**10)


@settings(max_examples=200, deadline=None)
@given(purchased, demand_lists)
def test_seed_is_bounded_and_keeps_the_order(t: int, demands: list[Demand]) -> None:
    result = seed(t, demands)
    assert all(rate >= 0 for rate in result.rates)
    assert sum(result.rates) <= t + len(demands) * (result.p_max // 10)
    assert sum(result.shares) <= t and sum(result.proportions) <= t
    if result.rule is not Rule.BELOW_GATE:
        by_rate = sorted(zip(demands, result.rates, strict=True), key=lambda pair: pair[0].rate_per_s)
        allocated = [rate for _, rate in by_rate]
        assert allocated == sorted(allocated), "who carries more is never given less"
        assert max(allocated) == result.p_max, "nobody is given more than the busiest"


@settings(max_examples=200, deadline=None)
@given(purchased, demand_lists)
def test_seed_is_bounded_by_the_headroom_of_all_but_one(t: int, demands: list[Demand]) -> None:
    result = seed(t, demands)
    assert sum(result.rates) * 10 <= 10 * t + (len(demands) - 1) * result.p_max


@settings(max_examples=200, deadline=None)
@given(purchased, demand_lists, st.integers(0, 1000))
def test_capped_keeps_the_sum_within_epsilon(t: int, demands: list[Demand], epsilon: int) -> None:
    result = capped_by(epsilon)(t, demands)
    assert sum(result.rates) * 1000 <= t * (1000 + epsilon)
    assert all(p <= q for p, q in zip(result.proportions, result.rates, strict=True)) or (
        result.rule is Rule.BELOW_GATE
    )
    assert all(q <= s for q, s in zip(result.rates, seed(t, demands).rates, strict=True))


@settings(max_examples=100, deadline=None)
@given(purchased, demand_lists)
def test_static_is_the_share(t: int, demands: list[Demand]) -> None:
    result = static(t, demands)
    assert result.rates == result.shares
    assert t - len(demands) < sum(result.rates) <= t


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["capped", "seed", "static"]), purchased, st.data())
def test_reserving_for_silent_brokers_never_issues_more(policy: str, t: int, data: st.DataObject) -> None:
    demands = data.draw(demand_lists)
    silent = data.draw(st.lists(st.booleans(), min_size=len(demands), max_size=len(demands)))
    shared = share_out(POLICIES[policy], t, demands, silent)
    active = [i for i, gone in enumerate(silent) if not gone]
    p_max = max((shared.decision.proportions[i] for i in active), default=0)
    headroom = max(0, len(active) - 1) * p_max
    assert sum(shared.decision.rates) * 10 <= 10 * t + headroom
    for i, gone in enumerate(silent):
        assert not gone or shared.decision.rates[i] == shared.decision.shares[i]
