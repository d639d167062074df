"""The ledger: rates from counters, runs, repeats, gaps, and reports that cannot be true."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.quota import FlowCounters
from master.quota.ledger import Ledger, Outcome, Refusal, ReportRefusedError
from tests.unit.master.reports import ID, OTHER, a_report, traffic


def rate(ledger: Ledger, instance_id: str = ID) -> int | None:
    (entry,) = ledger.entries_of(instance_id)
    return entry.produce.rate_per_s


def test_rate_is_the_difference_over_the_time_between() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(500)), 0)
    assert rate(ledger) == 500, "a run starts counting at zero, so its first window is known"
    ledger.receive(a_report(2, traffic(1_500, throttled=250)), 1_000)
    assert rate(ledger) == 1_000
    assert ledger.entries_of(ID)[0].produce.throttled_ms_per_s == 250


def test_what_is_charged_beside_the_frames_is_part_of_the_rate() -> None:
    """Else the rule would take the share of a broker that writes commits to be unused."""
    ledger = Ledger()
    counters = FlowCounters(used=100, overhead=400)
    ledger.receive(a_report(1, traffic(0, produce=counters)), 0)
    assert rate(ledger) == 500


def test_senders_clock_is_used_unless_it_was_set() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(0), at_ms=10_000), 0)
    ledger.receive(a_report(2, traffic(1_000), at_ms=11_000), 1_400)
    assert rate(ledger) == 1_000, "400 ms were the network's"
    ledger.receive(a_report(3, traffic(2_000), at_ms=3_600_000), 2_400)
    assert rate(ledger) == 1_000, "the clock jumped: ours is used"
    ledger.receive(a_report(4, traffic(3_000), at_ms=5), 3_400)
    assert rate(ledger) == 1_000


def test_not_listed_is_idle_and_a_missing_report_repeats() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(500)), 0)
    assert ledger.report_age_ms("broker-1", 2_500) == 2_500
    assert rate(ledger) == 500
    ledger.receive(a_report(4), 3_000)
    assert rate(ledger) == 0
    ledger.receive(a_report(6, traffic(4_500)), 5_000)
    assert rate(ledger) == 2_000, "4000 bytes in two seconds"


def test_duplicates_and_overtaken_reports_change_nothing() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(500)), 0)
    ledger.receive(a_report(3, traffic(2_500)), 2_000)
    for late in (a_report(3, traffic(2_500)), a_report(2, traffic(1_500))):
        assert ledger.receive(late, 2_100).outcome is Outcome.REPEATED
    assert rate(ledger) == 1_000
    assert ledger.report_age_ms("broker-1", 2_100) == 100


def test_reports_in_a_bunch_make_no_peak() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(0), at_ms=0), 0)
    ledger.receive(a_report(2, traffic(1_000), at_ms=1_000), 1_000)
    ledger.receive(a_report(3, traffic(1_010), at_ms=1_001), 1_001)
    assert rate(ledger) == 100


def test_restarted_broker_counts_from_zero() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(10**9)), 0)
    receipt = ledger.receive(a_report(1, traffic(700), boot="b"), 5_000)
    assert receipt.outcome is Outcome.ACCEPTED and not receipt.want_full
    assert rate(ledger) == 700


def test_report_of_the_run_before_is_ignored() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(500)), 0)
    ledger.receive(a_report(1, traffic(0), boot="b"), 1_000)
    assert ledger.receive(a_report(2, traffic(9_999)), 1_100).outcome is Outcome.SUPERSEDED
    assert rate(ledger) == 0


def test_new_master_knows_no_rate_before_the_second_report() -> None:
    ledger = Ledger()
    receipt = ledger.receive(a_report(17, traffic(10**9)), 0)
    assert receipt.want_full and rate(ledger) is None
    receipt = ledger.receive(a_report(18, traffic(10**9 + 500), traffic(3, OTHER), full=True), 1_000)
    assert not receipt.want_full and rate(ledger) == 500
    assert rate(ledger, OTHER) is None, "idle before, but nobody can know"
    ledger.receive(a_report(19), 2_000)
    assert rate(ledger) == 0 and rate(ledger, OTHER) == 0


def test_lost_first_report_keeps_the_last_rate_until_a_second_came() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(500)), 0)
    assert ledger.receive(a_report(2, traffic(90_000), boot="b"), 3_000).want_full
    assert rate(ledger) == 500
    ledger.receive(a_report(3, traffic(91_000), boot="b", full=True), 4_000)
    assert rate(ledger) == 1_000


def test_instance_first_listed_in_a_complete_run_counts_from_zero() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(0)), 0)
    ledger.receive(a_report(2, traffic(800, OTHER)), 1_000)
    assert rate(ledger, OTHER) == 800


def test_full_report_takes_leadership_from_what_it_does_not_list() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(0), traffic(0, OTHER, leaders={1: 1})), 0)
    ledger.receive(a_report(2, traffic(10), full=True), 1_000)
    (entry,) = ledger.entries_of(OTHER)
    assert (entry.partitions_led, entry.leaders) == (0, {}) and ledger.instances_led_by("broker-1") == [ID]
    ledger.receive(a_report(3, traffic(50, OTHER)), 2_000)
    assert rate(ledger, OTHER) == 50, "its counters were remembered"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (traffic(499), Refusal.COUNTER_WENT_BACK),
        (traffic(500, throttled=4), Refusal.COUNTER_WENT_BACK),
        (traffic(500, throttled=5, refused=2), Refusal.COUNTER_WENT_BACK),
    ],
)
def test_counters_that_go_back_refuse_the_report_whole(bad: object, reason: Refusal) -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(500, throttled=5, refused=3), traffic(7, OTHER)), 0)
    with pytest.raises(ReportRefusedError, match=ID) as refused:
        ledger.receive(a_report(2, traffic(9_000, OTHER), bad), 1_000)  # type: ignore[arg-type]
    assert refused.value.reason is reason
    assert rate(ledger, OTHER) == 7, "nothing of it was taken"
    ledger.receive(a_report(2, traffic(600, throttled=5, refused=3)), 1_000)
    assert rate(ledger) == 100


def test_an_instance_listed_twice_and_another_version_are_refused() -> None:
    ledger = Ledger()
    with pytest.raises(ReportRefusedError, match="twice"):
        ledger.receive(a_report(1, traffic(1), traffic(2)), 0)
    report = a_report(1, traffic(1))
    newer = type(report)(
        **{name: getattr(report, name) for name in report.__struct_fields__} | {"version": 2}
    )
    with pytest.raises(ReportRefusedError, match="version 2"):
        ledger.receive(newer, 0)
    assert ledger.points() == {}


def test_forgetting() -> None:
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(1), traffic(2, OTHER)), 0)
    ledger.receive(a_report(1, traffic(3), node_id=2), 0)
    ledger.forget_instance(OTHER)
    assert list(ledger.instances()) == [ID]
    assert ledger.forget_point("broker-1") and not ledger.forget_point("broker-1")
    assert [entry.node_id for entry in ledger.entries_of(ID)] == [2]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), min_size=1, max_size=30), st.randoms())
def test_counted_bytes_are_conserved_whatever_is_lost_or_overtaken(
    plan: list[tuple[int, bool]], random: object
) -> None:
    """rate x time, summed over the reports that arrive, is the counter: nothing counts twice or is lost."""
    ledger = Ledger()
    ledger.receive(a_report(1, traffic(0)), 0)
    total, counted, last_ms = 0, 0, 0
    for sequence, (size, lost) in enumerate(plan, start=2):
        total += size
        report, now_ms = a_report(sequence, traffic(total), at_ms=sequence * 1_000), (sequence - 1) * 1_000
        if lost:
            continue
        ledger.receive(report, now_ms)
        ledger.receive(report, now_ms)
        counted += (rate(ledger) or 0) * (now_ms - last_ms) // 1_000
        last_ms = now_ms
        assert total - len(plan) <= counted <= total
