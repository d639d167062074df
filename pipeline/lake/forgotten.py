"""Which offsets of a topic were forgotten: noted before their rows go, so that nobody takes them for lost.

The brokers may have the records still. Audits do not miss them and backfills do not bring them again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow.compute as pc
from deltalake import DeltaTable

from contracts.lake import LakeForgottenRow, OffsetRange
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.own_rows import append_rows
from pipeline.lake.planning.offset_sets import Ranges, joined
from pipeline.layout import PipelineLayout
from pipeline.schema.lake_audit import LAKE_FORGOTTEN
from pipeline.table_rows import read_rows

FORGOTTEN: Final = "lake_forgotten"
JOB: Final = "forget"


def note_offsets(
    layout: PipelineLayout,
    lake: LakeTable,
    run: str,
    ranges: Mapping[int, Sequence[tuple[int, int]]],
    now_ms: int,
) -> None:
    """Before the rows go: a run that is killed in between leaves rows that an audit counts, and no hole."""
    rows = [
        LakeForgottenRow(
            run=run,
            named_at_ms=now_ms,
            instance_id=lake.instance_id,
            topic=lake.topic,
            topic_id=lake.topic_id,
            partition=partition,
            ranges=[OffsetRange(start, end) for start, end in found],
        )
        for partition, found in sorted(ranges.items())
    ]
    append_rows(layout, FORGOTTEN, LAKE_FORGOTTEN, "Offsets that were forgotten", rows, JOB)


def forgotten_offsets(layout: PipelineLayout, topic_id: str) -> dict[int, Ranges]:
    """By partition."""
    path = layout.about_lake(FORGOTTEN)
    if not DeltaTable.is_deltatable(str(path)):
        return {}
    # Chosen here: files whose log has no bounds of a text are passed over where deltalake filters by it.
    rows = read_rows(DeltaTable(str(path)), ["topic_id", "partition", "ranges"])
    found: dict[int, Ranges] = {}
    for row in rows.filter(pc.equal(rows.column("topic_id"), topic_id)).to_pylist():
        found.setdefault(row["partition"], []).extend((each["start"], each["end"]) for each in row["ranges"])
    return {partition: joined(ranges) for partition, ranges in found.items()}
