"""The service: decisions over time, restarts from the journal, deleted instances, policy, views, history."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest

from contracts.quota_view import Rule
from contracts.specs import InstanceSpec, InstanceState
from master.journal import Journal
from master.metrics import MasterCollector
from master.quota.ledger import ReportRefusedError
from master.service import MasterService
from master.settings import MasterSettings
from tests.unit.master.reports import ID, OTHER, T, a_report, a_spec, traffic

MILLION = 1_000_000


class Harness:
    """A master over a real journal file, on a clock that is set by hand."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.now_ms = 10_000
        self.specs: dict[str, InstanceSpec] = {ID: a_spec()}
        self.journals: list[Journal] = []
        self.service = self.start()

    def start(self, **settings: object) -> MasterService:
        journal = Journal(self.url)
        self.journals.append(journal)
        self.service = MasterService(
            lambda: self.specs,
            journal,
            MasterSettings(**settings),  # type: ignore[arg-type]
            term=journal.next_term(),
            now_ms=lambda: self.now_ms,
            wall_ms=lambda: self.now_ms + 10**12,
        )
        return self.service

    def save(self) -> int:
        self.service.tick()
        return self.journals[-1].save(self.service.saved_allocations())

    def round(self, sequence: int, rates: list[float], **changes: object) -> list[tuple[int, ...]]:
        """Three brokers that carried so many MB in the last second; q of each as answered."""
        self.counted = getattr(self, "counted", [0, 0, 0])
        answers = []
        for index, rate in enumerate(rates):
            self.counted[index] += round(rate * MILLION)
            report = a_report(sequence, traffic(self.counted[index], **changes), node_id=index + 1)
            answers.append(self.service.receive(report).allocations)
        self.now_ms += 1_000
        return [tuple(a.produce_rate_bytes_per_s for a in answer) for answer in answers]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path / "master.db")
    yield made
    for journal in made.journals:
        journal.close()


def allocated(service: MasterService) -> list[int]:
    view = service.view(ID)
    assert view is not None
    return [broker.produce.allocated_per_s for broker in view.brokers]


def test_the_rule_over_reports_of_three_brokers(harness: Harness) -> None:
    harness.round(1, [60, 20, 10])
    assert allocated(harness.service) == [60 * MILLION, 26 * MILLION, 16 * MILLION]
    view = harness.service.view(ID)
    assert view is not None and view.produce.rule is Rule.HEADROOM and view.consume.rule is Rule.BELOW_GATE
    assert view.produce.p_ratio == round(1 / 6, 4)
    assert "Broker 1 carries 60 MB/s" in view.produce.explanation
    assert "0.167" in view.produce.explanation
    assert [broker.produce.below_gate for broker in view.brokers] == [False, True, True]
    assert harness.round(2, [60, 20, 10])[2] == (16 * MILLION,)


def test_epochs_grow_with_every_grant_and_every_master(harness: Harness) -> None:
    epochs = []
    for sequence in (1, 2):
        epochs += [a.lease_epoch for a in harness.service.receive(a_report(sequence, traffic(0))).allocations]
        harness.now_ms += 1_000
    harness.start()
    for sequence in (3, 4):
        epochs += [a.lease_epoch for a in harness.service.receive(a_report(sequence, traffic(0))).allocations]
        harness.now_ms += 1_000
    assert epochs == sorted(set(epochs)) and len(epochs) == 4


def test_idle_instances_renew_before_their_lease_ends_but_not_each_time(harness: Harness) -> None:
    harness.service.receive(a_report(1, traffic(0)))
    granted = []
    for sequence in range(2, 12):
        harness.now_ms += 1_000
        granted.append(len(harness.service.receive(a_report(sequence)).allocations))
    assert sum(granted) == 5 and granted[:2] == [0, 1]


def test_changes_reach_an_idle_point_at_once(harness: Harness) -> None:
    harness.service.receive(a_report(1, traffic(0)))
    harness.now_ms += 1_000
    harness.specs[ID] = a_spec(produce_rate_bytes_per_s=T // 2)
    (lease,) = harness.service.receive(a_report(2)).allocations
    assert lease.produce_rate_bytes_per_s == T // 2


def test_silent_after_three_periods_and_back_with_its_next_report(harness: Harness) -> None:
    harness.round(1, [30, 30, 30])
    for sequence in (2, 3, 4, 5):
        harness.counted[:2] = [count + 45 * MILLION for count in harness.counted[:2]]
        for index in (0, 1):
            harness.service.receive(a_report(sequence, traffic(harness.counted[index]), node_id=index + 1))
        if sequence < 4:
            assert harness.service.view(ID).brokers[2].silent is False  # type: ignore[union-attr]
        harness.now_ms += 1_000
    view = harness.service.view(ID)
    assert view is not None and [broker.silent for broker in view.brokers] == [False, False, True]
    assert allocated(harness.service) == [30 * MILLION] * 3, "the others share 60, by the same steps"
    assert "Broker 3 is silent: 30 MB/s stays reserved" in view.produce.explanation
    harness.service.receive(a_report(2, traffic(harness.counted[2]), node_id=3))
    assert harness.service.view(ID).produce.reserved_per_s == 0  # type: ignore[union-attr]


def test_silence_begins_at_the_third_period_exactly(harness: Harness) -> None:
    harness.service.receive(a_report(1, traffic(0)))
    seen = []
    for now_ms in (12_999, 13_000):
        harness.now_ms = now_ms
        seen.append(harness.service.view(ID).brokers[0].silent)  # type: ignore[union-attr]
    assert seen == [False, True]


def test_nobody_is_held_above_what_is_bought_now(harness: Harness) -> None:
    harness.specs[ID] = a_spec(produce_rate_bytes_per_s=T // 3)
    (lease,) = harness.service.receive(a_report(9, traffic(10**9, rate=T))).allocations
    assert lease.produce_rate_bytes_per_s == T // 3


def test_a_broker_that_is_gone_for_good_is_forgotten_on_request(harness: Harness) -> None:
    harness.round(1, [30, 30, 30])
    assert harness.service.forget_point("broker-3") and not harness.service.forget_point("broker-3")
    assert allocated(harness.service) == [45 * MILLION] * 2


def test_capacity_blocks_and_unblocks_below_98_percent(harness: Harness) -> None:
    for sequence, (stored, blocked) in enumerate(
        [(999_999, False), (1_000_000, True), (980_000, True), (979_999, False), (990_000, False)], start=1
    ):
        (lease,) = harness.service.receive(a_report(sequence, traffic(0, stored_bytes=stored))).allocations
        assert (lease.blocked, lease.stored_bytes, lease.stored_left_bytes) == (
            blocked,
            stored,
            1_000_000 - stored,
        )
        harness.now_ms += 1_000


def test_block_survives_a_failover_in_between(harness: Harness) -> None:
    harness.service.receive(a_report(1, traffic(0, stored_bytes=1_000_000)))
    harness.now_ms += 1_000
    harness.service.receive(a_report(2, traffic(0, stored_bytes=990_000)))
    harness.save()
    assert harness.start().view(ID).blocked  # type: ignore[union-attr]


def test_new_master_holds_everyone_at_the_rate_applied(harness: Harness) -> None:
    harness.round(1, [60, 20, 10])
    harness.save()
    harness.start()
    view = harness.service.view(ID)
    assert view is not None and view.produce.rule is Rule.HOLD
    assert allocated(harness.service) == [60 * MILLION, 26 * MILLION, 16 * MILLION]
    answer = harness.service.receive(a_report(2, traffic(61 * MILLION, rate=59 * MILLION)))
    assert answer.want_full and answer.allocations[0].produce_rate_bytes_per_s == 59 * MILLION
    for index in (1, 2):
        harness.service.receive(a_report(2, traffic(10**9, rate=0), node_id=index + 1, full=True))
    assert allocated(harness.service) == [59 * MILLION, 30 * MILLION, 30 * MILLION], "none applied: its share"
    harness.now_ms += 1_000
    harness.service.receive(a_report(3, traffic(121 * MILLION)))
    for index in (1, 2):
        harness.service.receive(a_report(3, traffic(10**9 + 20 * MILLION), node_id=index + 1))
    view = harness.service.view(ID)
    assert view is not None and view.produce.rule is Rule.HEADROOM


def test_journal_writes_only_what_changed(harness: Harness) -> None:
    harness.round(1, [60, 20, 10])
    assert harness.save() == 3
    assert harness.save() == 0
    harness.round(2, [60, 20, 10])
    assert harness.save() == 0
    harness.round(3, [0, 0, 0])
    assert harness.save() == 3
    harness.specs.clear()
    assert harness.save() == 3
    assert harness.journals[-1].allocations() == []


def test_a_foreign_schema_is_refused(harness: Harness) -> None:
    harness.journals[-1].set_setting("schema_version", "99")
    with pytest.raises(ValueError, match="schema 99"):
        Journal(harness.url)


def test_deleted_suspended_and_unknown_instances(harness: Harness) -> None:
    report = a_report(1, traffic(5), traffic(5, OTHER))
    assert [a.instance_id for a in harness.service.receive(report).allocations] == [ID]
    assert harness.service.view(OTHER) is None
    harness.specs[ID] = a_spec(state=InstanceState.SUSPENDED)
    harness.now_ms += 1_000
    assert len(harness.service.receive(a_report(2, traffic(6))).allocations) == 1
    harness.specs[ID] = a_spec(state=InstanceState.DELETED)
    harness.service.tick()
    assert harness.service.view(ID) is None
    assert harness.service.receive(a_report(3, traffic(7))).allocations == ()
    assert harness.service.allocations("broker-1").allocations == ()


def test_no_reports_yet_is_a_view_with_no_brokers(harness: Harness) -> None:
    view = harness.service.view(ID)
    assert view is not None and view.brokers == () and view.produce.rule is Rule.NO_BROKERS
    assert view.produce.purchased_per_s == T and view.stored_left_bytes == 1_000_000


def test_a_spec_without_rates_stops_nobody(harness: Harness) -> None:
    harness.specs[OTHER] = a_spec(OTHER, produce_rate_bytes_per_s=0, consume_rate_bytes_per_s=-1)
    answer = harness.service.receive(a_report(1, traffic(5), traffic(5, OTHER)))
    harness.service.tick()
    assert [lease.produce_rate_bytes_per_s for lease in answer.allocations] == [T, 1]


def test_policy_is_chosen_by_operators_and_kept(harness: Harness) -> None:
    harness.round(1, [60, 20, 10])
    harness.service.set_policy("capped")
    assert allocated(harness.service) == [60 * MILLION, 24_500_000, 14_500_000]
    with pytest.raises(ValueError, match="static, seed, capped, fair"):
        harness.service.set_policy("best")
    assert harness.start().policy == "capped"


def test_settings_out_of_bounds_are_all_named() -> None:
    with pytest.raises(ValueError, match=r"policy is 'x'.*period_ms is 5.*silent_periods.*unblock.*journal"):
        MasterSettings(
            policy="x", period_ms=5, silent_periods=9, unblock_fraction=0.0, journal_periods=0
        ).validate()


def test_overview_and_history(harness: Harness) -> None:
    harness.specs[OTHER] = a_spec(OTHER)
    for sequence in range(1, 6):
        harness.round(sequence, [60, 20, sequence])
        harness.service.tick()
    overview = harness.service.overview()
    assert [view.instance_id for view in overview.instances] == [ID, OTHER]
    view = harness.service.view(ID, 60)
    assert view is not None
    assert [broker.node_id for broker in view.history.brokers] == [1, 2, 3]
    assert view.history.brokers[2].produce.rate_per_s == [s * MILLION for s in range(1, 6)]
    assert len(harness.service.view(ID, 2).history.at_ms) == 3  # type: ignore[union-attr]
    assert harness.service.view(ID, 0).history.at_ms == []  # type: ignore[union-attr]


def test_refusals_are_counted_by_reason(harness: Harness) -> None:
    harness.service.receive(a_report(1, traffic(5)))
    with pytest.raises(ReportRefusedError):
        harness.service.receive(a_report(2, traffic(4)))
    assert harness.service.refusals == {"counter_went_back": 1}
    assert harness.service.reports == {"accepted": 1}


def test_metrics_show_every_letter(harness: Harness) -> None:
    harness.round(1, [60, 20, 10], stored_bytes=400_000, refused=2)
    harness.service.tick()
    registry = prometheus_client.CollectorRegistry()
    registry.register(MasterCollector(harness.service))
    labels = {"instance": ID, "node": "2", "direction": "produce"}
    for name, value in [("rate", 20), ("share", 30), ("proportion", 20), ("allocated", 26)]:
        assert registry.get_sample_value(f"portico_quota_{name}_bytes_per_second", labels) == value * MILLION
    assert registry.get_sample_value("portico_quota_stored_bytes", {"instance": ID}) == 1_200_000
    assert registry.get_sample_value("portico_quota_blocked", {"instance": ID}) == 1
    assert registry.get_sample_value("portico_quota_reports_total", {"outcome": "accepted"}) == 3
    assert registry.get_sample_value("portico_quota_refused_total", {"instance": ID, "node": "2"}) == 2


def test_refusals_are_told_by_reason(harness: Harness) -> None:
    harness.round(1, [60, 20, 10], refusals={"invalid_required_acks": 7})
    harness.service.tick()
    registry = prometheus_client.CollectorRegistry()
    registry.register(MasterCollector(harness.service))
    labels = {"instance": ID, "node": "2", "reason": "invalid_required_acks"}
    assert registry.get_sample_value("portico_quota_refusals_total", labels) == 7
    view = harness.service.view(ID)
    assert view is not None and view.brokers[1].refusals == {"invalid_required_acks": 7}


async def test_a_journal_that_cannot_be_written_stops_nothing() -> None:
    journal = Journal("sqlite://")
    service = MasterService(lambda: {ID: a_spec()}, journal, MasterSettings(journal_periods=1), term=1)
    service.receive(a_report(1, traffic(5)))
    task = asyncio.create_task(service.run())
    with journal._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE master_allocations")
    await asyncio.sleep(0.05)
    assert not task.done() and len(service.receive(a_report(2, traffic(6))).allocations) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_run_writes_the_journal_when_it_is_stopped(harness: Harness) -> None:
    harness.round(1, [60, 20, 10])
    task = asyncio.create_task(harness.service.run())
    await asyncio.sleep(0.05)
    assert prometheus_client.REGISTRY.get_sample_value("portico_quota_stored_bytes", {"instance": ID}) == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(harness.journals[-1].allocations()) == 3
    assert prometheus_client.REGISTRY.get_sample_value("portico_quota_stored_bytes", {"instance": ID}) is None
