"""The pipeline's jobs in one warm session, part by part."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ctl.bench import (
    pipeline_advice,
    pipeline_decode,
    pipeline_lake,
    pipeline_metering,
    pipeline_mirror,
    servers,
)
from ctl.bench.measure import Say
from ctl.bench.report import with_ratios
from pipeline.errors import PipelineError
from pipeline.session import spark_session
from pipeline.spark_at import SparkAt

INSTANCES: Final = 1_000
_SCRATCH_BYTES: Final = 4_000_000_000

_PARTS: Final[dict[str, Callable[[Any, int, int, Say], dict[str, object]]]] = {
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
    "metering": lambda _spark, rounds, _megabytes, say: pipeline_metering.measure(rounds, say),
    "advice": lambda _spark, rounds, _megabytes, say: pipeline_advice.measure(rounds, INSTANCES, say),
}
PARTS: Final = tuple(_PARTS)


def run(rounds: int, megabytes: int, say: Say, parts: tuple[str, ...] = PARTS) -> dict[str, object]:
    """The figures. Raises: RuntimeError, OSError."""
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(_SCRATCH_BYTES)) as name:
        try:
            spark = spark_session(Path(name), say, SparkAt("local[2]", {"spark.driver.memory": "2g"}))
        except PipelineError as error:
            raise RuntimeError(error.sentence) from error
        try:
            return {part: _PARTS[part](spark, rounds, megabytes, say) for part in parts}
        finally:
            spark.stop()
