"""What clients told of themselves, for several threads: reports come on one loop, readers are on another."""

import threading
from collections.abc import Iterable

from contracts.specs import GatewayReport
from tenants.rules.client_reports import ClientReports, HeardClient, Seen


class SharedClientReports:
    """`ClientReports` behind a lock; no call waits for anything else."""

    def __init__(self) -> None:
        self._reports = ClientReports()
        self._turn = threading.Lock()

    def receive(self, report: GatewayReport, now_ms: int) -> None:
        """A gateway worker has told."""
        with self._turn:
            for one in report.instances:
                self._reports.receive(one.instance_id, one.clients, one.lost, now_ms)

    def hear(self, heard: Iterable[HeardClient], said_ms: int) -> None:
        """Another control process was told."""
        with self._turn:
            self._reports.hear(heard, said_ms)

    def told_lately(self, now_ms: int) -> list[HeardClient]:
        """For other control processes."""
        with self._turn:
            return self._reports.told_lately(now_ms)

    def clients(self, instance_id: str, now_ms: int) -> list[Seen]:
        """Who told something lately, the newest first."""
        with self._turn:
            return self._reports.clients(instance_id, now_ms)

    def counts(self) -> tuple[int, int]:
        """(clients that are remembered, clients that had to make room for others)."""
        with self._turn:
            return self._reports.count, self._reports.forgotten
