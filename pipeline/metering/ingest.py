"""J6: topic `usage` to `usage_raw`, each record once, and what cannot be true to `usage_quarantine`.

A batch is a range of offsets that one commit of `usage_raw` names beside its rows (docs/adr/0013). What is
quarantined is committed just before; positions in that table's own log keep it from being told twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from contracts.usage_records import USAGE_QUARANTINE, USAGE_RAW, USAGE_TOPIC
from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.consume import consume
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.ingest.ranges import Bounds, PartitionRange, Plan, beginnings, plan_topic, total_offsets
from pipeline.ingest.staging import staging_area
from pipeline.layout import PipelineLayout
from pipeline.metering.batch import Batch, IngestFigures, StagedBatch
from pipeline.metering.engine import engine
from pipeline.metering.versioned_tables import REMOVED_APP
from pipeline.progress import Progress, Silent
from pipeline.schema import usage_records as schema

JOB: Final = "meter"
JOB_VERSION: Final = "1"
MESSAGES_PER_BATCH_MAX: Final = 400_000
_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of messages: some 300,000 records, which take a few hundred MB here and as much of DuckDB's memory."""
_HEARD: Final = "heard_until_ms"
_LEASE_WAIT_S: Final = 5.0


class UsageIngest:
    """The two tables, held by this process."""

    def __init__(self, layout: PipelineLayout, topic: Topic) -> None:
        self._layout = layout
        self._topic = topic
        self._app = f"{JOB}/{topic.id}"
        self.raw = IngestTable.open(layout.table(USAGE_RAW), TableSpec(schema.USAGE_RAW, ("day",)))
        self.quarantine = IngestTable.open(layout.table(USAGE_QUARANTINE), TableSpec(schema.USAGE_QUARANTINE))
        self._begins: tuple[PartitionRange, ...] = ()

    def plan(self, bounds: Mapping[int, Bounds]) -> Plan:
        """What waits."""
        self._begins = beginnings(bounds) if self.raw.batch(self._app) < 0 else ()
        begun = {each.partition: each.start for each in self._begins}
        return plan_topic(begun | self.raw.positions(self._app, self._topic.partitions), bounds)

    def take(
        self,
        messages: pa.Table,
        ranges: Sequence[PartitionRange],
        gaps: Sequence[PartitionRange],
        *,
        now_ms: int,
    ) -> IngestFigures:
        """Bring a batch into the tables; `messages` has the records of `ranges` as `consume` gives them."""
        heard_until_ms = self._heard_until_ms()
        with staging_area(self._layout.staging) as area, engine(self._layout) as database:
            known = self.quarantine.positions(self._app, self._topic.partitions)
            removed_ms = self.raw.positions(REMOVED_APP, [0]).get(0, 0)
            batch = Batch(database, self.raw, area, now_ms, removed_ms)
            staged = batch.staged(messages, heard_until_ms=heard_until_ms, quarantined_until=known)
            self._commit(staged, ranges, gaps, known, heard_until_ms)
        return staged.figures

    def _commit(
        self,
        staged: StagedBatch,
        ranges: Sequence[PartitionRange],
        gaps: Sequence[PartitionRange],
        quarantined: dict[int, int],
        heard_until_ms: int,
    ) -> None:
        if staged.quarantine:
            # A run that was killed between the two commits leaves the quarantine ahead.
            seen = [one._replace(start=quarantined.get(one.partition, one.start)) for one in ranges]
            document = self._document(self.quarantine, [one for one in seen if one.offsets > 0], ())
            self.quarantine.append(staged.quarantine, document.counted(staged.quarantine))
        latest = [int(one.high) for file in staged.raw if (one := file.columns.get("interval_start_ms"))]
        document = msgspec.structs.replace(
            self._document(self.raw, ranges, gaps).counted(staged.raw, "interval_start"),
            begins=self._begins,
            figures=_shown(staged.figures) | {_HEARD: max([heard_until_ms, *latest])},
        )
        replaced = [("day", "in", [*staged.replaced_days])] if staged.replaced_days else []
        self.raw.append(staged.raw, document, replace_partitions=replaced)
        self._begins = ()

    def _document(
        self, table: IngestTable, ranges: Sequence[PartitionRange], gaps: Sequence[PartitionRange]
    ) -> BatchDocument:
        return BatchDocument(
            app=self._app,
            batch=table.batch(self._app) + 1,
            job=JOB,
            job_version=JOB_VERSION,
            topic=self._topic.name,
            topic_id=self._topic.id,
            ranges=tuple(ranges),
            gaps=tuple(gaps),
        )

    def _heard_until_ms(self) -> int:
        """The latest interval's start in the table."""
        for limit in (5, None):  # a tidying may have come after it
            for document in self.raw.documents(limit):
                if document.app == self._app:
                    return document.figures.get(_HEARD, 0)
        return 0


def ingest(
    layout: PipelineLayout,
    source: KafkaSource,
    progress: Progress | None = None,
    *,
    now_ms: Callable[[], int],
    messages_per_batch_max: int = MESSAGES_PER_BATCH_MAX,
) -> IngestFigures:
    """Bring the tables up to the topic's ends as they are now.

    Raises: PipelineError.
    """
    progress = progress or Silent()
    offsets = SourceOffsets(source)
    topic = offsets.topics([USAGE_TOPIC]).get(USAGE_TOPIC)
    if topic is None:
        raise PipelineError(f"{source.bootstrap} has no topic '{USAGE_TOPIC}' yet: try again in some seconds")
    with _held(layout):
        tables = UsageIngest(layout, topic)
        plan = tables.plan(offsets.bounds([topic])[topic.name])
        _refuse_regressed(plan)
        total = IngestFigures()
        gaps, done, size_bytes = plan.gaps, 0, 0
        progress.planned(total_offsets(plan.ranges))
        for batch in consume(offsets, topic, plan.ranges, messages_per_batch_max, _BYTES_MAX):
            total += tables.take(batch.messages, batch.ranges, gaps, now_ms=now_ms())
            gaps = ()
            done += total_offsets(batch.ranges)
            progress.done(done)
            size_bytes += pc.sum(pc.binary_length(batch.messages["value"])).as_py() or 0
            progress.figures(**_shown(total), bytes=size_bytes)
    return total


@contextmanager
def _held(layout: PipelineLayout) -> Iterator[None]:
    """Both tables: nobody else writes them meanwhile."""
    with ExitStack() as held:
        for name in (USAGE_RAW, USAGE_QUARANTINE):
            held.enter_context(
                table_lease(layout.table(name), "portico pipeline meter", wait_s=_LEASE_WAIT_S)
            )
        yield


def _refuse_regressed(plan: Plan) -> None:
    if plan.regressed:
        lost = plan.regressed[0]
        raise PipelineError(
            f"topic {USAGE_TOPIC}: partition {lost.partition} ends at offset {lost.start}, but {lost.end} is "
            "the next one to read: the cluster has lost records or is just electing a leader; try again"
        )


def _shown(figures: IngestFigures) -> dict[str, int]:
    return {each.name: getattr(figures, each.name) for each in fields(IngestFigures)}
