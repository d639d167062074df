"""Builds what the console shows (`contracts/quota_view.py`) from decisions."""

from collections.abc import Callable

from contracts.quota import BYTE_DIRECTIONS, Direction
from contracts.quota_view import BrokerDirection, BrokerQuota, DirectionQuota, History, QuotaView
from master.allocation import is_below_gate
from master.decision import InstanceDecision, side_of
from master.demand import Demand
from master.explain import explain
from master.history import Row


def quota_view(
    decision: InstanceDecision,
    *,
    at_ms: int,
    policy: str,
    period_ms: int,
    unblock_fraction: float,
    epoch_of: Callable[[str, str], int],
    report_age_ms: Callable[[str], int],
    history: History,
) -> QuotaView:
    """Everything about one instance. `epoch_of` (point, instance id) is the lease granted last."""
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
        brokers=tuple(
            _broker(decision, index, epoch_of, report_age_ms) for index in range(len(decision.entries))
        ),
        history=history,
    )


def _direction(decision: InstanceDecision, direction: Direction) -> DirectionQuota:
    shared = decision.shared_out(direction)
    sides = [side_of(entry, direction) for entry in decision.entries]
    active = [
        proportion
        for proportion, silent in zip(shared.decision.proportions, decision.silent, strict=True)
        if not silent
    ]
    rates = [
        side.rate_bytes_per_s or 0 for side, silent in zip(sides, decision.silent, strict=True) if not silent
    ]
    busiest = max(rates, default=0)
    return DirectionQuota(
        purchased_bytes_per_s=decision.purchased(direction),
        rate_bytes_per_s=sum(rates),
        allocated_bytes_per_s=sum(shared.decision.rates),
        rule=shared.decision.rule,
        explanation=explain(decision, direction),
        reserved_bytes_per_s=shared.reserved,
        p_min_bytes_per_s=min(active, default=0),
        p_max_bytes_per_s=max(active, default=0),
        p_ratio=round(min(rates) / busiest, 4) if busiest else None,
        throttled_ms_per_s=max((side.throttled_ms_per_s for side in sides), default=0),
    )


def _broker(
    decision: InstanceDecision,
    index: int,
    epoch_of: Callable[[str, str], int],
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
        produce=_broker_direction(decision, index, Direction.PRODUCE),
        consume=_broker_direction(decision, index, Direction.CONSUME),
    )


def _broker_direction(decision: InstanceDecision, index: int, direction: Direction) -> BrokerDirection:
    shared = decision.shared_out(direction)
    side = side_of(decision.entries[index], direction)
    active_total = sum(
        entry.partitions_led
        for entry, silent in zip(decision.entries, decision.silent, strict=True)
        if not silent
    )
    rate = side.rate_bytes_per_s or 0
    demand = Demand(decision.entries[index].partitions_led, rate)
    below = decision.silent[index] or is_below_gate(
        decision.purchased(direction) - shared.reserved, demand, active_total
    )
    return BrokerDirection(
        rate_bytes_per_s=rate,
        share_bytes_per_s=shared.decision.shares[index],
        proportion_bytes_per_s=shared.decision.proportions[index],
        allocated_bytes_per_s=shared.decision.rates[index],
        applied_bytes_per_s=side.counters.rate_per_s,
        throttled_ms_per_s=side.throttled_ms_per_s,
        below_gate=below,
        bytes_total=side.counters.used,
        refused_total=side.counters.refused,
    )


def history_row(decision: InstanceDecision) -> Row:
    """One second of the history."""
    brokers: dict[int, tuple[int, ...]] = {}
    for index, entry in enumerate(decision.entries):
        columns: list[int] = []
        for direction in BYTE_DIRECTIONS:
            result = decision.shared_out(direction).decision
            side = side_of(entry, direction)
            columns += (
                side.rate_bytes_per_s or 0,
                result.shares[index],
                result.proportions[index],
                result.rates[index],
                side.throttled_ms_per_s,
            )
        brokers[entry.node_id] = tuple(columns)
    return Row(decision.stored_bytes, decision.blocked, brokers)
