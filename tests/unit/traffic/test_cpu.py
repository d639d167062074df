"""Request time at a point: shares that add up to T, leases of their own, reports, restarts."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.quota import (
    NO_NODE,
    Allocation,
    CpuAllocation,
    Direction,
    FlowCounters,
    InstanceCpu,
    ReportAnswer,
)
from contracts.request_time import PERCENT_US_PER_S, default_request_percent
from contracts.specs import InstanceSpec, InstanceState
from tests.unit.traffic.test_point import ID, a_spec, an_allocation
from traffic.cpu import CPU_BURST_MIN_US, CPU_BURST_MS, broker_share, gateway_share
from traffic.point import TrafficPoint

PERCENT = 100
T = PERCENT * PERCENT_US_PER_S


def cpu_spec(**changes: object) -> InstanceSpec:
    return a_spec(**{"request_percent": PERCENT, **changes})


def a_gateway(gateways: int = 2) -> TrafficPoint:
    point = TrafficPoint(
        point="gateway-0", node_id=NO_NODE, cluster_id="", boot_id="b", now_ms=0, gateway_count=gateways
    )
    point.set_spec(cpu_spec(), 0)
    return point


def a_broker(brokers: int = 3) -> TrafficPoint:
    point = TrafficPoint(
        point="broker-1", node_id=1, cluster_id="c", boot_id="b", now_ms=0, broker_count=brokers
    )
    point.set_spec(cpu_spec(), 0)
    return point


def lease(rate: int, epoch: int = 1, **changes: object) -> CpuAllocation:
    base = CpuAllocation(instance_id=ID, lease_epoch=epoch, lease_ms=5_000, rate_us_per_s=rate)
    return msgspec.structs.replace(base, **changes)


def leased(point: TrafficPoint, now_ms: int, *leases: CpuAllocation) -> frozenset[str]:
    point.report(now_ms, now_ms)
    return point.apply(ReportAnswer(cpu=leases), now_ms)


def rate(point: TrafficPoint) -> int:
    flow = point.flow(ID, Direction.CPU)
    assert flow is not None
    return flow.rate_per_s


def listed(point: TrafficPoint, now_ms: int) -> tuple[InstanceCpu, ...]:
    return point.report(now_ms, now_ms).cpu


def test_before_any_lease_a_point_has_its_static_share() -> None:
    assert rate(a_gateway(4)) == T // 2 // 4
    assert rate(a_broker(3)) == T // 2 // 3
    assert rate(a_broker(1)) == T // 2


def test_the_brokers_half_goes_by_brokers_and_partitions_led() -> None:
    point = a_broker(3)
    point.set_led(ID, 2, 0)
    point.set_leaders(ID, {1: 2, 2: 1}, 1)
    point.report(0, 0)
    assert rate(point) == T * (1 + 2) // (2 * (3 + 3))


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=24),
    st.integers(1, 64),
    st.integers(1_000_000, 10**9),
)
def test_shares_are_never_zero_and_never_more_than_what_was_bought(
    led: list[int], gateways: int, purchased: int
) -> None:
    total = sum(led)
    shares = [broker_share(purchased, brokers=len(led), led=n, others_led=total - n) for n in led]
    shares += [gateway_share(purchased, gateways=gateways)] * gateways
    assert min(shares) > 0
    assert purchased - len(shares) <= sum(shares) <= purchased


def test_charges_beyond_the_burst_throttle_and_tickets_come_due_in_order() -> None:
    point = a_gateway(2)
    burst = T // 4 * CPU_BURST_MS // 1000
    assert burst > CPU_BURST_MIN_US
    assert point.charge_cpu(ID, burst, 0) == 0
    assert point.charge_cpu(ID, T // 4, 0) == 1_000
    first = point.ticket(ID, Direction.CPU)
    assert point.charge_cpu(ID, T // 4, 0) == 2_000
    second = point.ticket(ID, Direction.CPU)
    assert point.unmute_at_ms(ID, Direction.CPU, 0, first) == 1_000
    assert point.unmute_at_ms(ID, Direction.CPU, 0, second) == 2_000
    assert point.charge_produce(ID, 1, 0) == 0, "bytes have buckets of their own"


def test_a_lease_sets_the_rate_and_ends_in_the_share() -> None:
    point = a_gateway(2)
    assert leased(point, 0, lease(700_000)) == {ID}
    assert rate(point) == 700_000
    assert leased(point, 4_000, lease(700_000, epoch=2)) == frozenset(), "renewed"
    assert point.charge_cpu(ID, 0, 8_999) == 0 and rate(point) == 700_000
    point.charge_cpu(ID, 0, 9_000)
    assert rate(point) == T // 4


def test_the_end_of_a_lease_moves_the_end_of_a_wait() -> None:
    point = a_gateway(2)
    leased(point, 0, lease(1_000))
    point.charge_cpu(ID, 20_000_000, 0)
    assert point.unmute_at_ms(ID, Direction.CPU, 1_000) > 1_000_000
    due_ms = point.unmute_at_ms(ID, Direction.CPU, 5_000)
    assert 5_000 < due_ms < 5_000 + 20_000_000 // (T // 4) * 1_000


def test_the_first_clients_on_one_of_many_workers_are_let_in() -> None:
    point = a_gateway(64)
    assert rate(point) == T // 128
    assert point.charge_cpu(ID, CPU_BURST_MIN_US, 0) == 0
    assert point.charge_cpu(ID, T // 128, 0) == 1_000


def test_an_older_epoch_is_ignored_and_a_lease_of_nothing_is_not_nothing() -> None:
    point = a_gateway()
    leased(point, 0, lease(500_000, epoch=7))
    leased(point, 1, lease(1, epoch=6))
    assert rate(point) == 500_000
    leased(point, 2, lease(0, epoch=8))
    assert rate(point) == 100


def test_leases_of_bytes_and_of_request_time_do_not_touch_each_other() -> None:
    point = a_broker()
    point.set_led(ID, 1, 0)
    point.report(0, 0)
    only_bytes: Allocation = an_allocation()
    point.apply(ReportAnswer(allocations=(only_bytes,)), 0)
    before = rate(point)
    leased(point, 1, lease(123_456))
    flow = point.flow(ID, Direction.PRODUCE)
    assert rate(point) == 123_456 != before
    assert flow is not None and flow.rate_per_s == only_bytes.produce_rate_bytes_per_s
    point.charge_produce(ID, 0, 5_000)
    assert rate(point) == 123_456, "the byte lease ended a millisecond earlier"


def test_how_many_gateways_there_are_is_the_masters_word() -> None:
    point = a_gateway(1)
    point.report(0, 0)
    point.apply(ReportAnswer(gateways=5), 0)
    point.report(1, 1)
    assert rate(point) == T // 10
    point.apply(ReportAnswer(), 1)
    point.report(2, 2)
    assert rate(point) == T // 10, "not told again is not none"


def test_a_resize_reaches_points_without_a_lease_at_once() -> None:
    point = a_gateway(2)
    assert point.set_spec(cpu_spec(request_percent=200), 1)
    assert rate(point) == T // 2


def test_only_what_changed_is_listed_until_it_is_acknowledged() -> None:
    point = a_gateway()
    assert listed(point, 0) == ()
    point.charge_cpu(ID, 30, 1)
    for _lost in range(2):
        (told,) = listed(point, 2)
        assert (told.counters.used, told.counters.requests, told.on_lease) == (30, 1, False)
    point.apply(ReportAnswer(), 3)
    assert listed(point, 4) == ()
    point.charge_cpu(ID, 0, 5)
    assert [each.counters.requests for each in listed(point, 6)] == [2]
    point.apply(ReportAnswer(want_full=True), 7)
    assert [each.counters.used for each in listed(point, 8)] == [30]


def test_a_gateway_tells_nothing_of_bytes() -> None:
    point = a_gateway()
    point.charge_cpu(ID, 30, 1)
    report = point.report(2, 2)
    assert report.instances == () and len(report.cpu) == 1 and report.node_id == NO_NODE


def test_a_purged_instance_is_kept_until_its_last_microsecond_is_told() -> None:
    point = a_gateway()
    point.charge_cpu(ID, 30, 1)
    point.report(2, 2)
    point.charge_cpu(ID, 5, 3)
    point.set_spec(cpu_spec(state=InstanceState.PURGED), 3)
    point.apply(ReportAnswer(), 4)
    assert [each.counters.used for each in listed(point, 5)] == [35]
    point.apply(ReportAnswer(), 6)
    assert point.flow(ID, Direction.CPU) is None


def test_a_deleted_instance_that_comes_back_is_kept() -> None:
    point = a_gateway()
    point.set_spec(cpu_spec(state=InstanceState.DELETED), 1)
    point.set_spec(cpu_spec(), 2)
    point.report(3, 3)
    point.apply(ReportAnswer(), 3)
    assert point.flow(ID, Direction.CPU) is not None


def test_an_absent_instance_that_was_never_known_is_not_unlimited() -> None:
    point = TrafficPoint(point="gateway-0", node_id=NO_NODE, cluster_id="", boot_id="b", now_ms=0)
    point.hold(ID, None, 0)
    assert rate(point) == 100
    point.set_spec(cpu_spec(), 1)
    assert rate(point) == T // 2


def test_debt_and_lease_survive_a_restart() -> None:
    point = a_gateway(2)
    leased(point, 0, lease(100_000))
    point.charge_cpu(ID, 100_000 + 300_000, 0)
    data = point.save_leases(1_000, 50_000)
    again = a_gateway_without_spec()
    again.restore_leases(data, 9_000, 50_500)
    assert again.unmute_at_ms(ID, Direction.CPU, 9_000) == 9_000 + 1_500, (
        "2 s were owed, half a second passed"
    )
    again.set_spec(cpu_spec(), 9_000)
    assert rate(again) == 100_000, "the lease goes on"
    again.charge_cpu(ID, 0, 9_000 + 3_500)
    assert rate(again) == T // 4


def a_gateway_without_spec() -> TrafficPoint:
    return TrafficPoint(
        point="gateway-0", node_id=NO_NODE, cluster_id="", boot_id="c", now_ms=9_000, gateway_count=2
    )


def test_a_lease_that_ended_meanwhile_does_not_make_it_unlimited() -> None:
    point = a_gateway(2)
    leased(point, 0, lease(100_000))
    point.charge_cpu(ID, 1, 0)
    data = point.save_leases(0, 0)
    again = a_gateway_without_spec()
    again.restore_leases(data, 9_000, 60_000)
    assert rate(again) == 100_000
    again.set_spec(cpu_spec(), 9_001)
    assert rate(again) == T // 4


@pytest.mark.parametrize(
    ("produce", "consume", "percent"),
    [(0, 0, 50), (100_000, 100_000, 50), (10_000_000, 10_000_000, 96), (5_000_000, 10_000_000, 72)],
)
def test_the_default_goes_with_the_bought_rates(produce: int, consume: int, percent: int) -> None:
    assert default_request_percent(produce, consume) == percent
    spec = a_spec(produce_rate_bytes_per_s=produce, consume_rate_bytes_per_s=consume)
    assert spec.cpu_us_per_s == percent * PERCENT_US_PER_S
    assert msgspec.structs.replace(spec, request_percent=7).cpu_us_per_s == 7 * PERCENT_US_PER_S


def test_the_same_epoch_again_goes_on_with_the_lease() -> None:
    point = a_gateway()
    leased(point, 0, lease(500_000, epoch=7))
    leased(point, 4_000, lease(500_000, epoch=7))
    point.charge_cpu(ID, 0, 8_999)
    assert rate(point) == 500_000
    point.charge_cpu(ID, 0, 9_000)
    assert rate(point) == T // 4


def test_a_report_says_what_was_spent_and_under_which_lease() -> None:
    point = a_gateway()
    leased(point, 0, lease(100_000, epoch=7))
    point.charge_cpu(ID, 150_000, 0)
    assert listed(point, 4_000) == (
        InstanceCpu(
            instance_id=ID,
            counters=FlowCounters(
                used=150_000, requests=1, throttled_ms=500, rate_per_s=100_000, lease_epoch=7
            ),
            on_lease=True,
        ),
    )
    data = point.save_leases(4_000, 50_000)
    again = a_gateway_without_spec()
    again.restore_leases(data, 9_000, 50_000)
    leased(again, 9_000, lease(1, epoch=6))
    assert rate(again) == 100_000, "older than the lease of before the restart"
