"""The traffic point: leases, fall-back, blocks, reports, and what survives a restart."""

import msgspec
import pytest

from contracts.quota import Allocation, Direction, FlowCounters, InstanceTraffic, ReportAnswer, TrafficReport
from contracts.specs import FullBehaviour, InstanceSpec, InstanceState
from traffic.instance import RATE_MIN_BYTES_PER_S, InstancePoint
from traffic.point import FETCH_UNLIMITED_BYTES, TrafficPoint
from traffic.verdict import Admit, Full, stall_ms

ID = "iabcdefghijk"
T = 9_000_000


def a_spec(**changes: object) -> InstanceSpec:
    base = InstanceSpec(
        revision=1,
        instance_id=ID,
        tenant="t",
        name="n",
        state=InstanceState.ACTIVE,
        cluster_id="c",
        produce_rate_bytes_per_s=T,
        consume_rate_bytes_per_s=2 * T,
        capacity_bytes=1_000_000,
    )
    return msgspec.structs.replace(base, **changes)


def a_point(**options: int) -> TrafficPoint:
    return TrafficPoint(
        point="broker-1",
        node_id=1,
        cluster_id="c",
        boot_id="boot",
        now_ms=0,
        broker_count=options.get("brokers", 1),
    )


def an_allocation(**changes: object) -> Allocation:
    base = Allocation(
        instance_id=ID,
        lease_epoch=1,
        lease_ms=5_000,
        produce_rate_bytes_per_s=4_000_000,
        consume_rate_bytes_per_s=8_000_000,
        partitions_total=3,
        blocked=False,
        stored_bytes=0,
        stored_left_bytes=1_000_000,
    )
    return msgspec.structs.replace(base, **changes)


def told(point: TrafficPoint, now_ms: int, **changes: object) -> frozenset[str]:
    """One round with a master that allocates as given."""
    point.report(now_ms, now_ms)
    return point.apply(ReportAnswer(allocations=(an_allocation(**changes),)), now_ms)


def produce_rate(point: TrafficPoint, now_ms: int) -> int:
    listed = {each.instance_id: each for each in fully(point, now_ms).instances}
    return listed[ID].produce.rate_per_s


def fully(point: TrafficPoint, now_ms: int) -> TrafficReport:
    point.apply(ReportAnswer(want_full=True), now_ms)
    return point.report(now_ms, now_ms)


def test_never_told_of_shares_it_takes_an_even_part() -> None:
    point = a_point(brokers=3)
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    assert produce_rate(point, 0) == T // 3


def test_lease_sets_the_rates_and_ends_in_the_share_by_partitions() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 2, 0)
    assert told(point, 0) == {ID}
    assert produce_rate(point, 4_999) == 4_000_000
    assert produce_rate(point, 5_000) == T * 2 // 3
    point.set_led(ID, 5, 0)
    point.set_spec(a_spec(produce_rate_bytes_per_s=600), 5_001)
    assert produce_rate(point, 5_001) == 600 * 5 // 6, "the others lead one partition"


def test_lease_end_is_noticed_by_a_charge_alone() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    told(point, 0, produce_rate_bytes_per_s=1_000, partitions_total=1)
    assert point.charge_produce(ID, 250 + 1_000, 0) == 1_000
    point.charge_produce(ID, 0, 5_000)
    assert point.charge_produce(ID, T // 4 + 9_000, 6_000) == 1


def test_older_epochs_are_ignored_also_after_the_lease_ended() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    told(point, 0, lease_epoch=7)
    assert told(point, 100, lease_epoch=6, produce_rate_bytes_per_s=1, blocked=True) == frozenset()
    assert isinstance(point.produce_verdict(ID), Admit)
    assert produce_rate(point, 100) == 4_000_000
    assert produce_rate(point, 5_000) == T // 3
    assert told(point, 5_001, lease_epoch=6) == frozenset()
    assert told(point, 5_002, lease_epoch=8) == {ID}


def test_same_terms_renew_without_reporting_a_change() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    told(point, 0)
    assert told(point, 4_000, lease_epoch=2) == frozenset()
    assert produce_rate(point, 8_999) == 4_000_000


def test_a_rate_of_zero_still_is_not_zero() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    told(point, 0, produce_rate_bytes_per_s=0)
    assert produce_rate(point, 0) == 1


def test_no_spec_no_limit_and_the_spec_limits_at_once() -> None:
    point = a_point()
    assert point.charge_produce(ID, 10**9, 0) == 0
    assert point.fetch_allowance(ID, 0) == FETCH_UNLIMITED_BYTES
    point.set_spec(a_spec(), 1)
    assert point.charge_produce(ID, T // 4 + T, 1) == 1_000
    assert point.fetch_allowance(ID, 1) == 2 * T // 4


def test_debt_is_the_instances_whoever_charges() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    assert point.charge_produce(ID, T // 4, 0) == 0
    throttles = [point.charge_produce(ID, T // 10, 0) for _connection in range(8)]
    assert throttles == [100 * k for k in range(1, 9)]
    assert point.charge_fetch(ID, T // 4, 0) == 0, "the other direction has its own bucket"


def test_resize_takes_effect_on_debts_at_once() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.charge_produce(ID, T // 4 + T, 0)
    ticket = point.ticket(ID, Direction.PRODUCE)
    assert point.unmute_at_ms(ID, Direction.PRODUCE, 0, ticket) == 1_000
    assert point.set_spec(a_spec(produce_rate_bytes_per_s=10 * T), 0)
    assert point.unmute_at_ms(ID, Direction.PRODUCE, 0, ticket) == 100


def test_own_appends_block_before_the_master_says_so() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 400_000)
    told(point, 0, stored_bytes=900_000, stored_left_bytes=100_000)
    point.count_appended(ID, 99_999)
    assert isinstance(point.produce_verdict(ID), Admit)
    point.count_appended(ID, 1)
    verdict = point.produce_verdict(ID)
    assert verdict == Full(
        f"instance {ID} is full: 1000000 of 1000000 bytes stored; delete data, shorten retention or resize",
        FullBehaviour.REJECT,
    )


def test_appends_between_report_and_answer_count() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 400_000)
    point.report(0, 0)
    point.count_appended(ID, 60_000)
    point.apply(
        ReportAnswer(allocations=(an_allocation(stored_bytes=900_000, stored_left_bytes=100_000),)), 10
    )
    point.count_appended(ID, 39_999)
    assert isinstance(point.produce_verdict(ID), Admit)
    point.count_appended(ID, 1)
    assert isinstance(point.produce_verdict(ID), Full)


def test_block_stays_when_the_lease_ends_and_is_lifted_by_its_own_check() -> None:
    point = a_point()
    point.set_spec(a_spec(full_behaviour=FullBehaviour.STALL), 0)
    point.set_led(ID, 1, 300_000)
    told(point, 0, blocked=True, stored_bytes=1_000_000, stored_left_bytes=0)
    point.charge_produce(ID, 1, 60_000)
    verdict = point.produce_verdict(ID)
    assert isinstance(verdict, Full) and verdict.behaviour is FullBehaviour.STALL
    point.set_led(ID, 1, 280_000)
    assert isinstance(point.produce_verdict(ID), Full), "exactly 98 % is not below 98 %"
    point.set_led(ID, 1, 279_999)
    assert isinstance(point.produce_verdict(ID), Admit)


def test_deleting_from_far_over_capacity_must_really_get_below() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 1_200_000)
    told(point, 0, blocked=True, stored_bytes=1_200_000, stored_left_bytes=-200_000)
    point.set_led(ID, 1, 1_100_000)
    assert isinstance(point.produce_verdict(ID), Full)
    point.set_led(ID, 1, 0)
    assert isinstance(point.produce_verdict(ID), Admit)


def test_more_capacity_lifts_the_block() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 1_000_000)
    assert isinstance(point.produce_verdict(ID), Full)
    assert point.set_spec(a_spec(capacity_bytes=1_021_000), 0)
    assert isinstance(point.produce_verdict(ID), Admit)
    assert point.set_spec(a_spec(capacity_bytes=900_000), 0)
    assert isinstance(point.produce_verdict(ID), Full)


def test_master_lifts_what_others_deleted() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    told(point, 0, blocked=True, stored_bytes=1_000_000, stored_left_bytes=0)
    assert isinstance(point.produce_verdict(ID), Full)
    assert told(point, 1, lease_epoch=2, stored_bytes=10, stored_left_bytes=999_990) == {ID}
    assert isinstance(point.produce_verdict(ID), Admit)


def test_between_98_percent_and_full_the_masters_word_counts() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    between = {"stored_bytes": 990_000, "stored_left_bytes": 10_000}
    assert told(point, 0, blocked=True, **between) == {ID}
    assert isinstance(point.produce_verdict(ID), Full)
    assert told(point, 1, lease_epoch=2, blocked=False, **between) == {ID}
    assert isinstance(point.produce_verdict(ID), Admit)


def test_a_refusal_is_counted() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 1_000_000)
    point.produce_verdict(ID)
    point.produce_verdict(ID)
    assert fully(point, 0).instances[0].produce.refused == 2


def test_reports_list_what_changed_until_one_is_answered() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 2, 50)
    point.charge_produce(ID, 100, 0)
    first = point.report(1_000, 5_000)
    assert first.full and first.sequence == 1 and first.window_ms == 1_000 and first.sent_at_ms == 5_000
    second = point.report(2_000, 6_000)
    assert second.sequence == 2 and [each.produce.used for each in second.instances] == [100]
    point.apply(ReportAnswer(), 2_000)
    assert point.report(3_000, 7_000).instances == ()
    point.apply(ReportAnswer(), 3_000)
    point.charge_fetch(ID, 7, 3_500)
    lost = point.report(4_000, 8_000)
    assert not lost.full and lost.instances[0].consume.used == 7
    assert point.report(5_000, 9_000).instances == lost.instances
    point.apply(ReportAnswer(want_full=True), 5_000)
    full = point.report(6_000, 10_000)
    assert full.full and len(full.instances) == 1


def test_idle_instance_that_leads_nothing_is_never_listed() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    assert point.report(1_000, 1_000).instances == ()


def test_losing_leadership_is_reported() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_all_led({ID: (2, 50)})
    point.report(1_000, 0)
    point.apply(ReportAnswer(), 1_000)
    point.set_all_led({})
    listed = point.report(2_000, 0).instances
    assert [(each.partitions_led, each.stored_bytes) for each in listed] == [(0, 0)]


@pytest.mark.parametrize("is_absent", [False, True])
def test_who_is_deleted_or_absent_keeps_its_limits_and_comes_back(is_absent: bool) -> None:
    point = a_point()
    point.set_spec(a_spec(produce_rate_bytes_per_s=1_000), 0)
    point.charge_produce(ID, 10, 0)
    point.report(0, 0)
    point.apply(ReportAnswer(), 0)
    if is_absent:
        point.hold(ID, a_spec(), 0)
    else:
        point.set_spec(a_spec(state=InstanceState.DELETED), 0)
    point.report(1, 1)
    point.apply(ReportAnswer(), 1)
    flow = point.flow(ID, Direction.PRODUCE)
    assert flow is not None and flow.rate_per_s == 1_000, "limited, and not forgotten"
    point.set_spec(a_spec(produce_rate_bytes_per_s=1_000), 2)
    assert [each.produce.used for each in point.report(2, 2).instances] == [10], "told all again"


def test_data_that_nobody_ever_told_a_rate_of_is_never_unlimited() -> None:
    point = a_point()
    point.set_all_led({ID: (1, 50)})
    point.hold(ID, None, 0)
    flow = point.flow(ID, Direction.PRODUCE)
    assert flow is not None and flow.rate_per_s == RATE_MIN_BYTES_PER_S
    point.set_spec(a_spec(produce_rate_bytes_per_s=1_000), 1)
    assert flow.rate_per_s == 1_000


def test_leases_of_the_disk_hold_who_is_absent() -> None:
    point = a_point()
    point.set_spec(a_spec(produce_rate_bytes_per_s=1_000), 0)
    point.hold(ID, a_spec(), 0)
    again = a_point()
    again.restore_leases(point.save_leases(0, 0), 0, 10)
    again.hold(ID, a_spec(produce_rate_bytes_per_s=1_000), 0)
    flow = again.flow(ID, Direction.PRODUCE)
    assert flow is not None and flow.rate_per_s == 1_000


def test_a_purged_instance_is_kept_until_its_data_is_gone() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_all_led({ID: (1, 50)})
    point.charge_produce(ID, 10, 0)
    point.report(0, 0)
    point.apply(ReportAnswer(), 0)
    point.set_spec(a_spec(state=InstanceState.PURGED), 0)
    point.set_all_led({ID: (1, 40)})
    listed = point.report(1, 1).instances
    assert [each.produce.used for each in listed] == [10], "counters never go back within a run"
    point.apply(ReportAnswer(), 1)
    point.set_all_led({})
    point.report(2, 2)
    point.apply(ReportAnswer(), 2)
    assert fully(point, 3).instances == ()


def test_restart_keeps_lease_block_and_debt() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 500_000)
    told(point, 0, lease_epoch=9, blocked=True, stored_bytes=1_000_000, stored_left_bytes=0)
    point.charge_produce(ID, 1_000_000 + 8_000_000, 0)
    data = point.save_leases(1_000, 50_000)
    again = a_point()
    again.restore_leases(data, 77_000, 50_500)
    assert isinstance(again.produce_verdict(ID), Full)
    assert again.unmute_at_ms(ID, Direction.PRODUCE, 77_000) == 77_000 + 500, (
        "half a second went by meanwhile"
    )
    again.set_spec(a_spec(), 77_000)
    again.set_led(ID, 1, 500_000)
    assert isinstance(again.produce_verdict(ID), Full)
    assert produce_rate(again, 77_000 + 3_499) == 4_000_000, "1 s + 0.5 s of the lease are gone"
    assert produce_rate(again, 77_000 + 3_500) == T // 3
    assert told(again, 80_600, lease_epoch=8) == frozenset()


def test_restart_after_the_lease_ended_uses_the_share_of_others_partitions() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    told(point, 0)
    data = point.save_leases(0, 0)
    again = a_point()
    again.restore_leases(data, 0, 3_600_000)
    again.set_spec(a_spec(), 0)
    again.set_led(ID, 1, 0)
    assert produce_rate(again, 0) == T // 3


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"saved_at_epoch_ms":0,"instances":[],"version":2}'])
def test_saved_leases_of_another_kind_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        a_point().restore_leases(data, 0, 0)


def test_stall_is_half_the_timeout_and_at_most_ten_seconds() -> None:
    assert [stall_ms(t) for t in (-1, 0, 1_000, 30_000, 120_000)] == [0, 0, 500, 10_000, 10_000]


def test_taking_over_a_log_does_not_fill_the_instance() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 300_000)
    told(point, 0, stored_bytes=900_000, stored_left_bytes=100_000)
    point.move_leadership(ID, 1, 300_000)
    assert isinstance(point.produce_verdict(ID), Admit)
    point.count_appended(ID, 99_999)
    assert isinstance(point.produce_verdict(ID), Admit)
    point.count_appended(ID, 1)
    assert isinstance(point.produce_verdict(ID), Full)


def test_giving_up_a_log_frees_nothing() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 2, 600_000)
    told(point, 0, blocked=True, stored_bytes=1_000_000, stored_left_bytes=0)
    point.move_leadership(ID, -1, -300_000)
    assert isinstance(point.produce_verdict(ID), Full)
    point.set_led(ID, 1, 270_000)
    assert isinstance(point.produce_verdict(ID), Admit), "30,000 were deleted"


def test_a_move_between_report_and_answer_counts_once() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 300_000)
    point.report(0, 0)
    point.move_leadership(ID, 1, 300_000)
    answer = ReportAnswer(allocations=(an_allocation(stored_bytes=900_000, stored_left_bytes=100_000),))
    point.apply(answer, 0)
    assert isinstance(point.produce_verdict(ID), Admit)


def test_before_the_first_answer_what_is_led_counts_as_it_comes() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.move_leadership(ID, 1, 1_000_000)
    assert isinstance(point.produce_verdict(ID), Full)


def test_leaders_are_told_and_set_the_share_once_the_lease_is_over() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    point.set_leaders(ID, {1: 1, 2: 2}, 7)
    (listed,) = point.report(0, 0).instances
    assert (listed.leaders, listed.leaders_version) == ({1: 1, 2: 2}, 7)
    told(point, 0, partitions_total=30)
    assert produce_rate(point, 5_000) == T // 3, "by the metadata, which is newer than the answer"
    point.apply(ReportAnswer(), 5_000)
    point.set_leaders(ID, {1: 1, 2: 1}, 8)
    (listed,) = point.report(6_000, 0).instances
    assert listed.leaders_version == 8
    assert produce_rate(point, 6_000) == T // 2


def test_the_same_epoch_again_goes_on_with_the_lease() -> None:
    """An answer that is sent twice, or a lease that a master renews before it counts on."""
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    told(point, 0, lease_epoch=7)
    told(point, 4_000, lease_epoch=7)
    assert produce_rate(point, 8_999) == 4_000_000
    assert produce_rate(point, 9_000) == T // 3


def test_a_report_says_all_that_was_carried_refused_and_waited_for() -> None:
    point = a_point()
    point.set_spec(a_spec(), 0)
    point.set_leaders(ID, {1: 2, 2: 1}, 5)
    point.set_led(ID, 2, 700)
    told(point, 0, lease_epoch=9, produce_rate_bytes_per_s=1_000, consume_rate_bytes_per_s=2_000)
    point.charge_produce(ID, 1_250, 0)
    point.charge_fetch(ID, 2_500, 0)
    for spent in (10, 30):
        point.charged_flow(ID, Direction.PRODUCE).spend(spent, 0)
        point.charged_flow(ID, Direction.CONSUME).spend(2 * spent, 0)
    point.refuse(ID, "INVALID_RECORD")
    point.refuse(ID, "INVALID_RECORD")
    assert fully(point, 3_000) == TrafficReport(
        point="broker-1",
        node_id=1,
        cluster_id="c",
        boot_id="boot",
        sequence=2,
        window_ms=3_000,
        sent_at_ms=3_000,
        uptime_ms=3_000,
        full=True,
        instances=(
            InstanceTraffic(
                instance_id=ID,
                produce=FlowCounters(
                    used=1_250,
                    overhead=40,
                    requests=1,
                    throttled_ms=1_040,
                    rate_per_s=1_000,
                    lease_epoch=9,
                ),
                consume=FlowCounters(
                    used=2_500,
                    overhead=80,
                    requests=1,
                    throttled_ms=1_040,
                    rate_per_s=2_000,
                    lease_epoch=9,
                ),
                partitions_led=2,
                stored_bytes=700,
                blocked=False,
                on_lease=True,
                leaders={1: 2, 2: 1},
                leaders_version=5,
                refusals={"INVALID_RECORD": 2},
            ),
        ),
    )


def test_all_that_a_restart_keeps_is_kept_through_two() -> None:
    instance = InstancePoint(ID, 0.98)
    instance.set_led(2, 700)
    instance.traffic()
    instance.apply(an_allocation(lease_epoch=9, stored_bytes=900, stored_left_bytes=999_100), 0)
    instance.set_spec(a_spec(), 1, 0)
    instance.charge_internal(4_000_000, 0)
    saved = instance.save(1_000)
    again = InstancePoint(ID, 0.98)
    again.restore(saved, 0, 1, 77_000)
    assert (again.stored_bytes, again.left_bytes, again.internal.rate_per_s) == (900, 999_100, 4_000_000)
    assert again.save(77_000) == saved


def test_a_full_instance_of_which_the_spec_is_unknown_is_refused_with_what_is_known() -> None:
    point = a_point()
    point.set_led(ID, 1, 700)
    told(point, 0, blocked=True, stored_bytes=900, stored_left_bytes=100)
    verdict = point.produce_verdict(ID)
    assert isinstance(verdict, Full)
    assert "900" in verdict.message and "1000" in verdict.message.replace(",", "").replace(" ", "")
    assert verdict.behaviour is FullBehaviour.REJECT


def test_a_change_of_the_capacity_moves_what_is_left_by_the_difference() -> None:
    instance = InstancePoint(ID, 0.98)
    instance.set_spec(a_spec(), 1, 0)
    instance.apply(an_allocation(stored_bytes=400_000, stored_left_bytes=600_000), 0)
    instance.set_spec(a_spec(capacity_bytes=500_000), 1, 1)
    assert (instance.left_bytes, instance.blocked) == (100_000, False)
    assert instance.set_spec(a_spec(capacity_bytes=400_000), 1, 2)
    assert (instance.left_bytes, instance.blocked) == (0, True)
