"""A log that is compacted, and what tests do with it."""

from broker.log.cleaning import CleaningResult
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from tests.unit.broker_log.builders import (
    NOW_MS,
    append,
    read_all,
)
from wire.batch import Record, build_batch

COMPACT = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=256,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
)


def rows(*pairs: tuple[str, str | None], at_ms: int = NOW_MS) -> list[Record]:
    return [Record(0, at_ms, key.encode(), None if text is None else text.encode()) for key, text in pairs]


def write(log: PartitionLog, *pairs: tuple[str, str | None]) -> None:
    append(log, build_batch(rows(*pairs)))


def roll(log: PartitionLog) -> None:
    """Everything so far can be compacted then."""
    log.rolling.roll(log.log_end_offset, NOW_MS)
    log.durability.flush()


def compact(log: PartitionLog, now_ms: int = NOW_MS, map_bytes_max: int = 1 << 26) -> CleaningResult:
    job = log.compaction.begin(now_ms, map_bytes_max)
    assert job is not None
    job.run()
    result = log.compaction.complete(job)
    assert result is not None, (job.error, log.compaction.uncleanable)
    return result


def table(log: PartitionLog) -> dict[str, str | None]:
    """What a consumer that reads everything knows."""
    return {
        (record.key or b"").decode(): None if record.value is None else record.value.decode()
        for record in read_all(log, max_bytes=10**6)
    }


def layout(log: PartitionLog) -> list[tuple[int, str | None]]:
    return [(r.offset, None if r.value is None else r.value.decode()) for r in read_all(log, max_bytes=10**6)]


def files(log: PartitionLog) -> set[str]:
    return {path.suffix for path in log.directory.iterdir()}
