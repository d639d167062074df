"""The decoded table of a topic and its dead letters, changed in an order that a kill survives."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema
from pyspark.sql import SparkSession

from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.lease import table_lease
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, stage
from pipeline.lake.decode.ddl import columns_of
from pipeline.lake.decode.schema import RecordSchema, SchemaFile, check_change, check_columns, schema_of
from pipeline.lake.decode.source import row_count
from pipeline.lake.decode.steps import APPLIED, DROPPED, REDRIVEN, SOURCE_ROWS, STREAMS, Repair, repair_of
from pipeline.lake.lake_tables import LakeTable
from pipeline.layout import PipelineLayout
from pipeline.schema.decoded import DEAD_LETTERS, DEAD_PARTITION, DECODED_PARTITION, KAFKA_COLUMNS
from pipeline.store import AnyPath, spark_url

DECODED_KIND: Final = "decoded"
DEAD_KIND: Final = "dead_letters"
JOB_DECODE: Final = "decode"
JOB_REDRIVE: Final = "redrive"
JOB_REPAIR: Final = "repair"
_JOB_VERSION: Final = "1"
_SCHEMA_PROPERTY: Final = "portico.schema"


class DecodeDocument(BatchDocument, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit says of a decode batch; `ranges` are the positions of `steps`."""

    schema: SchemaFile
    errors: dict[str, int] = msgspec.field(default_factory=dict)


class DecodeTables:
    """Both tables of a lake table, held by one run."""

    def __init__(self, lake: LakeTable, decoded: AnyPath, dead: IngestTable) -> None:
        self.lake = lake
        self.app = f"decode/{lake.topic_id}"
        self.decoded_path = decoded
        self.dead = dead
        self._decoded: IngestTable | None = None
        self.schema: RecordSchema | None = None
        """What was last decoded with."""

    @classmethod
    @contextmanager
    def leased(cls, layout: PipelineLayout, lake: LakeTable, holder: str) -> Iterator[Self]:
        """Open both while nobody else decodes into them. Raises: PipelineError."""
        decoded, dead = lake.derived(layout, DECODED_KIND), lake.derived(layout, DEAD_KIND)
        with table_lease(decoded, holder):
            spec = TableSpec(DEAD_LETTERS, (DEAD_PARTITION,), f"Dead letters of topic {lake.topic}")
            tables = cls(lake, decoded, IngestTable.open(dead, spec))
            if DeltaTable.is_deltatable(str(decoded)):
                tables._reopen()
            yield tables

    @property
    def next_batch(self) -> int:
        """The number of the next decode batch."""
        return self._last_batch() + 1

    def positions(self) -> dict[int, int]:
        """Positions of the decoded table."""
        return {} if self._decoded is None else self._decoded.positions(self.app, STREAMS)

    def totals(self) -> dict[str, int]:
        """Rows of both tables and what was ever taken from the lake table and dropped."""
        done = self.positions()
        decoded = row_count(DeltaTable(str(self.decoded_path))) if self._decoded is not None else 0
        return {
            "lake_rows": done.get(SOURCE_ROWS, 0),
            "decoded": decoded,
            "dead_letters": row_count(DeltaTable(str(self.dead.path))),
            "dropped": done.get(DROPPED, 0),
        }

    def paths(self) -> dict[str, str]:
        """Where both lie."""
        return {DECODED_KIND: str(self.decoded_path), DEAD_KIND: str(self.dead.path)}

    def use_schema(self, schema: RecordSchema) -> None:
        """Make or evolve the decoded table. Raises: PipelineError where the change is refused."""
        if self._decoded is None:
            columns = pa.schema([*columns_of(schema.fields), *KAFKA_COLUMNS])
            description = f"Decoded records of topic {self.lake.topic}"
            IngestTable.open(self.decoded_path, TableSpec(columns, (DECODED_PARTITION,), description))
        elif self.schema is not None:
            check_change(self.schema, schema)
        table = DeltaTable(str(self.decoded_path))
        check_columns(self.columns(), schema.fields)
        if self.schema != schema:
            # Those that are there stay, and structs of them get what they lack.
            table.alter.add_columns(Schema.from_arrow(pa.schema(columns_of(schema.fields))).fields)
            text = msgspec.json.encode(schema.as_file()).decode()
            table.alter.set_table_properties({_SCHEMA_PROPERTY: text}, raise_if_not_exists=False)
        self._reopen()

    def columns(self) -> pa.Schema:
        """Of fields, as the decoded table has them now."""
        columns = pa.schema(DeltaTable(str(self.decoded_path)).schema())
        return pa.schema([each for each in columns if each.name not in KAFKA_COLUMNS.names])

    def _reopen(self) -> None:
        table = DeltaTable(str(self.decoded_path))
        self._decoded = IngestTable(self.decoded_path, table)
        if text := table.metadata().configuration.get(_SCHEMA_PROPERTY):
            self.schema = schema_of(msgspec.json.decode(text, type=SchemaFile))

    def document(
        self,
        job: str,
        positions: tuple[PartitionRange, ...],
        schema: RecordSchema,
        figures: Mapping[str, int],
        errors: Mapping[str, int],
    ) -> DecodeDocument:
        """What the commit of the next decode batch says."""
        return DecodeDocument(
            app=self.app,
            batch=self.next_batch,
            job=job,
            job_version=_JOB_VERSION,
            topic=self.lake.topic,
            topic_id=self.lake.topic_id,
            ranges=positions,
            schema=schema.as_file(),
            figures=dict(figures),
            errors=dict(errors),
        )

    def add_decoded(self, files: Sequence[StagedFile], document: DecodeDocument) -> None:
        """The commit with which a decode batch has happened."""
        assert self._decoded is not None, "use_schema comes first"
        self._decoded.append(files, document.counted(files, "_timestamp"))

    def change_letters(
        self, files: Sequence[StagedFile], document: DecodeDocument, *, replace_all: bool
    ) -> None:
        """Add some before the decode batch's own commit, or replace all after that of a re-drive."""
        applied = PartitionRange(APPLIED, self._applied(), document.batch + 1)
        own = msgspec.structs.replace(document, batch=self.dead.batch(self.app) + 1, ranges=(applied,))
        self.dead.append(files, own.counted(files, "timestamp"), replace_all=replace_all)

    def repair(self, spark: SparkSession, area: AnyPath) -> None:
        """Put right what a killed run left between its two commits."""
        needed = repair_of(self._last_batch(), self.positions(), self._applied())
        if needed is Repair.NONE:
            return
        kept = spark.read.format("delta").load(spark_url(self.dead.path))
        if needed is Repair.FORGET_LETTERS:
            kept = kept.where(kept["decode_batch"] <= self._last_batch())
        else:
            moved = f"_decode_batch = {self.positions()[REDRIVEN] - 1}"
            decoded = spark.read.format("delta").load(spark_url(self.decoded_path)).where(moved)
            keys = decoded.selectExpr("_partition AS partition", "_offset AS offset")
            kept = kept.join(keys, ["partition", "offset"], "left_anti")
        files = stage(kept, area, (DEAD_PARTITION,))
        assert self.schema is not None, "letters are written after a schema is used"
        document = self.document(JOB_REPAIR, (), self.schema, {}, {})
        document = msgspec.structs.replace(document, batch=self._last_batch())
        self.change_letters(files, document, replace_all=True)

    def _last_batch(self) -> int:
        return -1 if self._decoded is None else self._decoded.batch(self.app)

    def _applied(self) -> int:
        return self.dead.positions(self.app, (APPLIED,)).get(APPLIED, 0)
