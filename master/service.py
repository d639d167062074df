"""The master as one object: reports in, leases out, views for the console; and the task that keeps time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import prometheus_client
from sqlalchemy.exc import SQLAlchemyError

from contracts.fleet import FleetOverview
from contracts.quota import (
    NO_NODE,
    Allocation,
    CpuAllocation,
    RelayedLease,
    ReportAnswer,
    TrafficReport,
)
from contracts.quota_view import EngineView, History, QuotaOverview, QuotaView
from contracts.specs import InstanceSpec
from contracts.usage_records import UsageRecord
from master.journal import Journal, SavedAllocation
from master.kept_series import KeptSeries
from master.metering import Metering
from master.metrics import MasterCollector
from master.quota.capacity import Fill
from master.quota.client_quotas import SetQuotas
from master.quota.cpu_decision import CpuDecision, Topology, topology
from master.quota.cpu_shares import GONE_PERIODS, CpuShares
from master.quota.decision import InstanceDecision, decide
from master.quota.fleet import fleet_brokers, fleet_row
from master.quota.flows import ReportRefusedError
from master.quota.history import InstanceHistory, Slot
from master.quota.leadership import Heard, Leadership, leadership
from master.quota.leases import TERM_FACTOR, LeaseBook, byte_offer, byte_terms, cpu_terms
from master.quota.ledger import Ledger, Outcome, Receipt
from master.quota.policies import POLICIES
from master.quota.stand_ins import StandIns, holdings_report
from master.quota.view import cpu_view, history_row, quota_view
from master.settings import MasterSettings
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger

_log = get_logger(__name__)
_NO_HISTORY = History()


class MasterService:
    """One run of the master. Single-threaded but for the journal, which is written in a worker thread."""

    def __init__(
        self,
        specs: Callable[[], Mapping[str, InstanceSpec]],
        journal: Journal,
        settings: MasterSettings | None = None,
        *,
        term: int,
        metering: Metering | None = None,
        series: KeptSeries | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
        wall_ms: Callable[[], int] = epoch_ms,
    ) -> None:
        """`specs` answers the instances as the feed has them now; `term` is larger than of any run before.

        Without `metering` nothing is billed; without `series` the history begins with this run.

        Raises: ValueError when the settings are out of bounds.
        """
        self.settings = settings or MasterSettings()
        self.settings.validate()
        self._specs = specs
        self._journal = journal
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._metering = metering
        self._series = series
        self._ended_slots: dict[str, Slot] = {}
        """Slots of instances, to be kept."""
        self._recalled: set[str] = set()
        """Instances whose earlier history was asked for."""
        self._ledger = Ledger()
        self.reports: Counter[str] = Counter()
        """Reports by outcome."""
        self.refusals: Counter[str] = Counter()
        """Refused reports by reason."""
        self.engines: dict[str, SetQuotas] = {}
        """What is set in clusters whose own quotas limit instances; whoever sets it puts it here."""
        self._history: dict[str, InstanceHistory] = {}
        self._fills: dict[str, Fill] = {}
        self.policy = journal.setting("policy") or self.settings.policy
        """The rule in force: an operator's choice outlives the settings."""
        period_ms = self.settings.period_ms
        lease_ms, renew_after_ms = self.settings.lease_periods * period_ms, period_ms * 3 // 2
        self._leases = LeaseBook(byte_terms, term=term, lease_ms=lease_ms, renew_after_ms=renew_after_ms)
        self._cpu_leases = LeaseBook(cpu_terms, term=term, lease_ms=lease_ms, renew_after_ms=renew_after_ms)
        self.stand_ins = StandIns(f"{term}-{wall_ms()}", lease_ms)
        """In place of brokers that report nothing."""
        self.later_term: int | None = None
        """A term of which points have newer leases than this run's, which they ignore (ADR 36)."""
        self._cpu = CpuShares(
            self._ledger.cpu,
            self._cpu_leases,
            specs=specs,
            policy=lambda: POLICIES[self.policy],
            places_of=self._places,
            age_of=self._ledger.report_age_ms,
            period_ms=period_ms,
            silent_periods=self.settings.silent_periods,
        )
        self.decisions: tuple[InstanceDecision, ...] = ()
        """What the last tick decided; read by the metrics thread."""
        self.cpu_decisions: tuple[CpuDecision, ...] = ()
        """What the last tick decided of request time, in the order of `decisions`."""
        self._decided_at_ms = 0
        """Epoch: when the last tick was."""
        self._restore()

    def _restore(self) -> None:
        now_ms = self._now_ms()
        for row in self._journal.allocations():
            fill = self._fills.setdefault(row.instance_id, Fill())
            fill.blocked = fill.blocked or row.blocked
            self._ledger.restore(
                point=row.point,
                node_id=row.node_id,
                instance_id=row.instance_id,
                partitions_led=row.partitions_led,
                stored_bytes=row.stored_bytes,
                produce_rate_bytes_per_s=row.produce_rate_bytes_per_s,
                consume_rate_bytes_per_s=row.consume_rate_bytes_per_s,
                now_ms=now_ms,
            )

    # -- reports ----------------------------------------------------------------------------------------

    def receive(self, report: TrafficReport) -> ReportAnswer:
        """Take a report and answer with the leases of its point.

        Raises: ReportRefusedError.
        """
        now_ms = self._now_ms()
        receipt = self._take(report, now_ms)
        if receipt.outcome is Outcome.ACCEPTED:
            for cluster_id in self.stand_ins.told_of(report):
                self.report_stand_ins(cluster_id)
        return self._answer(report, receipt, now_ms)

    def _take(self, report: TrafficReport, now_ms: int) -> Receipt:
        """Raises: ReportRefusedError."""
        try:
            receipt = self._ledger.receive(report, now_ms)
        except ReportRefusedError as refused:
            self.count_refusal(refused.reason, refused.detail, report.point)
            raise
        self.reports[receipt.outcome] += 1
        self._compare_epochs(report)
        if receipt.outcome is Outcome.ACCEPTED:
            self._meter(report, now_ms)
        return receipt

    def _answer(self, report: TrafficReport, receipt: Receipt, now_ms: int) -> ReportAnswer:
        return ReportAnswer(
            allocations=tuple(self._grant(report.point, receipt, now_ms)),
            cpu=tuple(self._grant_cpu(report.point, receipt, now_ms)),
            relayed=tuple(self._grant_relayed(report, receipt, now_ms)),
            gateways=self._ledger.gateways(),
            want_full=receipt.want_full,
            period_ms=self.settings.period_ms,
        )

    def _meter(self, report: TrafficReport, now_ms: int) -> None:
        """Every byte is billed once: by a broker's own report, or by those of the workers that carried it."""
        billed = [report]
        if report.node_id == NO_NODE:
            billed = self.stand_ins.receive(report, now_ms)
        elif self.stand_ins.stands_in(report.point):
            billed = [holdings_report(report)]
        if self._metering is not None:
            for each in billed:
                self._metering.receive(each)

    def await_stand_ins(self, cluster_id: str) -> None:
        """Once a period, while the cluster tells who leads what: brokers without points of their own report
        when workers have, and by themselves where none does."""
        late_ms = self.settings.period_ms * 3 // 2
        if self.stand_ins.silence_ms(cluster_id, self._now_ms()) >= late_ms:
            self.report_stand_ins(cluster_id)

    def report_stand_ins(self, cluster_id: str) -> None:
        """Their shares are made when all have reported: a quota that is set is not changed soon.

        However many workers report, these do about once a period, like brokers: each time costs a decision
        per instance and broker, and the rule looks for patterns in windows of a period.
        """
        now_ms = self._now_ms()
        if self.stand_ins.silence_ms(cluster_id, now_ms) < self.settings.period_ms * 3 // 4:
            return
        self.stand_ins.follow(cluster_id, self._specs(), now_ms)
        points = self.stand_ins.points(cluster_id)
        reports = self.stand_ins.reports(cluster_id, now_ms, self._wall_ms())
        receipts = [self._take(report, now_ms) for report in reports]
        for point, report, receipt in zip(points, reports, receipts, strict=True):
            point.apply(self._answer(report, receipt, now_ms), now_ms)

    def _grant_relayed(self, report: TrafficReport, receipt: Receipt, now_ms: int) -> Iterator[RelayedLease]:
        """What a gateway worker may carry to and from brokers that are not ours, once for each report."""
        if report.node_id != NO_NODE or receipt.outcome is not Outcome.ACCEPTED:
            return
        for part in self.stand_ins.parts(report, now_ms):
            quotas = self.engines.get(part.cluster_id)
            fill = self._fills.get(part.entity.instance_id) or Fill()
            led, total = self.stand_ins.led(part.cluster_id, part.entity)
            yield RelayedLease(
                instance_id=part.entity.instance_id,
                cluster_id=part.cluster_id,
                node_id=part.entity.node_id,
                lease_ms=part.lease_ms,
                produce_rate_bytes_per_s=part.rates.produce_bytes_per_s,
                consume_rate_bytes_per_s=part.rates.consume_bytes_per_s,
                quotas_stand=quotas is not None and quotas.stands(part.entity, now_ms),
                partitions_led=led,
                partitions_total=total,
                blocked=fill.blocked,
                stored_bytes=fill.stored_bytes,
            )

    def _compare_epochs(self, report: TrafficReport) -> None:
        """Our own leases are never newer than what we gave last: those are of a journal that was lost."""
        told = [each.produce.lease_epoch for each in report.instances]
        told_cpu = [each.counters.lease_epoch for each in report.cpu]
        newer = [
            *(epoch for epoch in told if not self._leases.has_given(epoch)),
            *(epoch for epoch in told_cpu if not self._cpu_leases.has_given(epoch)),
        ]
        for epoch in newer:
            self.later_term = max(self.later_term or 0, epoch // TERM_FACTOR)

    @property
    def usage_records(self) -> Mapping[str, int]:
        """Usage records by outcome."""
        return self._metering.counts if self._metering is not None else {}

    def count_refusal(self, reason: str, detail: str, point: str | None = None) -> None:
        """A report was not taken: count and log why."""
        self.refusals[reason] += 1
        _log.warning("traffic report refused", reason=reason, detail=detail, point=point)

    def _grant(self, point: str, receipt: Receipt, now_ms: int) -> list[Allocation]:
        """Leases for what was listed and, once the point has told everything, for what was not."""
        granted = []
        for instance_id in self._ledger.instances_led_by(point):
            if receipt.want_full and instance_id not in receipt.listed:
                continue  # the rate it applies is not known: its lease goes on
            decision = self._decide(instance_id, now_ms)
            if decision is None:
                continue
            index = next((i for i, entry in enumerate(decision.entries) if entry.point == point), None)
            if index is None:
                continue
            lease = self._leases.grant(
                point, byte_offer(decision, index), now_ms, unasked=instance_id not in receipt.listed
            )
            if lease is not None:
                self._ledger.granted(
                    point, instance_id, lease.produce_rate_bytes_per_s, lease.consume_rate_bytes_per_s
                )
                granted.append(lease)
        return granted

    def _grant_cpu(self, point: str, receipt: Receipt, now_ms: int) -> list[CpuAllocation]:
        """A run that another one has replaced gets none: it ends on its static shares."""
        if receipt.outcome is Outcome.SUPERSEDED:
            return []
        return self._cpu.grant(point, receipt.cpu_listed, now_ms, only_listed=receipt.want_full)

    def _leadership(self, instance_id: str, now_ms: int) -> Leadership:
        silent_ms = self.settings.silent_periods * self.settings.period_ms
        return leadership(
            [
                Heard(entry, self._ledger.report_age_ms(entry.point, now_ms))
                for entry in self._ledger.entries_of(instance_id)
            ],
            silent_ms=silent_ms,
            late_ms=min(silent_ms, self.settings.period_ms * 3 // 2),
        )

    def _places(self, spec: InstanceSpec, now_ms: int) -> Topology:
        brokers = self._ledger.brokers_of(spec.cluster_id, now_ms, self._gone_ms)
        return topology(self._leadership(spec.instance_id, now_ms), brokers, self._ledger.gateways())

    @property
    def _gone_ms(self) -> int:
        return GONE_PERIODS * self.settings.period_ms

    def _decide(self, instance_id: str, now_ms: int) -> InstanceDecision | None:
        """The decision as of now, or None for an instance that no spec names."""
        spec = self._specs().get(instance_id)
        if spec is None or spec.state.is_gone:
            return None
        led = self._leadership(instance_id, now_ms)
        fill = self._fills.setdefault(instance_id, Fill())
        fill.update(
            sum(entry.stored_bytes for entry in led.entries),
            reported_blocked=any(entry.blocked for entry in led.entries),
            is_settled=led.is_settled,
            capacity_bytes=spec.capacity_bytes,
            unblock_fraction=self.settings.unblock_fraction,
            hold_ms=self.settings.silent_periods * self.settings.period_ms,
            now_ms=now_ms,
        )
        return decide(
            spec,
            led,
            policy=POLICIES[self.policy],
            stored_bytes=fill.stored_bytes,
            blocked=fill.blocked,
        )

    # -- views --------------------------------------------------------------------------------------------

    def allocations(self, point: str) -> ReportAnswer:
        """The leases that a point was given last."""
        return ReportAnswer(
            allocations=tuple(self._leases.granted_to(point)),
            cpu=tuple(self._cpu.granted_to(point)),
            gateways=self._ledger.gateways(),
            period_ms=self.settings.period_ms,
        )

    def view(self, instance_id: str, seconds: int = 0) -> QuotaView | None:
        """One instance with the last `seconds` of history, or None when there is no such instance."""
        decision = self._decide(instance_id, self._now_ms())
        if decision is None:
            return None
        history = self._history.get(instance_id) if seconds > 0 else None
        since_ms = self._wall_ms() - seconds * 1000
        return self._view(decision, history.view(since_ms) if history is not None else _NO_HISTORY)

    def overview(self) -> QuotaOverview:
        """All instances, without history."""
        now_ms = self._now_ms()
        decisions = [self._decide(instance_id, now_ms) for instance_id in sorted(self._specs())]
        views = tuple(self._view(each, _NO_HISTORY) for each in decisions if each is not None)
        engines = tuple(
            EngineView(cluster_id=each, trouble=quotas.trouble, quotas=len(quotas.known))
            for each, quotas in sorted(self.engines.items())
        )
        return QuotaOverview(at_ms=self._wall_ms(), policy=self.policy, instances=views, engines=engines)

    def fleet(self) -> FleetOverview:
        """A line of every instance, as the last tick decided: it costs a tenth of `overview`."""
        rows = map(fleet_row, self.decisions, self.cpu_decisions)
        silent_ms = self.settings.silent_periods * self.settings.period_ms
        return FleetOverview(
            at_ms=self._decided_at_ms,
            policy=self.policy,
            rows=tuple(rows),
            brokers=fleet_brokers(self._ledger.brokers(), self._now_ms(), silent_ms),
        )

    def _view(self, decision: InstanceDecision, history: History) -> QuotaView:
        now_ms = self._now_ms()
        cpu = self._cpu.decide(decision.spec, now_ms)
        return quota_view(
            decision,
            cpu_view(cpu, self._cpu.epoch_of, lambda point: self._ledger.report_age_ms(point, now_ms)),
            at_ms=self._wall_ms(),
            policy=self.policy,
            period_ms=self.settings.period_ms,
            unblock_fraction=self.settings.unblock_fraction,
            epoch_of=self._leases.epoch_of,
            report_age_ms=lambda point: self._ledger.report_age_ms(point, now_ms),
            history=history,
        )

    # -- operators ------------------------------------------------------------------------------------------

    def set_policy(self, policy: str) -> None:
        """Choose the rule for all instances, also for masters to come.

        Raises: ValueError for a name that is not a policy.
        """
        if policy not in POLICIES:
            raise ValueError(f"'{policy}' is not a policy: choose one of {', '.join(POLICIES)}")
        self._journal.set_setting("policy", policy)
        _log.info("policy changed", before=self.policy, policy=policy)
        self.policy = policy

    def forget_point(self, point: str) -> bool:
        """A point is gone for good: reserve nothing for it. Whether it was known."""
        self._leases.forget_point(point)
        self._cpu.forget_point(point)
        for billed in (point, *self.stand_ins.forget_sender(point)):
            if self._metering is not None:
                self._metering.forget_point(billed)
        return self._ledger.forget_point(point)

    # -- time ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Once a period: forget deleted instances, decide anew (brokers fall silent), sample the history."""
        now_ms, at_ms = self._now_ms(), self._wall_ms()
        self._decided_at_ms = at_ms
        specs = self._specs()
        for point in self._ledger.lost_gateways(now_ms, self._gone_ms):
            self.forget_point(point)
        for instance_id in [*self._ledger.instances()]:
            spec = specs.get(instance_id)
            if spec is not None and spec.state.is_gone:
                self._forget_instance(instance_id)
        decided = [self._decide(instance_id, now_ms) for instance_id in sorted(specs)]
        self.decisions = tuple(decision for decision in decided if decision is not None)
        self.cpu_decisions = tuple(self._cpu.decide(decision.spec, now_ms) for decision in self.decisions)
        for decision, cpu in zip(self.decisions, self.cpu_decisions, strict=True):
            history = self._history.setdefault(decision.spec.instance_id, InstanceHistory())
            ended = history.record(at_ms, history_row(decision, cpu))
            if ended is not None and self._series is not None:
                self._ended_slots[decision.spec.instance_id] = ended
        for instance_id in [each for each in self._history if each not in specs]:
            self._forget_instance(instance_id)

    def _forget_instance(self, instance_id: str) -> None:
        self._ledger.forget_instance(instance_id)
        self._leases.forget_instance(instance_id)
        self._cpu.forget_instance(instance_id)
        self._history.pop(instance_id, None)
        self._fills.pop(instance_id, None)

    def saved_allocations(self) -> list[SavedAllocation]:
        """What the journal should hold now: the decisions of the last tick."""
        return [
            SavedAllocation(
                point=entry.point,
                instance_id=entry.instance_id,
                node_id=entry.node_id,
                partitions_led=entry.partitions_led,
                stored_bytes=entry.stored_bytes,
                produce_rate_bytes_per_s=decision.produce.decision.rates[index],
                consume_rate_bytes_per_s=decision.consume.decision.rates[index],
                blocked=decision.blocked,
            )
            for decision in self.decisions
            for index, entry in enumerate(decision.entries)
        ]

    async def run(self) -> int:
        """Keep time until cancelled, or until there is a later term, which is returned.

        The journal is written every few periods and once more at the end.
        """
        collector = MasterCollector(self)
        prometheus_client.REGISTRY.register(collector)
        ticks = 0
        try:
            while (later := self.later_term) is None:
                if self._series is not None:
                    await self._recall(self._series)
                self.tick()
                if self._series is not None and self._ended_slots:
                    ended, self._ended_slots = self._ended_slots, {}
                    await asyncio.to_thread(self._series.keep, ended)
                if self._metering is not None:
                    self._metering.tick()
                ticks += 1
                if ticks % self.settings.journal_periods == 0:
                    await asyncio.to_thread(self._save, self.saved_allocations(), self._unfinished())
                await asyncio.sleep(self.settings.period_ms / 1000)
            return later
        finally:
            prometheus_client.REGISTRY.unregister(collector)
            self._save(self.saved_allocations(), self._unfinished())
            if self._metering is not None:
                await asyncio.to_thread(self._metering.close)

    async def _recall(self, series: KeptSeries) -> None:
        """Go on with the histories of instances that are new to this run."""
        specs = self._specs()
        new = [each for each in specs if each not in self._recalled]
        self._recalled.intersection_update(specs)
        self._recalled.update(new)
        if new:
            found = await asyncio.to_thread(series.recall, new, self._wall_ms())
            self._history |= {key: history for key, history in found.items() if key not in self._history}

    def _unfinished(self) -> list[UsageRecord]:
        return self._metering.unfinished() if self._metering is not None else []

    def _save(self, rows: list[SavedAllocation], unfinished: list[UsageRecord]) -> None:
        """Without the journal the service works on; only a failover would start from older figures."""
        if self._metering is not None:
            self._metering.save(unfinished)
        try:
            self._journal.save(rows)
        except SQLAlchemyError as error:
            _log.warning("the last allocations cannot be written to the journal", error=str(error))
