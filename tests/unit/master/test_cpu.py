"""Request time in the master: vectors of the rule, shares, silence, leases, and what reports may say."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import prometheus_client
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.quota import NO_NODE, CpuAllocation, FlowCounters, InstanceCpu, InstanceTraffic, TrafficReport
from contracts.quota_view import CpuQuota, Rule
from contracts.specs import InstanceState
from master.metrics import MasterCollector
from master.quota.cpu_decision import CpuDecision, Topology, decide_cpu, topology
from master.quota.cpu_ledger import CpuEntry
from master.quota.cpu_shares import GONE_PERIODS
from master.quota.demand import Sample
from master.quota.flows import FlowEntry, Refusal, ReportRefusedError
from master.quota.leadership import Leadership
from master.quota.ledger import Entry
from master.quota.policies import POLICIES
from tests.unit.master.reports import ID, OTHER, a_spec, traffic
from tests.unit.master.test_service import Harness

MS = 1_000
"""us per s of one ms per s."""
T = 1_000 * MS
SPEC = a_spec(request_percent=100)


def entry(point: str, rate: int | None, applied: int = 0) -> CpuEntry:
    node_id = NO_NODE if point.startswith("gateway") else int(point.rpartition("-")[2])
    recent = () if rate is None else (Sample(rate, 0, 1_000),)
    flow = FlowEntry(
        FlowCounters(rate_per_s=applied),
        rate_per_s=rate,
        recent=recent,
        wanted_per_s=rate or 0,
        applied_per_s=applied,
        window_ms=1_000,
    )
    return CpuEntry(point, node_id, ID, flow, has_base=True)


def decision(
    led: dict[str, int],
    gateways: int,
    rates: dict[str, int | None],
    *,
    policy: str = "seed",
    ages: dict[str, int] | None = None,
    applied: int = 0,
) -> CpuDecision:
    return decide_cpu(
        SPEC,
        [entry(point, rate, applied) for point, rate in rates.items()],
        places=Topology(led, gateways),
        policy=POLICIES[policy],
        age_of=lambda point: (ages or {}).get(point, 0),
        silent_ms=3_000,
        gone_ms=60_000,
    )


ONE_BROKER = {"broker-1": 1}
THREE_BROKERS = {"broker-1": 4, "broker-2": 1, "broker-3": 1}


@pytest.mark.parametrize(
    ("led", "gateways", "rates", "rule", "shares", "allocated"),
    [
        # Half of T is the broker's, a quarter each worker's; all are below 80 % of that.
        (ONE_BROKER, 2, {"broker-1": 399, "gateway-0": 199}, Rule.BELOW_GATE, [500, 250], [500, 250]),
        # The worker is at its gate; the one that spends nothing counts as P = 0.
        (ONE_BROKER, 2, {"broker-1": 300, "gateway-0": 200}, Rule.HEADROOM, [500, 250], [600, 460]),
        # Nobody is idle: broker and only worker are alike.
        (ONE_BROKER, 1, {"broker-1": 500, "gateway-0": 450}, Rule.RATIO_MET, [500, 500], [526.315, 473.684]),
        # One alone, while three others and two workers rest: all of T is its.
        (THREE_BROKERS, 2, {"broker-1": 300}, Rule.HEADROOM, [277.777], [1000]),
        # (1 + n) of 9 of the brokers' half.
        (
            THREE_BROKERS,
            4,
            {"broker-1": 100, "broker-2": 50, "gateway-3": 90},
            Rule.BELOW_GATE,
            [277.777, 111.111, 125],
            [277.777, 111.111, 125],
        ),
        # A broker that leads nothing serves Metadata and groups.
        ({"broker-1": 0, "broker-2": 0}, 1, {"broker-2": 10}, Rule.BELOW_GATE, [250], [250]),
        # No gateway was heard of yet: its half stays its.
        (ONE_BROKER, 0, {"broker-1": 100}, Rule.BELOW_GATE, [500], [500]),
    ],
)
def test_vectors(
    led: dict[str, int],
    gateways: int,
    rates: dict[str, int],
    rule: Rule,
    shares: Sequence[float],
    allocated: Sequence[float],
) -> None:
    made = decision(led, gateways, {point: rate * MS for point, rate in rates.items()})
    assert made.shared.decision.rule is rule
    assert [share / MS for share in made.shared.decision.shares] == shares
    assert [rate / MS for rate in made.shared.decision.rates] == allocated
    assert made.idle_points == len(led) + gateways - len(rates)


def test_a_silent_worker_keeps_its_share_and_the_others_share_the_rest() -> None:
    rates = {"broker-1": 400 * MS, "gateway-0": 200 * MS, "gateway-1": 300 * MS}
    made = decision(ONE_BROKER, 2, rates, ages={"gateway-1": 3_000})
    assert made.silent == (False, False, True)
    assert made.shared.reserved == 250 * MS == made.shared.decision.rates[2]
    assert made.shared.decision.proportions[:2] == (500 * MS, 250 * MS)


def test_a_silent_broker_that_still_leads_stays_one_that_leads_nothing_is_gone() -> None:
    rates = {"broker-1": 100 * MS, "broker-2": 100 * MS}
    leads = decision({"broker-1": 1, "broker-2": 1}, 1, rates, ages={"broker-2": 4_000})
    assert leads.silent == (False, True) and leads.shared.reserved > 0
    moved = decision({"broker-1": 2, "broker-2": 0}, 1, rates, ages={"broker-2": 4_000})
    assert [each.point for each in moved.entries] == ["broker-1"]


def test_a_worker_silent_for_long_is_out_at_that_moment_exactly() -> None:
    rates = {"broker-1": 100 * MS, "gateway-0": 100 * MS}
    reserved = decision(ONE_BROKER, 1, rates, ages={"gateway-0": 59_999})
    assert reserved.silent == (False, True)
    gone = decision(ONE_BROKER, 1, rates, ages={"gateway-0": 60_000})
    assert [each.point for each in gone.entries] == ["broker-1"]


def test_brokers_count_while_heard_of_or_leading() -> None:
    leads = replace(Entry("broker-2", 2, ID), partitions_led=3)
    led = Leadership((leads,), (90_000,), (True,), is_settled=True)
    made = topology(led, frozenset({"broker-1"}), 2)
    assert made.led == {"broker-1": 0, "broker-2": 3} and made.points == 4
    assert made.weights.total == 2 * 2 * (2 + 3)


def test_a_new_master_holds_every_point_at_the_rate_it_applies() -> None:
    rates = {"broker-1": 900 * MS, "gateway-0": None}
    made = decision(ONE_BROKER, 1, rates, applied=123_456)
    assert made.shared.decision.rule is Rule.HOLD
    assert made.shared.decision.rates == (123_456, 123_456)
    fresh = decision(ONE_BROKER, 1, rates)
    assert fresh.shared.decision.rates == (500 * MS, 500 * MS), "who applies none yet gets its share"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=12),
    st.integers(1, 32),
    st.sampled_from(sorted(POLICIES)),
    st.data(),
)
def test_shares_of_all_points_add_up_to_t_and_nobody_gets_nothing(
    led: list[int], gateways: int, policy: str, data: st.DataObject
) -> None:
    brokers = {f"broker-{node}": n for node, n in enumerate(led)}
    places = [*brokers, *(f"gateway-{number}" for number in range(gateways))]
    active = data.draw(st.lists(st.sampled_from(places), unique=True, min_size=1))
    rates: dict[str, int | None] = {
        point: data.draw(st.integers(1, 2 * T)) for point in places if point in active
    }
    made = decision(brokers, gateways, rates, policy=policy, applied=T // len(places))
    shares = made.shared.decision.shares
    assert min(shares) > 0
    assert sum(shares) + made.idle_share_us_per_s <= T
    assert sum(shares) + made.idle_share_us_per_s >= T - len(places)
    assert sum(made.shared.decision.rates) <= T * (10 + len(places)) // 10
    if policy in ("static", "seed"):
        assert min(made.shared.decision.rates) > 0


# -- over reports ------------------------------------------------------------------------------------


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path / "master.db")
    made.specs[ID] = SPEC
    yield made
    for journal in made.journals:
        journal.close()


def cpu(used: int, instance_id: str = ID, *, rate: int = 0, throttled: int = 0) -> InstanceCpu:
    counters = FlowCounters(used=used, requests=1, throttled_ms=throttled, rate_per_s=rate)
    return InstanceCpu(instance_id=instance_id, counters=counters, on_lease=rate > 0)


def report(
    point: str, sequence: int, *listed: InstanceCpu, boot: str = "a", led: int = 0, full: bool = False
) -> TrafficReport:
    is_gateway = point.startswith("gateway")
    node_id = NO_NODE if is_gateway else int(point.rpartition("-")[2])
    instances: tuple[InstanceTraffic, ...] = ()
    if led:
        instances = (traffic(0, partitions_led=led),)
    return TrafficReport(
        point=point,
        node_id=node_id,
        cluster_id="" if is_gateway else "c",
        boot_id=boot,
        sequence=sequence,
        window_ms=1_000,
        sent_at_ms=sequence * 1_000,
        full=full or sequence == 1,
        instances=instances,
        cpu=listed,
    )


def lease(harness: Harness, point: str, sequence: int, used: int | None, **more: object) -> CpuAllocation:
    listed = () if used is None else (cpu(used),)
    (made,) = harness.service.receive(report(point, sequence, *listed, **more)).cpu  # type: ignore[arg-type]
    return made


def cpu_of(harness: Harness) -> CpuQuota:
    view = harness.service.view(ID)
    assert view is not None
    return view.cpu


def test_time_goes_where_it_is_spent(harness: Harness) -> None:
    lease(harness, "broker-1", 1, 300 * MS, led=1)
    lease(harness, "gateway-0", 1, 100 * MS)
    harness.service.receive(report("gateway-1", 1))
    harness.now_ms += 1_000
    assert lease(harness, "gateway-0", 2, 400 * MS).rate_us_per_s == 500 * MS
    harness.now_ms += 500
    assert lease(harness, "broker-1", 2, 600 * MS).rate_us_per_s == 500 * MS
    shown = cpu_of(harness)
    assert [each.point for each in shown.points] == ["broker-1", "gateway-0"]
    assert [each.flow.rate_per_s for each in shown.points] == [300 * MS, 300 * MS]
    assert [each.flow.share_per_s for each in shown.points] == [500 * MS, 250 * MS]
    assert (shown.request_percent, shown.total.purchased_per_s, shown.total.rate_per_s) == (100, T, 600 * MS)
    assert (shown.idle_points, shown.idle_share_per_s) == (1, 250 * MS)
    assert shown.total.rule is Rule.HEADROOM and shown.total.p_ratio == 0
    assert shown.total.explanation.startswith(
        "Point gateway-0 spends 300 ms/s, 80 % or more of its share F of 250 ms/s; Pmin / Pmax = 0"
    )


def test_reports_of_gateway_workers_do_not_touch_the_bytes(harness: Harness) -> None:
    with_bytes = report("broker-1", 1, cpu(5), led=1)
    before = harness.service.receive(with_bytes).allocations
    answer = harness.service.receive(report("gateway-0", 1, cpu(5)))
    assert answer.allocations == () and len(answer.cpu) == 1 and answer.gateways == 1
    view = harness.service.view(ID)
    assert view is not None and [each.point for each in view.brokers] == ["broker-1"]
    assert view.produce.allocated_per_s == before[0].produce_rate_bytes_per_s == SPEC.produce_rate_bytes_per_s
    assert view.stored_bytes == 0 and not view.blocked


def test_who_spends_nothing_holds_no_lease_and_leaves_the_rule(harness: Harness) -> None:
    lease(harness, "gateway-0", 1, 300 * MS)
    leases = 0
    for sequence in range(2, 12):
        harness.now_ms += 1_000
        leases += len(harness.service.receive(report("gateway-0", sequence)).cpu)
    assert 2 <= leases <= 5, "renewed as long as its last use is not long ago"
    assert cpu_of(harness).points == () and cpu_of(harness).idle_points == 1
    assert cpu_of(harness).total.explanation == "Nothing was spent lately: every point keeps its share F."
    harness.now_ms += 1_000
    assert lease(harness, "gateway-0", 12, 400 * MS).rate_us_per_s > 0


def test_a_worker_gone_for_a_minute_is_no_longer_counted(harness: Harness) -> None:
    harness.service.receive(report("gateway-0", 1, cpu(100 * MS)))
    harness.service.receive(report("gateway-1", 1, cpu(100 * MS)))
    for sequence in range(2, GONE_PERIODS + 2):
        harness.now_ms += 1_000
        harness.service.tick()
        answer = harness.service.receive(report("gateway-0", sequence, cpu(sequence * 100 * MS)))
        expected = 2 if sequence <= GONE_PERIODS else 1
        assert answer.gateways == expected, sequence
        if sequence == 5:
            assert [each.silent for each in cpu_of(harness).points] == [False, True]
            assert cpu_of(harness).total.reserved_per_s == 250 * MS
            assert "Point gateway-1 is silent: 250 ms/s stays reserved" in cpu_of(harness).total.explanation
    assert [each.point for each in cpu_of(harness).points] == ["gateway-0"]
    again = harness.service.receive(report("gateway-1", 99, cpu(100 * MS)))
    assert again.want_full, "it is not known any more"


def test_a_worker_that_starts_anew_goes_on_and_its_former_run_gets_no_lease(harness: Harness) -> None:
    lease(harness, "gateway-0", 1, 300 * MS)
    harness.now_ms += 1_000
    lease(harness, "gateway-0", 1, 250 * MS, boot="b")
    assert cpu_of(harness).points[0].flow.rate_per_s == 250 * MS
    draining = harness.service.receive(report("gateway-0", 2, cpu(310 * MS)))
    assert draining.cpu == () and harness.service.reports["superseded"] == 1


def test_epochs_grow_and_idle_reports_are_answered_before_a_lease_ends(harness: Harness) -> None:
    epochs = [lease(harness, "gateway-0", sequence, sequence * 100 * MS).lease_epoch for sequence in (1, 2)]
    harness.start()
    epochs += [lease(harness, "gateway-0", 3, 500 * MS).lease_epoch]
    assert epochs == sorted(set(epochs))


def test_a_new_master_holds_rates_and_then_measures(harness: Harness) -> None:
    lease(harness, "gateway-0", 1, 300 * MS)
    harness.start()
    held = harness.service.receive(report("gateway-0", 2, cpu(700 * MS, rate=654_321)))
    assert held.want_full and [each.rate_us_per_s for each in held.cpu] == [654_321]
    harness.now_ms += 1_000
    harness.service.receive(report("gateway-0", 3, cpu(900 * MS, rate=654_321), full=True))
    assert cpu_of(harness).points[0].flow.rate_per_s == 200 * MS


def test_resize_and_policy_take_effect_with_the_next_report(harness: Harness) -> None:
    lease(harness, "gateway-0", 1, 600 * MS)
    harness.specs[ID] = a_spec(request_percent=200)
    harness.now_ms += 1_000
    assert lease(harness, "gateway-0", 2, 1_600 * MS).rate_us_per_s == 2 * T
    harness.service.set_policy("static")
    harness.now_ms += 1_000
    assert lease(harness, "gateway-0", 3, 2_600 * MS).rate_us_per_s == T


def test_a_spec_that_bought_no_time_stops_nobody(harness: Harness) -> None:
    harness.specs[ID] = a_spec(request_percent=0)
    assert lease(harness, "gateway-0", 1, 5).rate_us_per_s >= 0
    harness.service.tick()
    assert cpu_of(harness).total.purchased_per_s == 1


def test_deleted_and_unknown_instances_get_nothing(harness: Harness) -> None:
    answer = harness.service.receive(report("gateway-0", 1, cpu(1), cpu(2, OTHER)))
    assert [each.instance_id for each in answer.cpu] == [ID]
    harness.specs[ID] = a_spec(state=InstanceState.DELETED)
    harness.service.tick()
    assert harness.service.receive(report("gateway-0", 2, cpu(3))).cpu == ()
    assert harness.service.allocations("gateway-0").cpu == ()


@pytest.mark.parametrize("listed", [(cpu(4),), (cpu(9, throttled=0),)])
def test_a_counter_that_went_back_refuses_the_report_whole(
    harness: Harness, listed: tuple[InstanceCpu, ...]
) -> None:
    harness.service.receive(report("gateway-0", 1, cpu(5, throttled=7)))
    with pytest.raises(ReportRefusedError) as refused:
        harness.service.receive(report("gateway-0", 2, *listed))
    assert refused.value.reason is Refusal.COUNTER_WENT_BACK and "request time" in refused.value.detail
    assert harness.service.refusals == {"counter_went_back": 1}


def test_an_instance_listed_twice_is_refused(harness: Harness) -> None:
    with pytest.raises(ReportRefusedError) as refused:
        harness.service.receive(report("gateway-0", 1, cpu(5), cpu(6)))
    assert refused.value.reason is Refusal.LISTED_TWICE


def test_history_has_every_point_and_metrics_every_letter(harness: Harness) -> None:
    for sequence in (1, 2, 3):
        for point in ("broker-1", "gateway-0"):
            used = sequence * 300 * MS
            harness.service.receive(report(point, sequence, cpu(used, throttled=sequence * 40), led=1))
        harness.service.tick()
        harness.now_ms += 1_000
    view = harness.service.view(ID, 60)
    assert view is not None
    assert [each.point for each in view.history.cpu] == ["broker-1", "gateway-0"]
    assert view.history.cpu[1].flow.rate_per_s[-1] == 300 * MS
    assert view.history.cpu[1].flow.share_per_s[-1] == 500 * MS
    registry = prometheus_client.CollectorRegistry()
    registry.register(MasterCollector(harness.service))
    labels = {"instance": ID, "point": "gateway-0"}
    for name, value in [("rate", 0.3), ("share", 0.5), ("proportion", 0.5), ("allocated", 0.5)]:
        assert registry.get_sample_value(f"portico_quota_cpu_{name}_cores", labels) == value, name
    assert registry.get_sample_value("portico_quota_cpu_throttled_ratio", labels) == 0.04
    assert registry.get_sample_value("portico_quota_cpu_purchased_cores", {"instance": ID}) == 1
