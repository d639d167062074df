"""What gateway workers report of instances: connections, refused addresses, closes by cause. Pure."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from contracts.specs import GatewayClusterReport, GatewayInstanceReport, GatewayReport, RefusedAddress
from tenants.rules.acknowledgement import SILENT_AFTER_MS
from tenants.rules.client_sums import Taken, WorkerCounts, tells_of_ids
from tenants.rules.connected import Counted, shortened

REFUSALS_KEPT: Final = 50
COUNTS_TOLD_ON_MAX: Final = 64
"""Instances whose clients are told to other control processes at once, which goes through the database; the
others follow."""
CLIENTS_TOLD_ON: Final = 5
"""Of each of them."""
CLIENT_IDS_TOLD_ON: Final = 10
"""Of each of them, for the series of what each client id does."""


class Refusal(NamedTuple):
    """An address that a worker's whitelist turned away."""

    at_ms: int
    address: str
    gateway: str


class Closed(NamedTuple):
    """Closed connections of an instance at a worker."""

    boot_id: str
    causes: Mapping[str, int]


@dataclass(slots=True)
class _Worker:
    boot_id: str
    seen_ms: int
    instances: dict[str, GatewayInstanceReport] = field(default_factory=dict)
    clusters: tuple[GatewayClusterReport, ...] = ()
    counts: dict[str, Counted] = field(default_factory=dict)
    """Who is connected, by instance."""
    summed: dict[str, WorkerCounts] = field(default_factory=dict)
    """What was counted and no step of the series took, by instance."""
    is_ours: bool = True
    """It reported here last, and not to another control process."""


class GatewayLedger:
    """The last report of every worker, and what must outlive a worker's restart."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._closed_before: dict[str, Counter[str]] = {}
        """Closes of boots that ended, by instance."""
        self._refusals: dict[str, deque[Refusal]] = {}
        self._untold: OrderedDict[tuple[str, str], None] = OrderedDict()
        """(worker, instance) whose count other control processes do not know yet."""

    def receive(self, report: GatewayReport, now_ms: int) -> None:
        """Take a report; `now_ms` is monotonic. What a report leaves out has not changed but for
        connections, which a worker tells of every instance that has any."""
        worker = self._workers.get(report.consumer)
        if worker is None or worker.boot_id != report.boot_id:
            before: dict[str, WorkerCounts] = {}
            if worker is not None:
                self._keep_closed(worker)
                before = worker.summed
            worker = _Worker(report.boot_id, now_ms, summed=before)
            self._workers[report.consumer] = worker
        worker.seen_ms = now_ms
        worker.is_ours = True
        worker.clusters = report.clusters
        told = {one.instance_id for one in report.instances}
        for instance_id, last in worker.instances.items():
            if instance_id not in told and last.connections:
                worker.instances[instance_id] = GatewayInstanceReport(
                    instance_id=instance_id, connections=0, closed=last.closed
                )
                worker.counts.pop(instance_id, None)
        for one in report.instances:
            worker.instances[one.instance_id] = msgspec.structs.replace(
                one, clients=(), lost=(), connected=None
            )
            if one.connected is not None:
                worker.counts[one.instance_id] = Counted(now_ms, one.connected)
                if tells_of_ids(one.connected):
                    summed = worker.summed.get(one.instance_id)
                    if summed is None:
                        worker.summed[one.instance_id] = WorkerCounts(one.connected)
                    else:
                        summed.add(one.connected)
                self._untold[report.consumer, one.instance_id] = None
            kept = self._refusals.setdefault(one.instance_id, deque(maxlen=REFUSALS_KEPT))
            kept.extend(Refusal(each.at_ms, each.address, report.consumer) for each in one.refused)

    def reports(self) -> list[tuple[GatewayReport, int]]:
        """What workers that report here told, each as one report, and when (monotonic). Who is connected is
        told of some instances each time, by turns."""
        turn = min(len(self._untold), COUNTS_TOLD_ON_MAX)
        untold = {self._untold.popitem(last=False)[0] for _ in range(turn)}
        return [
            (
                GatewayReport(
                    consumer=name,
                    boot_id=worker.boot_id,
                    sent_at_ms=0,
                    instances=tuple(
                        self._whole(name, one, worker.counts.get(key) if (name, key) in untold else None)
                        for key, one in worker.instances.items()
                    ),
                    clusters=worker.clusters,
                ),
                worker.seen_ms,
            )
            for name, worker in self._workers.items()
            if worker.is_ours
        ]

    def _whole(
        self, gateway: str, report: GatewayInstanceReport, count: Counted | None
    ) -> GatewayInstanceReport:
        refused = tuple(
            RefusedAddress(at_ms=one.at_ms, address=one.address)
            for one in self._refusals.get(report.instance_id, ())
            if one.gateway == gateway
        )
        told = None
        if count is not None:
            told = shortened(count.connected, CLIENTS_TOLD_ON, CLIENT_IDS_TOLD_ON)
        return GatewayInstanceReport(
            instance_id=report.instance_id,
            connections=report.connections,
            closed=report.closed,
            refused=refused,
            connected=told,
        )

    def hear(self, report: GatewayReport, seen_ms: int) -> None:
        """Take what a worker told another control process, unless it told us later."""
        worker = self._workers.get(report.consumer)
        if worker is not None and worker.seen_ms >= seen_ms:
            return
        known = [
            GatewayInstanceReport(
                instance_id=one.instance_id,
                connections=one.connections,
                closed=one.closed,
                refused=tuple(
                    each
                    for each in one.refused
                    if Refusal(each.at_ms, each.address, report.consumer)
                    not in self._refusals.get(one.instance_id, ())
                ),
                connected=one.connected,
            )
            for one in report.instances
        ]
        told = GatewayReport(
            consumer=report.consumer,
            boot_id=report.boot_id,
            sent_at_ms=report.sent_at_ms,
            instances=tuple(known),
            clusters=report.clusters,
        )
        self.receive(told, seen_ms)
        self._workers[report.consumer].is_ours = False
        for one in known:
            self._untold.pop((report.consumer, one.instance_id), None)

    def _keep_closed(self, worker: _Worker) -> None:
        for instance_id, report in worker.instances.items():
            self._closed_before.setdefault(instance_id, Counter()).update(report.closed)

    def connections(self, instance_id: str, now_ms: int) -> int:
        """Open connections of an instance, over the workers that report."""
        return sum(
            worker.instances[instance_id].connections
            for worker in self._reporting(now_ms)
            if instance_id in worker.instances
        )

    def counts(self, instance_id: str, now_ms: int) -> list[Counted]:
        """Who is connected to an instance, by each worker that reports."""
        return [
            worker.counts[instance_id] for worker in self._reporting(now_ms) if instance_id in worker.counts
        ]

    def take_sums(self, now_ms: int) -> dict[str, list[Taken] | None]:
        """What each worker counted of each instance for the next step of the series. None: a worker has
        connections of the instance, and has not counted them."""
        found: dict[str, list[Taken] | None] = {}
        for worker in self._workers.values():
            reports = now_ms - worker.seen_ms <= SILENT_AFTER_MS
            for instance_id, summed in list(worker.summed.items()):
                taken = summed.take(goes_on=reports)
                if taken is None:
                    del worker.summed[instance_id]
                elif (known := found.setdefault(instance_id, [])) is not None:
                    known.append(taken)
            for instance_id, report in worker.instances.items() if reports else ():
                counted = worker.counts.get(instance_id)
                if report.connections and not (counted and tells_of_ids(counted.connected)):
                    found[instance_id] = None
        return found

    def connections_by_worker(self, now_ms: int) -> dict[str, int]:
        """Open connections per worker that reports."""
        return {
            name: sum(one.connections for one in worker.instances.values())
            for name, worker in self._workers.items()
            if now_ms - worker.seen_ms <= SILENT_AFTER_MS
        }

    def troubles(self, cluster_id: str, now_ms: int) -> dict[str, GatewayClusterReport]:
        """Of the workers that report, those that cannot use a cluster, and why."""
        return {
            name: one
            for name, worker in self._workers.items()
            if now_ms - worker.seen_ms <= SILENT_AFTER_MS
            for one in worker.clusters
            if one.cluster_id == cluster_id
        }

    def closed(self, instance_id: str) -> dict[str, int]:
        """Closed connections by cause, since this control plane started."""
        total = Counter(self._closed_before.get(instance_id, {}))
        for worker in self._workers.values():
            if instance_id in worker.instances:
                total.update(worker.instances[instance_id].closed)
        return dict(sorted(total.items()))

    def workers(self) -> frozenset[str]:
        """Every worker that was heard of."""
        return frozenset(self._workers)

    def closed_by_worker(self, instance_id: str) -> dict[str, Closed]:
        """Closed connections by cause, of each worker since its boot."""
        return {
            name: Closed(worker.boot_id, worker.instances[instance_id].closed)
            for name, worker in self._workers.items()
            if instance_id in worker.instances
        }

    def refusals(self, instance_id: str) -> list[Refusal]:
        """The last refused addresses, newest first."""
        return sorted(self._refusals.get(instance_id, ()), reverse=True)

    def forget(self, instance_ids: Iterable[str]) -> None:
        """Drop instances that are gone."""
        for instance_id in instance_ids:
            self._refusals.pop(instance_id, None)
            self._closed_before.pop(instance_id, None)
            for worker in self._workers.values():
                worker.instances.pop(instance_id, None)
                worker.counts.pop(instance_id, None)
                worker.summed.pop(instance_id, None)

    def _reporting(self, now_ms: int) -> list[_Worker]:
        return [one for one in self._workers.values() if now_ms - one.seen_ms <= SILENT_AFTER_MS]
