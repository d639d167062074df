"""New usage records, each once, and whether what came before and after them fits: DuckDB's SQL, pure.

One sort by boot id and instance serves both questions.
"""

from typing import Final

from pipeline.metering.records import PLACE

KNOWN_COLUMNS: Final = (
    *("boot_id", "instance_id", "interval_start_ms", "interval_ms", "produce_bytes", "consume_bytes"),
    *("produce_bytes_total", "consume_bytes_total", "stored_bytes", "partitions_led", "recovered"),
    "counted_since_ms",
)
"""What is compared: these columns of rows that are in the table, too."""
_BEGINNINGS: Final = {
    "produce_begin": "produce_bytes_total - produce_bytes",
    "consume_begin": "consume_bytes_total - consume_bytes",
}
_NEIGHBOUR: Final = _BEGINNINGS | {
    "start_ms": "interval_start_ms",
    "end_ms": "interval_start_ms + interval_ms",
    "produce_end": "produce_bytes_total",
    "consume_end": "consume_bytes_total",
    "is_held": "stored_bytes > 0 or partitions_led > 0",
    "recovered": "recovered",
    "is_new": "is_new",
}


def compared(new: str, known: str) -> str:
    """Of new records place, pair and times, with `is_duplicate`, `has_gap` and `is_unsettled`.

    `known` has rows of the table around the same time. Of records with one id the one that is known stays,
    else the longest, else the one with the larger totals, else the first in Kafka.

    `has_gap`: the record before has another end or other totals than this one's beginning. `is_unsettled`:
    rows of the table may change for this record: it stands where others were recovered, or before a known
    one, or no record before it is at hand.
    """
    columns = ", ".join(KNOWN_COLUMNS)
    neighbour = ", ".join(f"{name} := {value}" for name, value in _NEIGHBOUR.items())
    beginnings = ", ".join(f"{value} as {name}" for name, value in _BEGINNINGS.items())
    return f"""
        with both_kinds as (
            select {columns}, true as is_new, {PLACE} from {new}
            union all by name select {columns}, false as is_new from {known}
        ), placed as (
            select *, {beginnings},
                lag(struct_pack({neighbour})) over in_order as before,
                lead(struct_pack({neighbour})) over in_order as after
            from both_kinds
            window in_order as (
                partition by boot_id, instance_id
                order by interval_start_ms, recovered, is_new, interval_ms desc, produce_bytes_total desc,
                    consume_bytes_total desc, {PLACE}
            )
        ), told as (
            select *,
                coalesce(before.start_ms = interval_start_ms and not before.recovered, false) as is_duplicate
            from placed where is_new
        )
        select boot_id, instance_id, interval_start_ms, counted_since_ms, {PLACE}, is_duplicate,
            not is_duplicate and ({_HAS_GAP}) as has_gap,
            not is_duplicate and ({_IS_UNSETTLED}) as is_unsettled
        from told"""


_HAS_GAP: Final = """coalesce(
    produce_begin <> before.produce_end or consume_begin <> before.consume_end
    or (before.is_held and interval_start_ms > before.end_ms), false)"""

_IS_UNSETTLED: Final = """
    (before is null and (produce_begin > 0 or consume_begin > 0))
    or coalesce(before.recovered and before.end_ms > interval_start_ms, false)
    or coalesce(after.recovered and after.start_ms < interval_start_ms + interval_ms, false)
    or coalesce(not after.is_new and (
        after.produce_begin <> produce_bytes_total or after.consume_begin <> consume_bytes_total), false)"""
