"""Gaps between usage records of one boot id and instance, and the rows that fill them: DuckDB's SQL, pure.

Totals only grow within a boot id, so what a missing record carried is the difference between the totals of
its neighbours. It is spread over the missing time in whole numbers: each missing interval gets a row with the
id that its record would have, and the rows' sum is what is missing, to the byte.
"""

from typing import Final

from contracts.usage_records import COUNT_MAX, INTERVAL_MS_MAX
from pipeline.metering.records import OLD_MS, bytes_per_s_max
from pipeline.schema.usage_records import USAGE_RAW

PAIR: Final = "boot_id, instance_id"
"""Whose counters grow together, with the point that the boot id is of."""
FINE_MS: Final = 6 * 3600 * 1000
"""Longer gaps are filled on the coarsest grid: an outage of days must not make millions of rows."""
_DIRECTIONS: Final = ("produce", "consume")
_JUDGED_MS_MIN: Final = 60_000
"""The shortest time over which missing bytes are judged to be possible."""
_LONG_MAX: Final = 2**63 - 1
_NOT_KNOWN: Final = (
    *("produce_requests", "consume_requests", "produce_throttled_ms", "consume_throttled_ms"),
    *("refused", "blocked_ms"),
)


def with_gaps(records: str) -> str:
    """Records, each once and none recovered, that have a gap before them, with what is missing in it.

    Columns added: gap_from_ms, gap_ms, gap_produce_bytes, gap_consume_bytes (below zero: two masters counted
    the same), gap_stored_bytes, gap_partitions_led, gap_is_first (before the first record known) and
    gap_is_credible (missing bytes that no port carries were never carried).

    Before the first record the counters were zero when the boot id began; if that is not told, nobody can say
    when its bytes were carried.
    """
    missing = ", ".join(
        f"{each}_bytes_total - {each}_bytes - coalesce(before.{each}_total, 0) as gap_{each}_bytes"
        for each in _DIRECTIONS
    )
    credible = " and ".join(
        f"gap_{each}_bytes / (greatest(gap_ms, {_JUDGED_MS_MIN}) / 1000.0::double) <= {bytes_per_s_max(each)}"
        for each in _DIRECTIONS
    )
    return f"""
        with placed as (
            select *, lag(struct_pack(
                end_ms := interval_start_ms + interval_ms, produce_total := produce_bytes_total,
                consume_total := consume_bytes_total, stored_bytes := stored_bytes,
                partitions_led := partitions_led
            )) over (
                partition by {PAIR}
                order by produce_bytes_total, consume_bytes_total, interval_start_ms, interval_ms
            ) as before
            from {records}
        ), begun as (
            select *, {missing}, before is null as gap_is_first,
                coalesce(before.stored_bytes, 0) as gap_stored_bytes,
                coalesce(before.partitions_led, 0) as gap_partitions_led,
                greatest(interval_start_ms - {OLD_MS},
                    case when before is not null then before.end_ms
                        when counted_since_ms > 0 then counted_since_ms end) as gap_from_ms
            from placed where before is not null or counted_since_ms > 0
        ), measured as (
            select * exclude (before), greatest(0, interval_start_ms - gap_from_ms) as gap_ms from begun
        )
        select *, {credible} as gap_is_credible from measured
        where gap_produce_bytes <> 0 or gap_consume_bytes <> 0
            or ((gap_stored_bytes > 0 or gap_partitions_led > 0) and gap_ms > 0)"""


def fill(gaps: str, *, ingest_batch: int, now_ms: int) -> str:
    """Rows of `usage_raw` for what is missing before each record of `with_gaps`, where it can be true.

    A gap is cut on the grid. Where bytes have no time it is a single row of no length; bytes to be taken back
    have none either: they are of the record that follows. Shares add up, as they are differences of sums that
    grow evenly and are rounded down.
    """
    grid = f"case when gap_ms > {FINE_MS} then {INTERVAL_MS_MAX} else grid_ms end"
    until = ", ".join(
        f"{_part_of(each, 'start_ms + length_ms - gap_from_ms')} as until_{each}" for each in _DIRECTIONS
    )
    shares = ", ".join(
        f"case when length_ms = 0 then gap_{each}_bytes "
        f"else until_{each} - {_part_of(each, 'start_ms - gap_from_ms')} end as share_{each}"
        for each in _DIRECTIONS
    )
    filled = _filled() | {
        "ingest_batch": f"{ingest_batch}::bigint",
        "ingested_at_ms": f"{now_ms}::bigint",
    }
    return f"""
        with cut as (
            select *, unnest(
                case when gap_ms <= 0 or gap_produce_bytes < 0 or gap_consume_bytes < 0 then [null]
                else range(gap_from_ms // grid, (interval_start_ms - 1) // grid + 1) end
            ) as part
            from (select *, {grid} as grid from {gaps} where gap_is_credible)
        ), begun as (
            select *, case when part is null then interval_start_ms
                else greatest(gap_from_ms, part * grid) end as start_ms
            from cut
        ), placed as (
            select *, case when part is null then 0
                else least(interval_start_ms, (part + 1) * grid) - start_ms end as length_ms
            from begun
        ), summed as (select *, {until} from placed),
        shared as (select *, {shares} from summed)
        select {", ".join(f"{filled.get(name, name)} as {name}" for name in USAGE_RAW.names)} from shared"""


def _part_of(direction: str, part_ms: str) -> str:
    """What was missing up to so long after the gap's beginning."""
    whole = f"gap_{direction}_bytes"
    return f"case when gap_ms > 0 then ({whole}::hugeint * ({part_ms}) // gap_ms)::bigint else {whole} end"


def _filled() -> dict[str, str]:
    """What a recovered row does not share with the record after the gap."""
    stored = "gap_stored_bytes::hugeint * length_ms"
    filled = {
        "id": "concat_ws('/', boot_id, instance_id, start_ms) || if(length_ms > 0, '', '/overlap')",
        "interval_start_ms": "start_ms",
        "interval_ms": "length_ms",
        "stored_bytes": "gap_stored_bytes",
        "stored_byte_ms": f"case when {stored} > {_LONG_MAX} then {COUNT_MAX} else ({stored})::bigint end",
        "partitions_led": "gap_partitions_led",
        "interval_start": "make_timestamp_ms(start_ms)",
        "recovered": "true",
        "day": "make_timestamp_ms(start_ms)::date",
    }
    for each in _DIRECTIONS:
        base = f"{each}_bytes_total - {each}_bytes"
        mean = f"greatest(0, share_{each})::double * 1000 / greatest(length_ms, 1)"
        filled |= {
            f"{each}_bytes": f"share_{each}",
            f"{each}_bytes_total": f"case when length_ms > 0 then {base} - gap_{each}_bytes + until_{each} "
            f"else {base} end",
            f"{each}_peak_bytes_per_s": f"case when length_ms > 0 then floor({mean})::bigint else 0 end",
        }
    return filled | dict.fromkeys(_NOT_KNOWN, "0")
