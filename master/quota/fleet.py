"""A short line of an instance, of what was decided last. Pure."""

from collections.abc import Iterable
from typing import Final

from contracts.fleet import FleetBroker, FleetRow
from contracts.quota import Direction
from master.quota.cpu_decision import CpuDecision
from master.quota.decision import InstanceDecision
from master.quota.ledger import Point

_SKEW_RATE_MIN: Final = 10_000
"""Bytes/s below which traffic is too little to be called uneven."""


def fleet_row(decision: InstanceDecision, cpu: CpuDecision) -> FleetRow:
    """What silent brokers told last does not flow now."""
    live = [entry for entry, silent in zip(decision.entries, decision.silent, strict=True) if not silent]
    produce = sum(entry.produce.rate_per_s or 0 for entry in live)
    consume = sum(entry.consume.rate_per_s or 0 for entry in live)
    throttled = [entry.flow.throttled_ms_per_s for entry in cpu.entries]
    for entry in decision.entries:
        throttled += (entry.produce.throttled_ms_per_s, entry.consume.throttled_ms_per_s)
    carried = [(entry.produce.rate_per_s or 0) + (entry.consume.rate_per_s or 0) for entry in live]
    total = produce + consume
    skew = 0
    if len(carried) > 1 and total >= _SKEW_RATE_MIN:
        skew = round(100 * (max(carried) * len(carried) / total - 1))
    return FleetRow(
        decision.spec.instance_id,
        produce,
        consume,
        decision.purchased(Direction.PRODUCE),
        decision.purchased(Direction.CONSUME),
        max(throttled, default=0),
        decision.stored_bytes,
        decision.spec.capacity_bytes,
        decision.blocked,
        skew,
        sum(decision.silent),
    )


def fleet_brokers(points: Iterable[Point], now_ms: int, silent_ms: int) -> tuple[FleetBroker, ...]:
    """What each broker does for all instances together; `now_ms` as the ledger has it."""
    found = []
    for point in points:
        age_ms = max(0, now_ms - point.received_at_ms)
        entries = point.entries.values()
        found.append(
            FleetBroker(
                cluster_id=point.cluster_id,
                node_id=point.node_id,
                report_age_ms=age_ms,
                silent=age_ms >= silent_ms,
                produce_per_s=sum(entry.produce.rate_per_s or 0 for entry in entries),
                consume_per_s=sum(entry.consume.rate_per_s or 0 for entry in entries),
                stored_bytes=sum(entry.stored_bytes for entry in entries),
                partitions_led=sum(entry.partitions_led for entry in entries),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.cluster_id, one.node_id)))
