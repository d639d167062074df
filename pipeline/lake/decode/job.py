"""Decoding: what a lake table has gained becomes typed rows, dead letters, or a count of dropped records.

A step takes whole batches of the lake table. Its files are staged first, both kinds in one pass; then come
the commits: dead letters, and with the decoded table's own the step has happened.

A re-drive decodes dead letters again, with another schema as a rule; those that parse move over. The decoded
table's commit is when they have; the dead-letter table is replaced right after it. A record is a dead letter
as long as the decoded table does not have it, so it is always in exactly one.

A run that was killed between its two commits is put right by the next one, before anything else
(`steps.repair_of`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.errors import PipelineError
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, must_be_whole, stage, staged_file, tasks_area
from pipeline.lake.decode.registry import TopicSchemas
from pipeline.lake.decode.schema import IncompatibleError, RecordSchema, ValueFormat
from pipeline.lake.decode.source import (
    Selection,
    Slice,
    bundles,
    lake_source,
    log_files,
    of_batches,
    of_letters,
    slices_of,
)
from pipeline.lake.decode.steps import REDRIVEN, STEP_ROWS, BatchSpan, plan_steps, positions_after
from pipeline.lake.decode.target_tables import JOB_DECODE, JOB_REDRIVE, DecodeTables
from pipeline.lake.decode.tasks import (
    DEAD,
    DECODED,
    ERRORS,
    REPORT_DDL,
    SCHEMAS,
    UNKNOWN,
    TaskPlan,
    decoded_files,
    schemas_named,
    task_of,
)
from pipeline.lake.lake_tables import LakeTable
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.decoded import DEAD_PARTITION, DECODED_PARTITION
from pipeline.spark_at import tasks_at_once
from pipeline.store import AnyPath, of_text, open_parquet, spark_url
from runtime.protobuf_schemas import BadSchema

_TASKS_PER_CORE: Final = 2
_TIMES: Final = {DEAD_PARTITION, DECODED_PARTITION}


class OnError(StrEnum):
    """What becomes of records that do not parse."""

    DLQ = "dlq"
    """They are kept in the dead-letter table."""
    DROP = "drop"
    """They are counted."""
    PAUSE = "pause"
    """Decoding stops before them, with a sentence."""


@dataclass
class DecodeResult:
    """What one run did on a lake table; totals are the tables'."""

    lake: LakeTable
    rows: int = 0
    decoded: int = 0
    dead_letters: int = 0
    dropped: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Records of this run that did not parse, by class."""
    unknown_fields: Counter[str] = field(default_factory=Counter)
    """Records of this run that had them, by the field's path."""
    totals: dict[str, int] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    """Where they lie."""
    notes: list[str] = field(default_factory=list)
    """What somebody should look at."""

    def add(self, outcome: "Outcome", dropped: int = 0) -> None:
        """What a step has committed."""
        self.rows += outcome.decoded_rows + outcome.dead_rows
        self.decoded += outcome.decoded_rows
        self.dead_letters += outcome.dead_rows - dropped
        self.dropped += dropped
        self.errors += outcome.errors
        self.unknown_fields += outcome.unknown_fields

    def tell(self, progress: Progress) -> None:
        """To whoever waits."""
        progress.done(self.rows)
        progress.figures(decoded=self.decoded, dead_letters=self.dead_letters, dropped=self.dropped)


class Outcome(NamedTuple):
    """What the tasks of a step wrote and counted."""

    decoded: list[StagedFile]
    dead: list[StagedFile]
    errors: Counter[str]
    unknown_fields: Counter[str]

    @property
    def decoded_rows(self) -> int:
        """Records that parse."""
        return sum(each.rows for each in self.decoded)

    @property
    def dead_rows(self) -> int:
        """Records that do not."""
        return sum(each.rows for each in self.dead)


def decode(
    spark: SparkSession,
    layout: PipelineLayout,
    lake: LakeTable,
    by: RecordSchema | TopicSchemas,
    on_error: OnError,
    progress: Progress,
    rows_max: int = STEP_ROWS,
) -> DecodeResult:
    """Decode all that is not decoded yet of a lake table. Raises: PipelineError."""
    with _begun(spark, layout, lake, JOB_DECODE) as (tables, area):
        result = DecodeResult(lake)
        schema = _used(tables, by, result)
        source = lake_source(lake)
        steps = plan_steps(tables.positions(), source.loads_end, source.backfills_end, source.rows, rows_max)
        progress.planned(sum(_rows_of(step, source.rows) for step in steps))
        for step in steps:
            outcome = run_tasks(spark, source.slices, of_batches(step), schema, by, tables, area)
            _commit(tables, step, schema, on_error, outcome, result)
            result.tell(progress)
        result.totals, result.tables = tables.totals(), tables.paths()
        return result


def redrive(
    spark: SparkSession,
    layout: PipelineLayout,
    lake: LakeTable,
    by: RecordSchema | TopicSchemas,
    progress: Progress,
    error_classes: Sequence[str] = (),
) -> DecodeResult:
    """Decode dead letters again, all or those of some error classes. Raises: PipelineError."""
    with _begun(spark, layout, lake, JOB_REDRIVE) as (tables, area):
        if tables.schema is None:
            raise PipelineError(
                f"topic {lake.topic} was not decoded yet: start with `portico pipeline decode`"
            )
        result = DecodeResult(lake)
        schema = _used(tables, by, result)
        progress.planned(tables.totals()["dead_letters"], "dead letters")
        path = tables.dead.path
        parts = slices_of(log_files(DeltaTable(str(path))), path, DEAD_PARTITION)
        outcome = run_tasks(spark, parts, of_letters(error_classes), schema, by, tables, area)
        others: list[StagedFile] = []
        if error_classes:  # those that are not tried stay as they are
            letters = spark.read.format("delta").load(spark_url(path))
            untried = letters.where(~F.col("error_class").isin(*error_classes))
            others = stage(untried, area, (DEAD_PARTITION,))
        batch = tables.next_batch
        moved = PartitionRange(REDRIVEN, tables.positions().get(REDRIVEN, 0), batch + 1)
        figures = {"decoded": outcome.decoded_rows, "dead_letters": outcome.dead_rows}
        document = tables.document(JOB_REDRIVE, (moved,), schema, figures, outcome.errors)
        tables.add_decoded(outcome.decoded, document)
        tables.change_letters([*outcome.dead, *others], document, replace_all=True)
        result.add(outcome)
        result.tell(progress)
        result.totals, result.tables = tables.totals(), tables.paths()
        return result


@contextmanager
def _begun(
    spark: SparkSession, layout: PipelineLayout, lake: LakeTable, job: str
) -> Iterator[tuple[DecodeTables, AnyPath]]:
    """The tables, as whole as any run before wanted them, and a folder for this one's files."""
    holder = f"portico pipeline {job}"
    with DecodeTables.leased(layout, lake, holder) as tables, tasks_area(layout.lake_staging) as area:
        tables.repair(spark, area)
        yield tables, area


def _used(tables: DecodeTables, by: RecordSchema | TopicSchemas, result: DecodeResult) -> RecordSchema:
    """What columns are: of a registry all that the table has. Raises: PipelineError.

    A newest schema that is none, or changes a type, does not stop what others have written: the table stays,
    and records that do not go into it are dead letters.
    """
    if isinstance(by, RecordSchema):
        tables.use_schema(by)
        return by
    version = 0 if tables.schema is None else tables.schema.version
    try:
        found, newest = by.newest()
        tables.use_schema(RecordSchema(found, ValueFormat.REGISTRY, newest.fields))
        version = found
    except (BadSchema, IncompatibleError) as error:
        if tables.schema is None:
            raise PipelineError(f"the newest schema of {by.subject} makes no table: {error}") from error
        result.notes.append(f"the newest schema of {by.subject} does not go with the table: {error}")
    return RecordSchema(version, ValueFormat.REGISTRY, tables.columns())


def _rows_of(span: BatchSpan, sizes: dict[int, int]) -> int:
    return sum(sizes.get(each, 0) for each in range(*span.loads)) + sum(
        sizes.get(-1 - each, 0) for each in range(*span.backfills)
    )


def _commit(
    tables: DecodeTables,
    step: BatchSpan,
    schema: RecordSchema,
    on_error: OnError,
    outcome: Outcome,
    result: DecodeResult,
) -> None:
    bad = outcome.dead_rows
    rows = outcome.decoded_rows + bad
    if bad and on_error is OnError.PAUSE:
        raise PipelineError(_paused(outcome, rows))
    letters = outcome.dead if on_error is OnError.DLQ else []
    dropped = bad if on_error is OnError.DROP else 0
    document = tables.document(
        JOB_DECODE,
        positions_after(tables.positions(), step, rows, dropped),
        schema,
        {"decoded": outcome.decoded_rows, "dead_letters": bad - dropped, "dropped": dropped},
        outcome.errors,
    )
    if letters:
        tables.change_letters(letters, document, replace_all=False)
    tables.add_decoded(outcome.decoded, document)
    result.add(outcome, dropped)


def _paused(outcome: Outcome, rows: int) -> str:
    first = min(_first_letter(each.path) for each in outcome.dead)
    partition, offset, error_class, message = first
    return (
        f"{outcome.dead_rows} of the next {rows} records do not parse, first the one of partition "
        f"{partition} at offset {offset} ({error_class}: {message}): nothing of them was decoded; mend the "
        "schema, or choose --on-error dlq or drop"
    )


def _first_letter(path: AnyPath) -> tuple[int, int, str, str]:
    columns = ["partition", "offset", "error_class", "message"]
    with open_parquet(path) as file:
        rows = file.read(columns).sort_by([("partition", "ascending"), ("offset", "ascending")])
    first = rows.slice(0, 1).to_pylist()[0]
    return first["partition"], first["offset"], first["error_class"], first["message"]


def run_tasks(
    spark: SparkSession,
    parts: Sequence[Slice],
    selection: Selection,
    schema: RecordSchema,
    by: RecordSchema | TopicSchemas,
    tables: DecodeTables,
    area: AnyPath,
) -> Outcome:
    """Decode the selected rows of slices into staged files."""
    batch, lake = tables.next_batch, tables.lake
    folder = area / f"batch-{batch}"
    wanted = [each for each in parts if selection.may_have(each)]
    shares = bundles(wanted, tasks_at_once(spark) * _TASKS_PER_CORE)
    plan = TaskPlan(schema, str(folder), lake.topic, lake.topic_id, batch, selection, shares, None)
    numbers = spark.range(len(shares), numPartitions=max(1, len(shares)))
    if isinstance(by, TopicSchemas):
        named = _counted(numbers.mapInArrow(task_of(plan, schemas_named), REPORT_DDL).collect(), SCHEMAS)
        plan = plan._replace(writers=by.writers([int(name) for name, _ in named.most_common()]))
    report = numbers.mapInArrow(task_of(plan, decoded_files), REPORT_DDL).collect()
    return Outcome(
        _files(report, DECODED, folder),
        _files(report, DEAD, folder),
        _counted(report, ERRORS),
        _counted(report, UNKNOWN),
    )


def _files(report: Sequence[Any], kind: str, folder: AnyPath) -> list[StagedFile]:
    told = {of_text(row["name"]): row["count"] for row in report if row["kind"] == kind}
    files = [staged_file(path, folder / kind, _TIMES) for path in sorted(told)]
    must_be_whole(files, sum(told.values()), folder)
    return files


def _counted(report: Sequence[Any], kind: str) -> Counter[str]:
    told = (Counter({row["name"]: row["count"]}) for row in report if row["kind"] == kind)
    return sum(told, Counter[str]())
