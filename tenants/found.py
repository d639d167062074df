"""What brokers and gateways hold of instances that are not served, for operators to look at and take back.

Kept in memory, like the gateways' reports: it is told again every few seconds. Any thread may call.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from contracts.holdings import SPECS_AT_ONCE_MAX, Holding, HoldingsReport
from contracts.specs import InstanceSpec
from tenants.rules.vports import Endpoint

_HEARD_FOR_MS: Final = 30_000
"""Reports come every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One instance, over all who told of it."""

    instance_id: str
    absent_since_ms: int | None
    """Epoch ms; None: those who hold it know that it is deleted."""
    stored_bytes: int
    """One copy: every partition counts at its leader."""
    partitions: int
    holders: tuple[str, ...]
    cluster_id: str | None
    spec: InstanceSpec | None
    """The spec that was served last, where somebody still knows."""


@dataclass(slots=True)
class _Teller:
    cluster_id: str | None
    seen_ms: int
    holdings: dict[str, Holding] = field(default_factory=dict)
    report: HoldingsReport | None = None
    """The report that was told here; None: to another control process."""


class FoundLedger:
    """The last report of everybody."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._tellers: dict[str, _Teller] = {}
        self._specs: dict[str, InstanceSpec] = {}

    def receive(self, report: HoldingsReport, now_ms: int) -> tuple[str, ...]:
        """Take a report; of which instances the spec is still wanted. `now_ms` is monotonic."""
        with self._turn:
            self._take(report, now_ms)
            self._tellers[report.consumer].report = report
            self._forget(now_ms)
            lacking = [one.instance_id for one in report.holdings if one.has_spec]
            return tuple(each for each in lacking if each not in self._specs)[:SPECS_AT_ONCE_MAX]

    def _take(self, report: HoldingsReport, seen_ms: int) -> None:
        holdings = {one.instance_id: one for one in report.holdings}
        self._tellers[report.consumer] = _Teller(report.cluster_id, seen_ms, holdings)
        for one in report.holdings:
            known = self._specs.get(one.instance_id)
            if one.spec is not None and (known is None or known.revision <= one.spec.revision):
                self._specs[one.instance_id] = one.spec

    def reports(self, now_ms: int) -> list[tuple[HoldingsReport, int]]:
        """What was told here, with the specs that are known by now, and when; times are monotonic."""
        with self._turn:
            self._forget(now_ms)
            return [
                (msgspec.structs.replace(one.report, holdings=self._whole(one.report)), one.seen_ms)
                for one in self._tellers.values()
                if one.report is not None
            ]

    def _whole(self, report: HoldingsReport) -> tuple[Holding, ...]:
        return tuple(
            msgspec.structs.replace(one, spec=self._specs.get(one.instance_id)) for one in report.holdings
        )

    def hear(self, report: HoldingsReport, seen_ms: int) -> None:
        """Take what somebody told another control process, unless we were told later."""
        with self._turn:
            known = self._tellers.get(report.consumer)
            if known is None or known.seen_ms < seen_ms:
                self._take(report, seen_ms)

    def _forget(self, now_ms: int) -> None:
        for consumer in [name for name, one in self._tellers.items() if _is_silent(one, now_ms)]:
            del self._tellers[consumer]
        told = {instance_id for one in self._tellers.values() for instance_id in one.holdings}
        for instance_id in self._specs.keys() - told:
            del self._specs[instance_id]

    def found(self, now_ms: int) -> dict[str, Found]:
        """Everything that is held and not served; `now_ms` is monotonic."""
        with self._turn:
            self._forget(now_ms)
            told: dict[str, list[tuple[str, _Teller, Holding]]] = {}
            for consumer, teller in sorted(self._tellers.items()):
                for instance_id, holding in teller.holdings.items():
                    told.setdefault(instance_id, []).append((consumer, teller, holding))
            return {instance_id: self._merged(instance_id, each) for instance_id, each in told.items()}

    def _merged(self, instance_id: str, told: list[tuple[str, _Teller, Holding]]) -> Found:
        since = [one.absent_since_ms for _name, _teller, one in told if one.absent_since_ms is not None]
        clusters = [teller.cluster_id for _name, teller, _one in told if teller.cluster_id is not None]
        return Found(
            instance_id=instance_id,
            absent_since_ms=min(since, default=None),
            stored_bytes=sum(one.stored_bytes for _name, _teller, one in told),
            partitions=sum(one.partitions for _name, _teller, one in told),
            holders=tuple(name for name, _teller, _one in told),
            cluster_id=clusters[0] if clusters else None,
            spec=self._specs.get(instance_id),
        )

    def endpoints(self) -> Iterator[Endpoint]:
        """Where absent instances were reached: their clients may still call there."""
        with self._turn:
            specs = tuple(self._specs.values())
        for spec in specs:
            for listener in spec.listeners:
                yield Endpoint(listener.bind_host, listener.port)


def _is_silent(teller: _Teller, now_ms: int) -> bool:
    return now_ms - teller.seen_ms > _HEARD_FOR_MS
