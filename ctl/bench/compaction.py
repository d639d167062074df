"""Compaction as the broker does it: a log of uncompressed records, in a process of its own.

Two sizes of records, 100 bytes and 1 KB, and two kinds of keys: as many records per key as a log has that is
worth compacting by Kafka's default (half is superseded), and all distinct (everything stays, only copied).
MB/s are bytes of the log per second of wall clock; the log is read twice and synced once.
"""

import os
import random
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from broker.storage.log_cleaner import LogCleaner
from broker.storage.manager import LogManager
from ctl.bench.measure import Cost, Say, spreads
from wire.batch import Record, build_batch

_MB: Final = 10**6
_BATCH_BYTES: Final = 16_000
_CONFIG: Final = LogConfig(segment_bytes=128 * 1024 * 1024, cleanup_policy=frozenset({"compact"}))
_SIZES: Final = {"1 KB records": 1000, "100 B records": 100}
_DRAWN_FROM: Final = {"half superseded": 0.63, "distinct keys": 0.0}
"""Keys to draw from, per record; 0: each record has its own."""


def run(rounds: int, megabytes: int, say: Say) -> dict[str, object]:
    """The figures. Raises: OSError."""
    results: dict[str, object] = {}
    for size_name, record_bytes in _SIZES.items():
        for keys_name, share in _DRAWN_FROM.items():
            samples: list[Cost] = []
            for number in range(rounds):
                say(f"{size_name}, {keys_name}, round {number + 1} of {rounds}")
                samples.append(_measure(megabytes, record_bytes, share, seed=number))
            results[f"{size_name}, {keys_name}"] = spreads(samples)
    return results


def _measure(megabytes: int, record_bytes: int, share: float, seed: int) -> Cost:
    directory = Path(tempfile.mkdtemp(prefix="portico-bench-compaction-"))
    try:
        manager = LogManager([directory], cluster_id="bench", node_id=0)
        manager.load(lambda _: _CONFIG, 0)
        log = manager.create("t", 0, uuid.uuid4(), _CONFIG, 0)
        _fill(log, megabytes * _MB, record_bytes, share, random.Random(seed))
        log.durability.flush()
        cleaner = LogCleaner(manager.logs)
        found = cleaner.begin(_now_ms())
        assert found is not None, "a log that was never compacted is dirty"
        before, before_cpu_s = time.perf_counter(), _cpu_s()
        found.run()
        result = cleaner.complete(found)
        elapsed_s, cpu_s = time.perf_counter() - before, _cpu_s() - before_cpu_s
        if result is None:
            raise OSError(f"the compaction did not end: {log.compaction.uncleanable}")
        manager.close(clean=False)
        return Cost(result.read_bytes / elapsed_s, cpu_s / (result.read_bytes / 10**9))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _fill(log: PartitionLog, total_bytes: int, record_bytes: int, share: float, draw: random.Random) -> None:
    per_batch = _BATCH_BYTES // record_bytes
    batches = total_bytes // record_bytes // per_batch
    keys = int(batches * per_batch * share)
    value = draw.randbytes(record_bytes - 26)
    for number in range(batches):
        records = []
        for row in range(per_batch):
            key = draw.randrange(keys) if keys else number * per_batch + row
            records.append(Record(0, number, b"key-%012d" % key, value))
        log.append(build_batch(records), now_ms=number, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark()
    log.rolling.roll_if_due(_now_ms())  # the active segment is not compacted


def _now_ms() -> int:
    return int(time.time() * 1000)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
