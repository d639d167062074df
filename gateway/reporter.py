"""What a worker tells the control plane each second: connections, ended ones by cause, refused addresses."""

import asyncio
from typing import Final

import msgspec

from contracts.specs import GatewayClusterReport, GatewayInstanceReport, GatewayReport
from gateway.worker import Worker
from runtime.clock import epoch_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger

_log = get_logger(__name__)
_PERIOD_S: Final = 1.0


class Reporter:
    """Posts reports for ever. A lost report costs its refused addresses, counters only grow."""

    def __init__(self, worker: Worker, client: InternalClient, consumer: str, boot_id: str) -> None:
        self._worker = worker
        self._client = client
        self._consumer = consumer
        self._boot_id = boot_id
        self._failing = False

    def report(self) -> GatewayReport:
        """The report of now; the refused addresses in it are forgotten here."""
        instances = []
        for served in self._worker.served.values():
            refused = tuple(served.refused)
            served.refused.clear()
            instances.append(
                GatewayInstanceReport(
                    instance_id=served.instance_id,
                    connections=len(served.connections),
                    closed=dict(served.closed),
                    refused=refused,
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
