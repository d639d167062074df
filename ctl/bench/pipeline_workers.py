"""A lake load on two cores of a standalone cluster: one worker that has both, or two that have one each."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from ctl.bench import servers
from ctl.bench.measure import Say, Spread
from ctl.bench.pipeline_lake import OURS, LakeBench
from ctl.bench.spark_cluster import standalone_cluster
from pipeline.session import spark_session
from pipeline.spark_at import SparkAt

_CORES: Final = 2
_WORKERS: Final = (1, 2)
_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
}
_WARM_UP: Final = 4
_LOADS: Final = 4


def measure(rounds: int, megabytes: int, say: Say) -> dict[str, object]:
    """MiB/s by the number of workers, in turns, and the ratio of their medians."""
    rates: dict[int, list[float]] = {each: [] for each in _WORKERS}
    scratch = servers.scratch_parent(4 * megabytes * 1_000_000)
    with tempfile.TemporaryDirectory(dir=scratch) as name, ExitStack() as stack:
        folder = Path(name)
        say("workers: filling a topic")
        bench = LakeBench(folder, stack, megabytes)
        masters = {
            each: stack.enter_context(
                standalone_cluster(folder / f"of-{each}", each, _CORES // each, memory="2g")
            )
            for each in _WORKERS
        }
        for turn in range(rounds):
            for workers in _WORKERS if turn % 2 else _WORKERS[::-1]:
                say(f"workers: {workers}, round {turn + 1} of {rounds}")
                with _session(masters[workers], folder / "scratch", say) as spark:
                    bench.use(spark)
                    found = [bench.load(OURS)[0] for _ in range(_WARM_UP + _LOADS)]
                    rates[workers] += found[_WARM_UP:]
    spreads = {each: Spread.of(found) for each, found in rates.items()}
    one, two = (spreads[each].median for each in _WORKERS)
    return {
        f"lake load, {each} workers of {_CORES // each} cores, MiB/s": spreads[each] for each in _WORKERS
    } | {"two workers : one": two / one}


@contextmanager
def _session(master: str, scratch: Path, say: Say) -> Iterator[SparkSession]:
    searched = [*sys.path]
    spark = spark_session(scratch, say, SparkAt(master, _SETTINGS))
    try:
        yield spark
    finally:
        spark.stop()
        sys.path[:] = searched  # Spark leaves an archive of ours in it, which it has removed
