"""Builds what the console shows (`contracts/quota_view.py`) from decisions."""

from collections.abc import Callable, Sequence

from contracts.quota import Direction
from contracts.quota_view import (
    BrokerQuota,
    CpuPoint,
    CpuQuota,
    DirectionQuota,
    History,
    PointFlow,
    QuotaView,
)
from master.quota.allocation import SharedOut, is_below_gate, reaches_gate
from master.quota.cpu_decision import CpuDecision
from master.quota.decision import InstanceDecision, side_of
from master.quota.demand import Demand
from master.quota.explain import explain, explain_cpu
from master.quota.flows import FlowEntry
from master.quota.history import Row

EpochOf = Callable[[str, str], int]
"""(point, instance id) -> the epoch of the lease granted last."""


def quota_view(
    decision: InstanceDecision,
    cpu: CpuQuota,
    *,
    at_ms: int,
    policy: str,
    period_ms: int,
    unblock_fraction: float,
    epoch_of: EpochOf,
    report_age_ms: Callable[[str], int],
    history: History,
) -> QuotaView:
    """Everything about one instance."""
    spec = decision.spec
    return QuotaView(
        instance_id=spec.instance_id,
        at_ms=at_ms,
        policy=policy,
        period_ms=period_ms,
        capacity_bytes=spec.capacity_bytes,
        stored_bytes=decision.stored_bytes,
        stored_left_bytes=max(0, decision.stored_left_bytes),
        unblock_below_bytes=int(spec.capacity_bytes * unblock_fraction),
        blocked=decision.blocked,
        produce=_direction(decision, Direction.PRODUCE),
        consume=_direction(decision, Direction.CONSUME),
        cpu=cpu,
        brokers=tuple(
            _broker(decision, index, epoch_of, report_age_ms) for index in range(len(decision.entries))
        ),
        history=history,
    )


def cpu_view(decision: CpuDecision, epoch_of: EpochOf, report_age_ms: Callable[[str], int]) -> CpuQuota:
    """Request time of one instance."""
    flows = [entry.flow for entry in decision.entries]
    points = []
    for index, entry in enumerate(decision.entries):
        share, rate = decision.shared.decision.shares[index], entry.flow.rate_per_s or 0
        below = decision.silent[index] or not reaches_gate(rate, share)
        points.append(
            CpuPoint(
                point=entry.point,
                node_id=entry.node_id,
                silent=decision.silent[index],
                on_lease=entry.on_lease,
                lease_epoch=epoch_of(entry.point, entry.instance_id),
                report_age_ms=report_age_ms(entry.point),
                flow=_flow(decision.shared, index, entry.flow, below_gate=below),
            )
        )
    idle = [0] if decision.idle_points else []
    return CpuQuota(
        request_percent=decision.spec.request_percent_applied,
        total=_total(
            decision.purchased, decision.shared, flows, decision.silent, explain_cpu(decision), idle
        ),
        points=tuple(points),
        idle_points=decision.idle_points,
        idle_share_per_s=decision.idle_share_us_per_s,
    )


def _direction(decision: InstanceDecision, direction: Direction) -> DirectionQuota:
    return _total(
        decision.purchased(direction),
        decision.shared_out(direction),
        [side_of(entry, direction) for entry in decision.entries],
        decision.silent,
        explain(decision, direction),
    )


def _total(
    purchased: int,
    shared: SharedOut,
    flows: Sequence[FlowEntry],
    silent: Sequence[bool],
    explanation: str,
    idle: Sequence[int] = (),
) -> DirectionQuota:
    """`idle`: r and P of points that use nothing and are not among `flows`."""
    active = [index for index, gone in enumerate(silent) if not gone]
    proportions = [*(shared.decision.proportions[index] for index in active), *idle]
    rates = [*(flows[index].rate_per_s or 0 for index in active), *idle]
    busiest = max(rates, default=0)
    return DirectionQuota(
        purchased_per_s=purchased,
        rate_per_s=sum(rates),
        allocated_per_s=sum(shared.decision.rates),
        rule=shared.decision.rule,
        explanation=explanation,
        reserved_per_s=shared.reserved,
        p_min_per_s=min(proportions, default=0),
        p_max_per_s=max(proportions, default=0),
        p_ratio=round(min(rates) / busiest, 4) if busiest else None,
        throttled_ms_per_s=max((flow.throttled_ms_per_s for flow in flows), default=0),
    )


def _broker(
    decision: InstanceDecision,
    index: int,
    epoch_of: EpochOf,
    report_age_ms: Callable[[str], int],
) -> BrokerQuota:
    entry = decision.entries[index]
    return BrokerQuota(
        point=entry.point,
        node_id=entry.node_id,
        partitions_led=entry.partitions_led,
        stored_bytes=entry.stored_bytes,
        silent=decision.silent[index],
        on_lease=entry.on_lease,
        blocked=entry.blocked,
        lease_epoch=epoch_of(entry.point, entry.instance_id),
        report_age_ms=report_age_ms(entry.point),
        refusals=dict(entry.refusals),
        produce=_broker_direction(decision, index, Direction.PRODUCE),
        consume=_broker_direction(decision, index, Direction.CONSUME),
    )


def _broker_direction(decision: InstanceDecision, index: int, direction: Direction) -> PointFlow:
    shared = decision.shared_out(direction)
    side = side_of(decision.entries[index], direction)
    active_total = sum(
        entry.partitions_led
        for entry, silent in zip(decision.entries, decision.silent, strict=True)
        if not silent
    )
    demand = Demand(decision.entries[index].partitions_led, side.rate_per_s or 0)
    below = decision.silent[index] or is_below_gate(
        decision.purchased(direction) - shared.reserved, demand, active_total
    )
    return _flow(shared, index, side, below_gate=below)


def _flow(shared: SharedOut, index: int, flow: FlowEntry, *, below_gate: bool) -> PointFlow:
    return PointFlow(
        rate_per_s=flow.rate_per_s or 0,
        share_per_s=shared.decision.shares[index],
        proportion_per_s=shared.decision.proportions[index],
        allocated_per_s=shared.decision.rates[index],
        applied_per_s=flow.counters.rate_per_s,
        throttled_ms_per_s=flow.throttled_ms_per_s,
        below_gate=below_gate,
        used_total=flow.counters.used,
        refused_total=flow.counters.refused,
    )


def history_row(decision: InstanceDecision, cpu: CpuDecision) -> Row:
    """One second of the history."""
    brokers = {
        entry.node_id: (
            *_columns(decision.produce, index, entry.produce),
            *_columns(decision.consume, index, entry.consume),
        )
        for index, entry in enumerate(decision.entries)
    }
    points = {entry.point: _columns(cpu.shared, index, entry.flow) for index, entry in enumerate(cpu.entries)}
    return Row(decision.stored_bytes, decision.blocked, brokers, points)


def _columns(shared: SharedOut, index: int, flow: FlowEntry) -> tuple[int, ...]:
    result = shared.decision
    return (
        flow.rate_per_s or 0,
        result.shares[index],
        result.proportions[index],
        result.rates[index],
        flow.throttled_ms_per_s,
    )
