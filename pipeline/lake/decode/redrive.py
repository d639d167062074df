"""Re-drive: dead letters are decoded again, with another schema as a rule; those that parse move over.

What will be in both tables is staged first. The decoded table's commit is when records have moved; the
dead-letter table is replaced right after it. A record is a dead letter as long as the decoded table does not
have it, so it is always in exactly one, also when a kill came between the two commits: the
next decode or re-drive then removes what has moved.
"""

from collections.abc import Sequence

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.errors import PipelineError
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, stage, tasks_area
from pipeline.lake.decode.job import DecodeResult, Outcome, run_tasks
from pipeline.lake.decode.schema import RecordSchema
from pipeline.lake.decode.source import OfLetters, log_files, slices_of
from pipeline.lake.decode.steps import REDRIVEN
from pipeline.lake.decode.target_tables import JOB_REDRIVE, DecodeTables
from pipeline.lake.lake_tables import LakeTable
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.decoded import DEAD_PARTITION
from pipeline.store import AnyPath


def redrive(
    spark: SparkSession,
    layout: PipelineLayout,
    lake: LakeTable,
    schema: RecordSchema,
    progress: Progress,
    error_classes: Sequence[str] = (),
) -> DecodeResult:
    """Decode dead letters again, all or those of some error classes. Raises: PipelineError."""
    with (
        DecodeTables.leased(layout, lake, "portico pipeline redrive") as tables,
        tasks_area(layout.lake_staging) as area,
    ):
        if tables.schema is None:
            raise PipelineError(
                f"topic {lake.topic} was not decoded yet: start with `portico pipeline decode`"
            )
        tables.repair(spark, area)
        tables.use_schema(schema)
        progress.planned(tables.totals()["dead_letters"], "dead letters")
        parts = slices_of(log_files(DeltaTable(str(tables.dead.path))), tables.dead.path, DEAD_PARTITION)
        chosen = OfLetters(error_classes)
        outcome = run_tasks(spark, parts, chosen, schema, lake, tables.next_batch, area)
        others = _others(spark, tables, error_classes, area)
        _commit(tables, schema, outcome, others)
        result = DecodeResult(lake, outcome.decoded_rows + outcome.dead_rows, outcome.decoded_rows)
        result.dead_letters = outcome.dead_rows
        result.errors += outcome.errors
        result.unknown_fields += outcome.unknown_fields
        result.totals, result.tables = tables.totals(), tables.paths()
        progress.done(result.rows)
        progress.figures(decoded=result.decoded, dead_letters=result.dead_letters)
        return result


def _others(
    spark: SparkSession, tables: DecodeTables, error_classes: Sequence[str], area: AnyPath
) -> list[StagedFile]:
    """Dead letters that are not tried stay as they are."""
    if not error_classes:
        return []
    letters = spark.read.format("delta").load(str(tables.dead.path))
    kept = letters.where(~F.col("error_class").isin(*error_classes))
    return stage(kept, area, (DEAD_PARTITION,))


def _commit(
    tables: DecodeTables, schema: RecordSchema, outcome: Outcome, others: Sequence[StagedFile]
) -> None:
    batch = tables.next_batch
    moved = PartitionRange(REDRIVEN, tables.positions().get(REDRIVEN, 0), batch + 1)
    figures = {"decoded": outcome.decoded_rows, "dead_letters": outcome.dead_rows}
    document = tables.document(JOB_REDRIVE, (moved,), schema, figures, outcome.errors)
    tables.add_decoded(outcome.decoded, document)
    tables.replace_letters([*outcome.dead, *others], document)
