"""What changes in `usage_raw` beside a batch's own rows: gaps that it opens, and gaps that it closes. Pure.

A gap between new records needs only rows to be added. A record that arrives late stands where others were
recovered: its gap is filled anew from all records of the boot id, and what differs is rewritten.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.metering.gaps import PAIR, fill, with_gaps
from pipeline.schema.usage import USAGE_RAW

_COLUMNS: Final = USAGE_RAW.fieldNames()
_AMOUNTS: Final = (
    *("interval_ms", "produce_bytes", "consume_bytes", "produce_bytes_total", "consume_bytes_total"),
    *("stored_bytes", "stored_byte_ms", "partitions_led", "produce_peak_bytes_per_s"),
    *("consume_peak_bytes_per_s",),
)
"""What a recovered row says; one that says the same stays as it is."""
_NOTHING: Final = (
    *("interval_ms", "produce_bytes", "consume_bytes", "stored_byte_ms", "partitions_led"),
    *("produce_peak_bytes_per_s", "consume_peak_bytes_per_s"),
)
"""What is zero in a recovered row that stands for nothing any more."""


class Settled(NamedTuple):
    """Rows that a batch brings beside its own."""

    added: DataFrame
    rewritten: DataFrame
    """With the ids of rows that the table has."""
    replaced: DataFrame
    """Ids of recovered rows whose record has arrived: they go. Column `id`."""


def of_pairs(rows: DataFrame, pairs: DataFrame) -> DataFrame:
    """The rows of some boot ids and instances."""
    return rows.join(F.broadcast(pairs), [*PAIR], "left_semi").select(*rows.columns)


def opened(new: DataFrame, known: DataFrame | None, *, ingest_batch: int, now_ms: int) -> DataFrame:
    """Rows for gaps right before new records, whose neighbours are all at hand; nothing else changes."""
    records = new.select(*_COLUMNS, F.lit(True).alias("is_new"))
    if known is not None:
        seen = known.where(~F.col("recovered")).select(*_COLUMNS, F.lit(False).alias("is_new"))
        records = records.unionByName(seen)
    gaps = with_gaps(records).where(F.col("is_new") & ~F.col("gap_is_first"))
    return fill(gaps, ingest_batch=ingest_batch, now_ms=now_ms)


def settled(new: DataFrame, known: DataFrame, *, ingest_batch: int, now_ms: int) -> Settled:
    """All gaps anew, of boot ids of which `known` has every row since they began."""
    records = new.select(*_COLUMNS).unionByName(known.where(~F.col("recovered")).select(*_COLUMNS))
    wanted = fill(with_gaps(records), ingest_batch=ingest_batch, now_ms=now_ms)
    before = known.where(F.col("recovered"))
    replaced = before.join(records.select("id"), "id", "left_semi").select("id")
    standing = before.join(replaced, "id", "left_anti").select(*_COLUMNS)
    added = wanted.join(standing.select("id"), "id", "left_anti").select(*_COLUMNS)
    changed = (
        wanted.alias("wanted")
        .join(standing.alias("standing"), F.col("wanted.id") == F.col("standing.id"))
        .where(_differs("wanted", "standing"))
        .select("wanted.*")
    )
    says = (F.col("interval_ms") > 0) | (F.col("produce_bytes") != 0) | (F.col("consume_bytes") != 0)
    gone = standing.join(wanted.select("id"), "id", "left_anti").where(says)
    empty = _emptied(ingest_batch, now_ms)
    emptied = gone.select(*(empty.get(name, F.col(name)).alias(name) for name in _COLUMNS))
    return Settled(added, changed.select(*_COLUMNS).unionByName(emptied), replaced)


def _differs(left: str, right: str) -> Column:
    differs = F.lit(False)
    for name in _AMOUNTS:
        differs = differs | (F.col(f"{left}.{name}") != F.col(f"{right}.{name}"))
    return differs


def _emptied(ingest_batch: int, now_ms: int) -> dict[str, Column]:
    return dict.fromkeys(_NOTHING, F.lit(0).cast("long")) | {
        "ingest_batch": F.lit(ingest_batch).cast("long"),
        "ingested_at_ms": F.lit(now_ms).cast("long"),
    }
