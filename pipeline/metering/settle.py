"""What changes in `usage_raw` beside a batch's own rows: gaps that it opens, and gaps that it closes.

DuckDB's SQL, pure. A gap between new records needs only rows to be added. A record that arrives late stands
where others were recovered: its gap is filled anew from all records of the boot id, and what differs is
rewritten.
"""

from typing import Final

from pipeline.metering.gaps import fill, with_gaps
from pipeline.schema.usage_records import USAGE_RAW

ADDED: Final = "added"
REWRITTEN: Final = "rewritten"
"""The table has a row of this id, and this one takes its place."""
REPLACED: Final = "replaced"
"""A recovered row of the table whose record has arrived: it goes."""
COLUMNS: Final = ", ".join(USAGE_RAW.names)
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


def opened(new: str, known: str, *, ingest_batch: int, now_ms: int) -> str:
    """Rows for gaps right before new records, whose neighbours are all at hand; nothing else changes."""
    records = f"""(select {COLUMNS}, true as is_new from {new}
        union all select {COLUMNS}, false from {known} where not recovered)"""
    gaps = f"(select * from ({with_gaps(records)}) where is_new and not gap_is_first)"
    return fill(gaps, ingest_batch=ingest_batch, now_ms=now_ms)


def changes(new: str, known: str, *, ingest_batch: int, now_ms: int, removed_before_ms: int = 0) -> str:
    """Recovered rows and, in `change`, what becomes of them: added, rewritten or replaced.

    `known` has every row of the boot ids and instances since they began, `new` the records that come. Before
    the first record of a counter that began when rows are gone nothing is missing: it was settled.
    """
    empty = dict.fromkeys(_NOTHING, "0") | {
        "ingest_batch": f"{ingest_batch}::bigint",
        "ingested_at_ms": f"{now_ms}::bigint",
    }
    values = (
        f"""case when wanted.id is not null then wanted.{name}
            when change = '{REWRITTEN}' then {empty.get(name, f"standing.{name}")}
            else standing.{name} end as {name}"""
        for name in USAGE_RAW.names
    )
    says = " or ".join(f"standing.{name} <> 0" for name in ("interval_ms", "produce_bytes", "consume_bytes"))
    differs = " or ".join(f"wanted.{name} <> standing.{name}" for name in _SAID)
    gaps = f"""(select * from ({with_gaps("records")})
        where not gap_is_first or counted_since_ms >= {removed_before_ms})"""
    return f"""
        with records as (
            select {COLUMNS} from {new} union all select {COLUMNS} from {known} where not recovered
        ), wanted as ({fill(gaps, ingest_batch=ingest_batch, now_ms=now_ms)}),
        standing as (
            select {COLUMNS}, id in (select id from records) as has_arrived from {known} where recovered
        ), joined as (
            select wanted, standing, case
                when standing.id is null then '{ADDED}'
                when standing.has_arrived then '{REPLACED}'
                when wanted.id is null then case when {says} then '{REWRITTEN}' end
                when {differs} then '{REWRITTEN}' end as change
            from wanted full join standing on wanted.id = standing.id
        )
        select {", ".join(values)}, change from joined where change is not null"""
