"""The mirror from one instance to another, beside plain reads of the same topic through the same vport."""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ctl.bench import servers
from ctl.bench.measure import Say, Spread
from ctl.bench.random_records import create_topics, produce, random_values
from pipeline.ingest.kafka import read_ranges
from pipeline.ingest.offsets import KafkaSource
from pipeline.ingest.ranges import PartitionRange, pack
from pipeline.mirror.job import mirror
from pipeline.mirror.planning.address import Address
from pipeline.mirror.planning.tracks import MirrorRequest
from pipeline.progress import Silent

OURS: Final = "mirror"
PEERS: Final = (OURS, "plain read to noop (B)")
_PARTITIONS: Final = 4
_RECORD_BYTES: Final = (1000, 100)
_TARGET_ID: Final = "ibenchbench3"


class MirrorBench:
    """Two instances on one broker, each with a gateway worker, and a topic of random records."""

    def __init__(self, spark: SparkSession, directory: Path, stack: ExitStack) -> None:
        self._spark = spark
        broker = stack.enter_context(servers.broker(directory))
        source = stack.enter_context(servers.gateway(directory, broker.port))
        target = stack.enter_context(servers.gateway(directory, broker.port, _TARGET_ID))
        self._source = f"127.0.0.1:{source.port}"
        self._target = f"127.0.0.1:{target.port}"
        self._runs = 0

    def fill(self, topic: str, records: int, record_bytes: int) -> None:
        """Random records, in turn to all partitions. Raises: RuntimeError where one is not delivered."""
        create_topics(self._source, [topic], _PARTITIONS)
        values = enumerate(random_values(records, record_bytes))
        produce(self._source, ((topic, index % _PARTITIONS, value) for index, value in values))

    def read(self, topic: str, records: int) -> float:
        """B: records/s."""
        each = records // _PARTITIONS
        ranges = [PartitionRange(index, 0, each) for index in range(_PARTITIONS)]
        packing = pack(((one, 1) for one in ranges), self._spark.sparkContext.defaultParallelism)
        started = time.perf_counter()
        frame = read_ranges(self._spark, KafkaSource(self._source), {topic: ranges}, packing)
        frame.write.format("noop").mode("overwrite").save()
        return records / (time.perf_counter() - started)

    def mirror(self, topic: str, records: int) -> float:
        """The whole command but for the session's start: topic made, everything copied; records/s.

        Raises: RuntimeError where it does not copy as many.
        """
        self._runs += 1
        prefix = f"run-{self._runs}."
        sides = (Address(self._source), Address(self._target))
        request = MirrorRequest("bench", "copy", *sides, topics=(topic,), rename=prefix + "{topic}")
        started = time.perf_counter()
        summary = mirror(lambda: self._spark, request, Silent(), lambda _: None)
        rate = records / (time.perf_counter() - started)
        copied = sum(track.records for track in summary.tracks)
        if copied != records or summary.paused:
            raise RuntimeError(f"{copied} records were mirrored, not {records}: {summary.paused}")
        admin = AdminClient({"bootstrap.servers": self._target, "log_level": 0})
        admin.delete_topics([prefix + topic])[prefix + topic].result(60)
        return rate


def measure(spark: SparkSession, rounds: int, megabytes: int, say: Say) -> dict[str, object]:
    """Records/s of both; `report.with_ratios(..., OURS, PEERS[1:])` adds the ratio."""
    needed = 6 * megabytes * 1_000_000
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(needed)) as name, ExitStack() as stack:
        bench = MirrorBench(spark, Path(name), stack)
        for record_bytes in _RECORD_BYTES:
            topic = f"random-{record_bytes}"
            records = megabytes * 1_000_000 // record_bytes // _PARTITIONS * _PARTITIONS
            say(f"mirror: filling a topic with records of {record_bytes} bytes")
            bench.fill(topic, records, record_bytes)
            works = dict(zip(PEERS, (bench.mirror, bench.read), strict=True))
            taken: dict[str, list[float]] = {peer: [] for peer in PEERS}
            for turn in range(rounds + 1):
                for peer in PEERS if turn % 2 else PEERS[::-1]:
                    say(f"mirror: {peer}, {record_bytes} bytes, round {turn} of {rounds}")
                    rate = works[peer](topic, records)
                    if turn:  # the first warms up
                        taken[peer].append(rate)
            results[f"records of {record_bytes} bytes, records/s"] = {
                peer: Spread.of(rates) for peer, rates in taken.items()
            }
    return results
