"""What a worker tells the control plane each second: connections, ended ones by cause, refused addresses."""

import asyncio
from typing import Final

import msgspec

from contracts.client_metrics import ClientReport, LostClient
from contracts.specs import GatewayClusterReport, GatewayInstanceReport, GatewayReport
from gateway.census import Census
from gateway.worker import Worker
from runtime.clock import epoch_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger

_log = get_logger(__name__)
_PERIOD_S: Final = 1.0
CLIENTS_TOLD_MAX: Final = 512
"""Clients whose metrics a worker tells at once, shared out evenly among instances; the others wait for the
next report."""


class Reporter:
    """Posts reports for ever. A lost report costs its refused addresses, counters only grow."""

    def __init__(self, worker: Worker, client: InternalClient, consumer: str, boot_id: str) -> None:
        self._worker = worker
        self._client = client
        self._consumer = consumer
        self._boot_id = boot_id
        self._census = Census()
        self._failing = False

    def report(self) -> GatewayReport:
        """The report of now; the refused addresses in it are forgotten here."""
        instances = []
        clients = self._clients()
        worker = self._worker
        open_ones = sum(len(served.connections) for served in worker.served.values())
        counts = self._census.step(worker.served, open_ones, worker.clock.monotonic_ms())
        for served in worker.served.values():
            told, lost = clients.get(served.instance_id, ((), ()))
            refused = tuple(served.refused)
            served.refused.clear()
            instances.append(
                GatewayInstanceReport(
                    instance_id=served.instance_id,
                    connections=len(served.connections),
                    closed=dict(served.closed),
                    refused=refused,
                    clients=told,
                    lost=lost,
                    connected=counts.get(served.instance_id),
                )
            )
        return GatewayReport(
            consumer=self._consumer,
            boot_id=self._boot_id,
            sent_at_ms=epoch_ms(),
            instances=tuple(instances),
            clusters=tuple(
                GatewayClusterReport(
                    cluster_id=one.spec.cluster_id, trouble=one.trouble.trouble, says=str(one.trouble)
                )
                for one in self._worker.backends
                if one.trouble is not None
            ),
        )

    def _clients(self) -> dict[str, tuple[tuple[ClientReport, ...], tuple[LostClient, ...]]]:
        """What clients have told, and those that are lost, by instance: of each as many as there is room for,
        and what does not go now goes with the next report."""
        now_ms = self._worker.clock.monotonic_ms()
        telling = [served for served in self._worker.served.values() if served.client_metrics.waiting]
        told: dict[str, tuple[tuple[ClientReport, ...], tuple[LostClient, ...]]] = {}
        left = CLIENTS_TOLD_MAX
        for place, served in enumerate(sorted(telling, key=lambda one: one.client_metrics.waiting)):
            most = max(1, left // (len(telling) - place))
            taken = served.client_metrics.take_reports(most, now_ms)
            lost = served.client_metrics.take_lost(most - len(taken), now_ms)
            told[served.instance_id] = taken, lost
            left -= len(taken) + len(lost)
        return told

    async def run(self) -> None:
        """Report every second; while the control plane is away, once in a log is enough."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            try:
                await self._client.post("/internal/v1/gateway-reports", self.report(), msgspec.Raw)
            except InternalError as error:
                if not self._failing:
                    _log.warning("reports do not arrive", error=str(error))
                self._failing = True
            else:
                self._failing = False
