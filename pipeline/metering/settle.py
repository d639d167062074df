"""What changes in `usage_raw` beside a batch's own rows: gaps that it opens, and gaps that it closes. Pure.

A gap between new records needs only rows to be added. A record that arrives late stands where others were
recovered: its gap is filled anew from all records of the boot id, and what differs is rewritten.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.metering.gaps import PAIR, fill, with_gaps
from pipeline.schema.usage_records import USAGE_RAW

ADDED: Final = "added"
REWRITTEN: Final = "rewritten"
"""The table has a row of this id, and this one takes its place."""
REPLACED: Final = "replaced"
"""A recovered row of the table whose record has arrived: it goes."""
_COLUMNS: Final = USAGE_RAW.fieldNames()
_SAID: Final = (
    *("interval_ms", "produce_bytes", "consume_bytes", "produce_bytes_total", "consume_bytes_total"),
    *("stored_bytes", "stored_byte_ms", "partitions_led"),
)
"""What a recovered row says; one that says the same stays as it is."""
_NOTHING: Final = (
    *("interval_ms", "produce_bytes", "consume_bytes", "stored_byte_ms", "partitions_led"),
    *("produce_peak_bytes_per_s", "consume_peak_bytes_per_s"),
)
"""What is zero in a recovered row that stands for nothing any more."""


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


def changes(new: DataFrame, known: DataFrame, *, ingest_batch: int, now_ms: int) -> DataFrame:
    """Recovered rows and, in `change`, what becomes of them: added, rewritten or replaced.

    `known` has every row of the boot ids and instances since they began, `new` the records that come.
    """
    records = new.select(*_COLUMNS).unionByName(known.where(~F.col("recovered")).select(*_COLUMNS))
    wanted = fill(with_gaps(records), ingest_batch=ingest_batch, now_ms=now_ms)
    arrived = records.select("id", F.lit(True).alias("has_arrived"))
    standing = known.where(F.col("recovered")).select(*_COLUMNS).join(arrived, "id", "left")
    joined = wanted.alias("wanted").join(
        standing.alias("standing"), F.col("wanted.id") == F.col("standing.id"), "full"
    )
    change = _change()
    empty = dict.fromkeys(_NOTHING, F.lit(0).cast("long")) | {
        "ingest_batch": F.lit(ingest_batch).cast("long"),
        "ingested_at_ms": F.lit(now_ms).cast("long"),
    }
    is_wanted, is_gone = F.col("wanted.id").isNotNull(), change == REWRITTEN
    values = (
        F.when(is_wanted, F.col(f"wanted.{name}"))
        .when(is_gone, empty.get(name, F.col(f"standing.{name}")))
        .otherwise(F.col(f"standing.{name}"))
        .alias(name)
        for name in _COLUMNS
    )
    return joined.select(*values, change.alias("change")).where(F.col("change").isNotNull())


def _change() -> Column:
    says = reduce(
        Column.__or__,
        (F.col(f"standing.{name}") != 0 for name in ("interval_ms", "produce_bytes", "consume_bytes")),
    )
    differs = reduce(Column.__or__, (F.col(f"wanted.{name}") != F.col(f"standing.{name}") for name in _SAID))
    return (
        F.when(F.col("standing.id").isNull(), ADDED)
        .when(F.col("standing.has_arrived"), REPLACED)
        .when(F.col("wanted.id").isNull(), F.when(says, REWRITTEN))
        .when(differs, REWRITTEN)
    )
