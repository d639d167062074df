"""The gateways' ledger for several threads: reports come on one loop, readers are on another."""

import threading
from collections.abc import Iterable

from contracts.specs import GatewayClusterReport, GatewayReport
from tenants.rules.client_sums import Taken
from tenants.rules.connected import Counted
from tenants.rules.gateway_reports import Closed, GatewayLedger, Refusal


class SharedLedger:
    """`GatewayLedger` behind a lock; no call waits for anything else."""

    def __init__(self) -> None:
        self._ledger = GatewayLedger()
        self._turn = threading.Lock()

    def receive(self, report: GatewayReport, now_ms: int) -> None:
        """Take a report; `now_ms` is monotonic."""
        with self._turn:
            self._ledger.receive(report, now_ms)

    def reports(self) -> list[tuple[GatewayReport, int]]:
        """What workers that report here told, and when (monotonic)."""
        with self._turn:
            return self._ledger.reports()

    def hear(self, report: GatewayReport, seen_ms: int) -> None:
        """Take what a worker told another control process; `seen_ms` is monotonic."""
        with self._turn:
            self._ledger.hear(report, seen_ms)

    def connections(self, instance_id: str, now_ms: int) -> int:
        """Open connections of an instance, over the workers that report."""
        with self._turn:
            return self._ledger.connections(instance_id, now_ms)

    def counts(self, instance_id: str, now_ms: int) -> list[Counted]:
        """Who is connected to an instance, by each worker that reports."""
        with self._turn:
            return self._ledger.counts(instance_id, now_ms)

    def take_sums(self, now_ms: int) -> dict[str, list[Taken] | None]:
        """What each worker counted of each instance, by client id, for the next step of the series."""
        with self._turn:
            return self._ledger.take_sums(now_ms)

    def connections_by_worker(self, now_ms: int) -> dict[str, int]:
        """Open connections per worker that reports."""
        with self._turn:
            return self._ledger.connections_by_worker(now_ms)

    def troubles(self, cluster_id: str, now_ms: int) -> dict[str, GatewayClusterReport]:
        """Of the workers that report, those that cannot use a cluster, and why."""
        with self._turn:
            return self._ledger.troubles(cluster_id, now_ms)

    def closed(self, instance_id: str) -> dict[str, int]:
        """Closed connections by cause, since this control plane started."""
        with self._turn:
            return self._ledger.closed(instance_id)

    def workers(self) -> frozenset[str]:
        """Every worker that was heard of."""
        with self._turn:
            return self._ledger.workers()

    def closed_by_worker(self, instance_id: str) -> dict[str, Closed]:
        """Closed connections by cause, of each worker since its boot."""
        with self._turn:
            return self._ledger.closed_by_worker(instance_id)

    def refusals(self, instance_id: str) -> list[Refusal]:
        """The last refused addresses, newest first."""
        with self._turn:
            return self._ledger.refusals(instance_id)

    def forget(self, instance_ids: Iterable[str]) -> None:
        """Drop instances that are gone."""
        with self._turn:
            self._ledger.forget(instance_ids)
