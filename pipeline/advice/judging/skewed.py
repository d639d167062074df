"""Which instances' partitions should move, and the rows and the sentence that say so. Pure."""

import datetime
from collections.abc import Sequence
from typing import Final, NamedTuple

from contracts.advice import MoveRow, SkewRow
from pipeline.advice.judging.judgement import Bought, duration
from pipeline.advice.judging.moves import MOVE_BELOW, Led, Plan, plan_moves

_AT_THE_LIMIT: Final = 0.9


class Placement(NamedTuple):
    """Where one instance's partitions are, and which brokers could have them."""

    partitions: Sequence[Led]
    brokers: Sequence[int]


class Moves(NamedTuple):
    """Moves of one instance."""

    rows: tuple[MoveRow, ...] = ()
    reason: str = ""


def is_skewed(usable_share: float | None, throttled_ms: int) -> bool:
    """Whether one broker is so hot that clients were held back there."""
    return usable_share is not None and usable_share < MOVE_BELOW and throttled_ms > 0


def advise_moves(
    rows: Sequence[SkewRow], bought: Bought, placement: Placement | None, run_date: datetime.date
) -> Moves:
    """What to move of an instance, of its two rows of skew; None: nobody could say where partitions are."""
    hot = [row for row in rows if is_skewed(row.usable_share, row.throttled_total_ms)]
    if not hot:
        return Moves()
    told = " and ".join(_hot_reason(row, bought) for row in hot)
    if placement is None:
        return Moves(reason=f"{told}; where its partitions are could not be asked, so no moves are advised")
    loads: dict[int, float] = {}
    for row in hot:
        total = sum(point.bytes for point in row.points)
        for point in row.points:
            loads[point.node_id] = loads.get(point.node_id, 0.0) + point.bytes / total
    plan = plan_moves(placement.partitions, placement.brokers, loads)
    if plan is None:
        return Moves(reason=f"{told}; the busy brokers lead none of its partitions any more")
    return Moves(_rows(plan, bought.instance_id, run_date), f"{told}; {_plan_reason(plan)}")


def _rows(plan: Plan, instance_id: str, run_date: datetime.date) -> tuple[MoveRow, ...]:
    return tuple(
        MoveRow(
            run_date=run_date,
            instance_id=instance_id,
            topic=move.led.topic,
            partition=move.led.partition,
            from_node_id=move.led.leader,
            to_node_id=move.to,
            replicas=list(move.replicas),
            is_leadership_only=move.is_leadership_only,
            moved_bytes=move.copied_bytes,
            load_share=move.load_share,
            usable_share_before=plan.usable_share_before,
            usable_share_after=move.usable_share_after,
            step=step,
        )
        for step, move in enumerate(plan.moves, 1)
    )


def _hot_reason(row: SkewRow, bought: Bought) -> str:
    hottest = max(row.points, key=lambda point: point.bytes)
    part = hottest.bytes / sum(point.bytes for point in row.points)
    text = (
        f"broker {hottest.node_id} carries {part:.0%} of its {row.direction} traffic (usable share "
        f"{row.usable_share:.2f}) and clients were held back for {duration(row.throttled_total_ms)} in the "
        "last 24 h"
    )
    limit = bought.produce_rate_bytes_per_s if row.direction == "produce" else bought.consume_rate_bytes_per_s
    if max(row.rate_bytes_per_s, default=0) >= _AT_THE_LIMIT * limit:
        text += ", while all of the rate it bought was used: a larger one helps first"
    return text


def _plan_reason(plan: Plan) -> str:
    heaviest = f"{plan.heaviest.topic}-{plan.heaviest.partition}"
    alone = (
        f"{heaviest} alone carries {plan.heaviest_share:.0%}: spread its keys or give the topic more "
        "partitions"
    )
    if not plan.moves:
        return f"no move makes it more even, {alone}"
    count = f"{len(plan.moves)} moves" if len(plan.moves) > 1 else "1 move"
    text = (
        f"{count} raise the usable share from {plan.usable_share_before:.2f} to "
        f"{plan.usable_share_after:.2f} (what partitions carry is estimated from {plan.basis})"
    )
    return text if plan.usable_share_after >= MOVE_BELOW else f"{text}; {alone}"
