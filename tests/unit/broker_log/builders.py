"""Logs and batches for tests."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from broker.log.load_report import LoadReport
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from broker.log.results import AppendOrigin, AppendResult, TimestampOffset
from broker.log.time_lookup import Search, find
from broker.storage.manager import LogManager
from wire.batch import Record, build_batch, iterate_batches

NOW_MS = 1_700_000_000_000
TOPIC = "orders"
TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
SMALL = LogConfig(segment_bytes=4096, index_interval_bytes=256)


def records(*values: str, at_ms: int = NOW_MS, step_ms: int = 0, key: bytes | None = b"k") -> list[Record]:
    return [Record(0, at_ms + number * step_ms, key, value.encode()) for number, value in enumerate(values)]


def batch(*values: str, at_ms: int = NOW_MS, **options: Any) -> bytearray:
    return build_batch(records(*(values or ("v",)), at_ms=at_ms), **options)


def idempotent(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytearray:
    values = [f"p{producer_id}s{sequence + number}" for number in range(count)]
    return build_batch(
        records(*values), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def open_manager(
    directory: Path, config: LogConfig = SMALL, now_ms: int = NOW_MS
) -> tuple[LogManager, LoadReport]:
    manager = LogManager([directory], cluster_id="test", node_id=0)
    report = manager.load(lambda _: config, now_ms)
    for log in manager.logs.values():
        log.advance_high_watermark()
    return manager, report


def new_log_in(manager: LogManager, config: LogConfig = SMALL) -> PartitionLog:
    return manager.create(TOPIC, 0, TOPIC_ID, config, NOW_MS)


def new_log(directory: Path, config: LogConfig = SMALL) -> PartitionLog:
    return new_log_in(open_manager(directory, config)[0], config)


def append(
    log: PartitionLog,
    data: bytearray,
    *,
    now_ms: int = NOW_MS,
    leader_epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> AppendResult:
    result = log.append(data, now_ms=now_ms, leader_epoch=leader_epoch, origin=origin)
    log.advance_high_watermark()
    return result


def fill(log: PartitionLog, count: int, *, payload_bytes: int = 300) -> None:
    """`count` batches of one record each, a millisecond apart."""
    for number in range(count):
        value = f"{log.log_end_offset}:".ljust(payload_bytes, "x")
        append(log, batch(value, at_ms=NOW_MS + number))


def flush(manager: LogManager) -> None:
    """A flush and a checkpoint, as the broker's tick does them."""
    flush_round = manager.begin_flush(NOW_MS, within_ms=10**12)
    if flush_round is not None:
        flush_round.run()
        assert manager.complete_flush(flush_round) == []
    job = manager.begin_checkpoint()
    if job is not None:
        job.run()
        manager.complete_checkpoint(job)


def crash(manager: LogManager) -> None:
    """The process is gone: locks fall, nothing is written."""
    manager._directories.unlock()
    for log in manager.logs.values():
        log.release_files()


def read_all(log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1000) -> list[Record]:
    """Everything a consumer gets from `offset` (default: the log start) to the high watermark."""
    found: list[Record] = []
    offset = log.log_start_offset if offset is None else offset
    while offset < log.high_watermark:
        data = log.reading.read_bytes(offset, max_bytes, up_to=log.high_watermark, min_one_batch=True)
        if not data:
            break
        for record in whole_batches(data):
            if record.offset >= offset:
                found.append(record)
        offset = found[-1].offset + 1
    return found


def whole_batches(data: bytes) -> list[Record]:
    """The records of the batches that are complete, as a client takes them out of a Fetch."""
    end = 0
    while end + 12 <= len(data):
        size = int.from_bytes(data[end + 8 : end + 12], "big") + 12
        if end + size > len(data):
            break
        end += size
    return [
        record
        for at, header in iterate_batches(data[:end])
        for record in records_of(data[at : at + header.size_bytes], header)
    ]


def time_found(log: PartitionLog, timestamp_ms: int, *, up_to: int | None = None) -> TimestampOffset | None:
    """What a look-up answers in the end, wherever it is done."""
    return _searched(log.reading.offset_for_timestamp(timestamp_ms, up_to=up_to))


def latest_found(log: PartitionLog, *, up_to: int) -> TimestampOffset | None:
    """As `time_found`."""
    return _searched(log.reading.offset_of_latest(up_to=up_to))


def _searched(found: TimestampOffset | Search | None) -> TimestampOffset | None:
    if found is None or isinstance(found, TimestampOffset):
        return found
    steps = find(found)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("TimestampOffset | None", end.value)


def values(found: Sequence[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in found]
