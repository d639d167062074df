"""Apache Kafka's DumpLogSegments reads what our log writes and finds nothing wrong with it."""

import re
from pathlib import Path

import cramjam
import pytest

from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from tests.integration.kafka_jars import run_java
from tests.unit.broker_log.builders import (
    NOW_MS,
    append,
    batch,
    crash,
    flush,
    idempotent,
    new_log_in,
    open_manager,
    records,
)
from tests.unit.broker_log.test_transactions import end, put
from wire.batch import TRANSACTIONAL_BIT, Record, build_batch, encode_records

pytestmark = pytest.mark.java

DUMP = "kafka.tools.DumpLogSegments"
FAULTS = (
    "Mismatches in :",
    "Non-consecutive offsets in",
    "Found timestamp mismatch in :",
    "Found out of order timestamp in :",
    "indexed offsets are not found in the log",
    "Snapshot is corrupt",
    "isvalid: false",
    "Exception",
)
CONFIG = LogConfig(segment_bytes=6_000, index_interval_bytes=500)


def dump(
    directory: Path,
    *options: str,
    suffixes: tuple[str, ...] = (".log", ".index", ".timeindex", ".txnindex", ".snapshot"),
    compacted: bool = False,
) -> str:
    """`compacted`: the tool calls every gap a fault."""
    files = sorted(path for path in directory.iterdir() if path.suffix in suffixes)
    assert files
    ran = run_java(DUMP, *options, "--files", ",".join(map(str, files)))
    output = ran.stdout + ran.stderr
    assert ran.returncode == 0, output
    faults = [fault for fault in FAULTS if fault in output]
    if compacted and "Non-consecutive offsets in" in faults:
        faults.remove("Non-consecutive offsets in")
    assert not faults, output
    return output


def java_lz4(plain: bytes) -> bytes:
    """A frame of one independent block, as Java clients write it: Kafka's Java reads no dependent blocks."""
    block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    return b"\x04\x22\x4d\x18\x60\x40\x82" + len(block).to_bytes(4, "little") + block + bytes(4)


def write_variety(log: PartitionLog, count: int = 120) -> None:
    """Every codec, idempotent producers, equal and falling timestamps, several epochs."""
    compress = {
        1: cramjam.gzip.compress,
        2: cramjam.snappy.compress_raw,
        3: java_lz4,
        4: cramjam.zstd.compress,
    }
    for number in range(count):
        at_ms = NOW_MS + (number * 7) % 50 + number
        rows = records(*(f"{number}-{row}" * 20 for row in range(3)), at_ms=at_ms, step_ms=2)
        codec = number % 5
        if codec:
            payload = bytes(compress[codec](encode_records(rows)))
            data = build_batch(rows, attributes=codec, payload=payload)
        elif number % 2:
            data = idempotent(1000 + number, 5, 2)
        else:
            data = build_batch(rows)
        append(log, data, leader_epoch=number // 50)


def test_a_closed_log_is_sound(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    write_variety(log)
    assert log.segment_count > 1
    expected = log.log_end_offset
    assert manager.close() == []
    output = dump(log.directory, "--deep-iteration")
    offsets = [int(found) for found in re.findall(r"\| offset: (\d+)", output)]
    assert offsets == list(range(expected))
    assert "isvalid: true" in output
    assert "producerId: 1005" in output
    dump(log.directory, "--index-sanity-check")
    dump(log.directory, "--verify-index-only")


def test_a_recovered_log_is_sound(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    write_variety(log, 60)
    flush(manager)
    write_variety(log, 60)
    crash(manager)
    with max(log.directory.glob("*.log")).open("ab") as file:
        file.write(batch("torn")[:-3])
    manager, report = open_manager(tmp_path, CONFIG)
    assert report.truncated_bytes > 0
    recovered = manager.logs[log.topic, 0]
    write_variety(recovered, 10)
    assert manager.close() == []
    dump(log.directory, "--deep-iteration")
    dump(log.directory, "--index-sanity-check")


def test_a_trimmed_log_is_sound(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    write_variety(log)
    log.retention.delete_records_before(log.log_end_offset)
    write_variety(log, 20)
    assert manager.close() == []
    dump(log.directory, "--deep-iteration")


def test_log_append_time_is_sound(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4000, index_interval_bytes=500, message_timestamp_type="LogAppendTime")
    manager, _ = open_manager(tmp_path, config)
    log = new_log_in(manager, config)
    for number in range(60):
        append(log, batch("x" * 200, at_ms=5), now_ms=NOW_MS + number)
    assert manager.close() == []
    assert "LogAppendTime: " + str(NOW_MS) in dump(log.directory, "--deep-iteration")


def write_transactions(log: PartitionLog, count: int = 60) -> None:
    """Committed and aborted ones side by side, the last one open, with a new coordinator on the way."""
    sequences: dict[int, int] = {}
    for number in range(count):
        producer_id = number % 5
        sequence = sequences.get(producer_id, 0)
        sequences[producer_id] = sequence + 2
        data = build_batch(
            records(f"{number}" * 20, f"{number}!", key=b"k%d" % (number % 7), at_ms=NOW_MS + number),
            producer_id=producer_id,
            producer_epoch=3,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        put(log, data, AppendOrigin.CLIENT)
        if number % 3 == 2:
            end(log, producer_id, commit=number % 2 == 0, epoch=3, coordinator_epoch=number // 30)
    log.advance_high_watermark()


def test_a_log_with_transactions_is_sound(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    write_transactions(log)
    aborted = log.reading.aborted(0, log.log_end_offset)
    still_open = [p for p in log.producers.describe() if p.txn_start_offset >= 0]
    assert len(aborted) > 5 and log.segment_count > 1 and still_open
    assert manager.close() == []
    output = dump(log.directory, "--deep-iteration")
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in output
    assert "endTxnMarker: ABORT coordinatorEpoch: 1" in output
    for entry in aborted:
        assert (
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        ) in output
    for producer in still_open:
        assert f"currentTxnFirstOffset: OptionalLong[{producer.txn_start_offset}]" in output
    dump(log.directory, "--index-sanity-check")


def test_a_truncated_log_is_sound(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    write_transactions(log)
    for target in (150, 91, 90, 30):
        log.truncation.truncate_to(min(target, log.log_end_offset))
        write_variety(log, 9)
        write_transactions(log, 10) if target == 30 else None
    assert manager.close() == []
    dump(log.directory, "--deep-iteration")
    dump(log.directory, "--index-sanity-check")


def test_a_compacted_log_is_sound(tmp_path: Path) -> None:
    config = LogConfig(
        segment_bytes=6_000,
        index_interval_bytes=500,
        cleanup_policy=frozenset({"compact"}),
        delete_retention_ms=0,
    )
    manager, _ = open_manager(tmp_path, config)
    log = new_log_in(manager, config)
    for round_ in range(3):
        write_transactions(log, 30)
        write_variety(log, 60)
        tombstone = [Record(0, NOW_MS, b"k1", None), Record(0, NOW_MS + 1, b"live", b"v")]
        append(log, build_batch(tombstone))
        for producer_id in range(5):
            end(log, producer_id, commit=True, epoch=4 + round_, coordinator_epoch=5)
        log.advance_high_watermark()
        log.rolling.roll(log.log_end_offset, NOW_MS)
        log.durability.flush()
        job = log.compaction.begin(NOW_MS + round_ * 10_000)
        assert job is not None
        job.run()
        assert log.compaction.complete(job) is not None
        log.producers.states.entries.clear()
    log.truncation.truncate_to(log.log_end_offset)
    assert manager.close() == []
    output = dump(log.directory, "--deep-iteration", compacted=True)
    assert "deleteHorizonMs: OptionalLong[" in output
    assert "count: 0" in output, "empty batches stay for producers"
    dump(log.directory, "--index-sanity-check", compacted=True)
