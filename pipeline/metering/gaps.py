"""Gaps between usage records of one boot id and instance, and the rows that fill them. Pure.

Totals only grow within a boot id, so what a missing record carried is the difference between the totals of
its neighbours. It is spread over the missing time in whole numbers: each missing interval gets a row with the
id that its record would have, and the rows' sum is what is missing, to the byte.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from contracts.usage_records import INTERVAL_MS_MAX
from pipeline.metering.records import OLD_MS, bytes_per_s_max
from pipeline.schema.usage_records import USAGE_RAW

PAIR: Final = ("boot_id", "instance_id")
"""Whose counters grow together, with the point that the boot id is of."""
FINE_MS: Final = 6 * 3600 * 1000
"""Longer gaps are filled on the coarsest grid: an outage of days must not make millions of rows."""
_DIRECTIONS: Final = ("produce", "consume")
_JUDGED_MS_MIN: Final = 60_000
"""The shortest time over which missing bytes are judged to be possible."""
_NUMBER_MAX: Final = 2**62
_NEEDS: Final = (
    *("interval_start_ms", "interval_ms", "produce_bytes", "consume_bytes", "produce_bytes_total"),
    *("consume_bytes_total", "stored_bytes", "partitions_led", "counted_since_ms"),
)


def with_gaps(records: DataFrame) -> DataFrame:
    """Records, each once and none recovered, with the gap before each; its columns are null where none is.

    Columns added: gap_from_ms, gap_ms, gap_produce_bytes, gap_consume_bytes (below zero: two masters counted
    the same), gap_stored_bytes, gap_partitions_led, gap_is_first (before the first record known) and
    gap_is_credible (missing bytes that no port carries were never carried).
    """
    order = Window.partitionBy(*PAIR).orderBy(
        "produce_bytes_total", "consume_bytes_total", "interval_start_ms", "interval_ms"
    )
    before = F.lag(F.struct(*_NEEDS)).over(order)
    known = records.withColumn("_before", before)
    since, start = F.col("counted_since_ms"), F.col("interval_start_ms")
    is_first = F.col("_before").isNull()
    # Before the first record the counters were zero when the boot id began; if that is not told, nobody can
    # say when its bytes were carried.
    begin = F.when(is_first, F.when(since > 0, since)).otherwise(
        F.col("_before.interval_start_ms") + F.col("_before.interval_ms")
    )
    begin = F.when(begin.isNotNull(), F.greatest(begin, start - OLD_MS))
    length = F.greatest(F.lit(0), start - begin)
    missing = {
        each: F.col(f"{each}_bytes_total")
        - F.col(f"{each}_bytes")
        - F.coalesce(f"_before.{each}_bytes_total", F.lit(0))
        for each in _DIRECTIONS
    }
    is_held = (F.col("_before.stored_bytes") > 0) | (F.col("_before.partitions_led") > 0)
    is_gap = begin.isNotNull() & (
        (missing["produce"] != 0)
        | (missing["consume"] != 0)
        | (F.coalesce(is_held, F.lit(False)) & (length > 0))
    )
    seconds = F.greatest(length, F.lit(_JUDGED_MS_MIN)) / F.lit(1000.0)
    credible = [missing[each] / seconds <= bytes_per_s_max(each) for each in _DIRECTIONS]
    return known.select(
        *records.columns,
        F.when(is_gap, begin).alias("gap_from_ms"),
        F.when(is_gap, length).alias("gap_ms"),
        *(F.when(is_gap, missing[each]).alias(f"gap_{each}_bytes") for each in _DIRECTIONS),
        F.when(is_gap, F.coalesce("_before.stored_bytes", F.lit(0))).alias("gap_stored_bytes"),
        F.when(is_gap, F.coalesce("_before.partitions_led", F.lit(0))).alias("gap_partitions_led"),
        F.when(is_gap, is_first).alias("gap_is_first"),
        F.when(is_gap, credible[0] & credible[1]).alias("gap_is_credible"),
    )


def fill(gaps: DataFrame, *, ingest_batch: int, now_ms: int) -> DataFrame:
    """Rows of `usage_raw` for what is missing before each record of `with_gaps`, where it can be true."""
    credible = gaps.where(F.col("gap_ms").isNotNull() & F.col("gap_is_credible"))
    placed = credible.withColumn("part", F.explode(_parts()))
    for each in _DIRECTIONS:
        placed = placed.withColumn(f"until_{each}", _until(each)).withColumn(f"share_{each}", _share(each))
    filled = _filled() | {
        "ingest_batch": F.lit(ingest_batch).cast("long"),
        "ingested_at_ms": F.lit(now_ms).cast("long"),
    }
    return placed.select(*(filled.get(name, F.col(name)).alias(name) for name in USAGE_RAW.fieldNames()))


def _parts() -> Column:
    """The intervals on the grid that a gap covers; a single one of no length where bytes have no time.

    Bytes to be taken back have none either: they are of the record that follows.
    """
    grid = F.when(F.col("gap_ms") > FINE_MS, F.lit(INTERVAL_MS_MAX)).otherwise(F.col("grid_ms"))
    begin, end = F.col("gap_from_ms"), F.col("interval_start_ms")

    def part(index: Column) -> Column:
        start = F.greatest(begin, index * grid)
        return F.struct(
            start.alias("start_ms"), (F.least(end, (index + 1) * grid) - start).alias("length_ms")
        )

    nothing = F.array(F.struct(end.alias("start_ms"), F.lit(0).cast("long").alias("length_ms")))
    has_no_time = (F.col("gap_ms") <= 0) | (F.col("gap_produce_bytes") < 0) | (F.col("gap_consume_bytes") < 0)
    indexes = F.sequence(_div(begin, grid), _div(end - 1, grid))
    return F.when(has_no_time, nothing).otherwise(F.transform(indexes, part))


def _until(direction: str) -> Column:
    """What was missing from the gap's beginning to this part's end, by even growth, rounded down."""
    until = F.col("part.start_ms") + F.col("part.length_ms") - F.col("gap_from_ms")
    return _part_of(F.col(f"gap_{direction}_bytes"), until)


def _share(direction: str) -> Column:
    """What of the missing bytes is this part's: shares add up, as they are differences of rounded sums."""
    whole, until = F.col(f"gap_{direction}_bytes"), F.col(f"until_{direction}")
    before = _part_of(whole, F.col("part.start_ms") - F.col("gap_from_ms"))
    return F.when(F.col("part.length_ms") == 0, whole).otherwise(until - before)


def _part_of(whole: Column, part_ms: Column) -> Column:
    product = whole.cast("decimal(19,0)") * part_ms.cast("decimal(18,0)")
    return F.when(F.col("gap_ms") > 0, _div(product, F.col("gap_ms").cast("decimal(18,0)"))).otherwise(whole)


def _div(value: Column, by: Column) -> Column:
    """In whole numbers; none here is below zero."""
    return F.call_function("div", value, by).cast("long")


def _filled() -> dict[str, Column]:
    """What a recovered row does not share with the record after the gap."""
    part = F.col("part")
    length = part["length_ms"]
    has_time = length > 0
    start = F.timestamp_millis(part["start_ms"])
    name = F.concat_ws("/", *PAIR, part["start_ms"].cast("string"))
    zero = F.lit(0).cast("long")
    filled = {
        "id": F.when(has_time, name).otherwise(F.concat(name, F.lit("/overlap"))),
        "interval_start_ms": part["start_ms"],
        "interval_ms": length,
        "stored_bytes": F.col("gap_stored_bytes"),
        "stored_byte_ms": F.coalesce(
            F.try_multiply(F.col("gap_stored_bytes"), length), F.lit(_NUMBER_MAX).cast("long")
        ),
        "partitions_led": F.col("gap_partitions_led"),
        "interval_start": start,
        "recovered": F.lit(True),
        "day": start.cast("date"),
    }
    for each in _DIRECTIONS:
        base = F.col(f"{each}_bytes_total") - F.col(f"{each}_bytes") - F.col(f"gap_{each}_bytes")
        mean = F.greatest(zero, F.col(f"share_{each}")).cast("double") * 1000 / F.greatest(length, F.lit(1))
        filled |= {
            f"{each}_bytes": F.col(f"share_{each}"),
            f"{each}_bytes_total": F.when(has_time, base + F.col(f"until_{each}")).otherwise(
                F.col(f"{each}_bytes_total") - F.col(f"{each}_bytes")
            ),
            f"{each}_peak_bytes_per_s": F.when(has_time, mean.cast("long")).otherwise(zero),
        }
    not_known = ("produce_requests", "consume_requests", "produce_throttled_ms", "consume_throttled_ms")
    return filled | dict.fromkeys((*not_known, "refused", "blocked_ms"), zero)
