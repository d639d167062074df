"""The pipeline's jobs part by part, those of Spark in one warm session."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from ctl.bench import (
    pipeline_advice,
    pipeline_compact,
    pipeline_decode,
    pipeline_lake,
    pipeline_metering,
    pipeline_mirror,
    pipeline_workers,
    servers,
)
from ctl.bench.measure import Say
from ctl.bench.report import with_ratios
from pipeline.errors import PipelineError
from pipeline.session import spark_session
from pipeline.spark_at import SparkAt

INSTANCES: Final = 1_000
_SCRATCH_BYTES: Final = 4_000_000_000

_WITH_SPARK: Final[dict[str, Callable[[SparkSession, int, int, Say], dict[str, object]]]] = {
    "lake": lambda spark, rounds, megabytes, say: with_ratios(
        pipeline_lake.measure(spark, rounds, megabytes, say), pipeline_lake.OURS, pipeline_lake.PEERS[1:]
    ),
    "decode": lambda spark, rounds, megabytes, say: with_ratios(
        pipeline_decode.measure(spark, rounds, megabytes, say),
        pipeline_decode.OURS,
        pipeline_decode.PEERS[1:],
    ),
    "mirror": lambda spark, rounds, megabytes, say: with_ratios(
        pipeline_mirror.measure(spark, rounds, megabytes, say),
        pipeline_mirror.OURS,
        pipeline_mirror.PEERS[1:],
    ),
}
_WITHOUT: Final[dict[str, Callable[[int, int, Say], dict[str, object]]]] = {
    "workers": pipeline_workers.measure,
    "compact": pipeline_compact.measure,
    "metering": lambda rounds, _megabytes, say: pipeline_metering.measure(rounds, say),
    "advice": lambda rounds, _megabytes, say: pipeline_advice.measure(rounds, INSTANCES, say),
}
PARTS: Final = (*_WITH_SPARK, *_WITHOUT)


def run(rounds: int, megabytes: int, say: Say, parts: tuple[str, ...] = PARTS) -> dict[str, object]:
    """The figures. Raises: RuntimeError, OSError."""
    found: dict[str, object] = {}
    if with_spark := [each for each in parts if each in _WITH_SPARK]:
        with _session(say) as spark:
            found = {each: _WITH_SPARK[each](spark, rounds, megabytes, say) for each in with_spark}
    return found | {each: _WITHOUT[each](rounds, megabytes, say) for each in parts if each in _WITHOUT}


@contextmanager
def _session(say: Say) -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(_SCRATCH_BYTES)) as name:
        try:
            spark = spark_session(Path(name), say, SparkAt("local[2]", {"spark.driver.memory": "2g"}))
        except PipelineError as error:
            raise RuntimeError(error.sentence) from error
        try:
            yield spark
        finally:
            spark.stop()
