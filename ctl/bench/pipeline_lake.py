"""Lake loads: through the gateway against reading the broker directly, beside plain reads to nowhere."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from ctl.bench import servers
from ctl.bench.measure import Say, Spread, cpu_seconds, seconds_of
from ctl.bench.random_records import create_topics, produce, random_values
from pipeline.ingest.kafka import read_ranges
from pipeline.ingest.offsets import KafkaSource
from pipeline.ingest.ranges import PartitionRange, pack
from pipeline.lake.load import Loader, LoadSettings
from pipeline.lake.plan import LoadSource, TopicLoad
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent

OURS: Final = "gateway"
PEERS: Final = (OURS, "direct")
_RECORD_BYTES: Final = 1000
_PARTITIONS: Final = 4
_TOPICS: Final = 100


class LakeBench:
    """A broker and a gateway with a topic of random records, read by the session that is used last."""

    def __init__(self, directory: Path, stack: ExitStack, megabytes: int) -> None:
        self._directory = directory
        self._broker = stack.enter_context(servers.broker(directory))
        self._gateway = stack.enter_context(servers.gateway(directory, self._broker.port))
        self._records = megabytes * 1_000_000 // _RECORD_BYTES
        self._rounds = 0
        self.bytes = self._records * _RECORD_BYTES
        self._fill()

    def use(self, spark: SparkSession) -> None:
        """From now on."""
        jvm: Any = spark._jvm
        self.spark, self._jvm_pid = spark, int(jvm.java.lang.ProcessHandle.current().pid())

    def read(self, peer: str) -> tuple[float, float]:
        """B: the same records to nowhere; (MiB/s, CPU seconds of the JVM per GB)."""
        each = self._records // _PARTITIONS
        ranges = [PartitionRange(index, 0, each) for index in range(_PARTITIONS)]
        packing = pack(((one, _RECORD_BYTES) for one in ranges), self.spark.sparkContext.defaultParallelism)
        frame = read_ranges(self.spark, self._source(peer), {self._name(peer, "random"): ranges}, packing)
        return self._timed(lambda: frame.write.format("noop").mode("overwrite").save())

    def load(self, peer: str) -> tuple[float, float]:
        """A whole load into a new table, zstd; (MiB/s, CPU seconds of the JVM per GB)."""
        layout = self.layout()
        cost = self._timed(lambda: self.load_topics(layout, peer, ["random"], self._records))
        shutil.rmtree(layout.root)
        return cost

    def layout(self) -> PipelineLayout:
        """Tables that nobody has written yet."""
        self._rounds += 1
        return PipelineLayout(self._directory / f"round-{self._rounds}")

    def load_topics(
        self, layout: PipelineLayout, peer: str, topics: Sequence[str], rows: int
    ) -> list[TopicLoad]:
        """One pass. Raises: RuntimeError when it does not bring so many rows."""
        names = tuple(self._name(peer, topic) for topic in topics)
        source = LoadSource(servers.INSTANCE_ID, "bench", self._source(peer), names)
        done = Loader(lambda: self.spark, layout, [source], LoadSettings(), Silent()).run()
        found = sum(load.rows for load in done.loads)
        if found != rows or done.failures:
            raise RuntimeError(f"{found} rows were loaded, not {rows}: {done.failures}")
        return [*done.loads]

    @property
    def bootstrap(self) -> str:
        """Where clients of the instance begin."""
        return f"127.0.0.1:{self._gateway.port}"

    def _fill(self) -> None:
        create_topics(self.bootstrap, ["random"], _PARTITIONS)
        values = enumerate(random_values(self._records, _RECORD_BYTES))
        produce(self.bootstrap, (("random", index % _PARTITIONS, value) for index, value in values))

    def _source(self, peer: str) -> KafkaSource:
        return KafkaSource(f"127.0.0.1:{(self._gateway if peer == OURS else self._broker).port}")

    def _name(self, peer: str, topic: str) -> str:
        return topic if peer == OURS else f"{servers.INSTANCE_ID}.{topic}"

    def _timed(self, work: Callable[[], object]) -> tuple[float, float]:
        used_s, started = cpu_seconds(self._jvm_pid), time.perf_counter()
        work()
        elapsed_s = time.perf_counter() - started
        return self.bytes / 2**20 / elapsed_s, (cpu_seconds(self._jvm_pid) - used_s) / self.bytes * 1e9


def measure(spark: SparkSession, rounds: int, megabytes: int, say: Say) -> dict[str, Any]:
    """All measurements of the lake part; `report.with_ratios(..., OURS, ("direct",))` adds the ratios."""
    needed = 4 * megabytes * 1_000_000
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(needed)) as name, ExitStack() as stack:
        say("lake: filling a topic")
        bench = LakeBench(Path(name), stack, megabytes)
        bench.use(spark)
        cases = {"plain read to noop (B)": bench.read, "lake load, zstd": bench.load}
        results: dict[str, Any] = {}
        taken: dict[str, dict[str, list[tuple[float, float]]]] = {
            case: {peer: [] for peer in PEERS} for case in cases
        }
        for turn in range(rounds + 1):
            for case, work in cases.items():
                for peer in PEERS if turn % 2 else PEERS[::-1]:
                    say(f"lake: {case}, {peer}, round {turn} of {rounds}")
                    cost = work(peer)
                    if turn:  # the first warms up
                        taken[case][peer].append(cost)
        for case, by_peer in taken.items():
            results[case] = {peer: _spreads(costs) for peer, costs in by_peer.items()}
        loads, reads = (results[case][OURS]["MiB/s"].median for case in reversed(cases))
        results["lake load : plain read, through the gateway"] = loads / reads
        say(f"lake: {_TOPICS} topics")
        return results | _many_topics(bench, rounds)


def _spreads(costs: Sequence[tuple[float, float]]) -> dict[str, Spread]:
    return {
        "MiB/s": Spread.of([rate for rate, _ in costs]),
        "JVM CPU s/GB": Spread.of([cpu_s for _, cpu_s in costs]),
    }


def _many_topics(bench: LakeBench, rounds: int) -> dict[str, Any]:
    names = [f"small-{index}" for index in range(_TOPICS)]
    create_topics(bench.bootstrap, names, 1)
    produce(bench.bootstrap, ((name, 0, b"one record") for name in names))
    layout = bench.layout()
    first_s = seconds_of(lambda: bench.load_topics(layout, OURS, names, _TOPICS))
    empty_s = [seconds_of(lambda: bench.load_topics(layout, OURS, names, 0)) for _ in range(rounds)]
    return {
        f"first run over {_TOPICS} topics of one record, s": first_s,
        f"empty run over {_TOPICS} topics, s": Spread.of(empty_s),
    }
