"""A short line of an instance, of what was decided last. Pure."""

from typing import Final

from contracts.fleet import FleetRow
from contracts.quota import Direction
from master.quota.cpu_decision import CpuDecision
from master.quota.decision import InstanceDecision

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
