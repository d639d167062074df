"""What the files of a log say, read from the disk without a broker, and what is damaged in them.

Segments, their indexes, producer snapshots and checkpoints, ours or Apache Kafka's. Memory does not grow with
a file's size, damage does not end the reading where the next batch can still be found.
"""

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.log.batch_scan import is_whole
from broker.log.checkpoint_text import (
    CheckpointCorrupt,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
)
from broker.log.offset_index import ENTRY_SIZE as INDEX_ENTRY_SIZE
from broker.log.offset_index import OffsetIndex
from broker.log.producer_snapshot import SnapshotCorrupt, decode_snapshot
from broker.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from broker.log.time_index import TimeIndex
from broker.log.txn_index import TxnIndexCorrupt, parse_txn_index
from ctl.tools.record_dump import Decoder, records_in
from wire.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    Buffer,
    check_crc,
    parse_header,
)

CODECS: Final = {
    CODEC_NONE: "none",
    CODEC_GZIP: "gzip",
    CODEC_SNAPPY: "snappy",
    CODEC_LZ4: "lz4",
    CODEC_ZSTD: "zstd",
}


class Line(NamedTuple):
    """One thing that a file says, in Kafka's words."""

    kind: str
    facts: dict[str, Any]


class Damage(NamedTuple):
    """Something that no sound file says."""

    position: int
    """In the file, -1 where it is the file as a whole."""
    reason: str


class Wanted(NamedTuple):
    """How closely to look."""

    records: bool = False
    verify_index: bool = False
    decoder: Decoder | None = None


Found = Iterator[Line | Damage]


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Files as they are; of directories (a partition's or a broker's) every file that we can read.

    Raises: FileNotFoundError.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        if path.is_dir():
            inside = sorted(path.rglob("*"))
            found += [each for each in inside if each.is_file() and _reader_of(each) is not None]
        else:
            found.append(path)
    return found


def dump(path: Path, wanted: Wanted) -> Found:
    """What one file says. Raises: OSError."""
    reader = _reader_of(path)
    if reader is None:
        yield Damage(-1, "no file of a log by its name")
        return
    yield from reader(path, wanted)


def _reader_of(path: Path) -> Callable[[Path, Wanted], Found] | None:
    if path.suffix in _SEGMENT_FILES and not _base_offset_of(path):
        return None
    return _SEGMENT_FILES.get(path.suffix) or _NAMED_FILES.get(path.name)


def _base_offset_of(path: Path) -> str | None:
    return path.stem if path.stem.isascii() and path.stem.isdigit() else None


@contextmanager
def _mapped(path: Path) -> Iterator[Buffer]:
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            yield view


# Segments


def _dump_log(path: Path, wanted: Wanted) -> Found:
    with _mapped(path) as data:
        at, next_offset = 0, int(path.stem)
        while len(data) - at >= HEADER_SIZE:
            header = parse_header(data, at)
            if not is_whole(header, len(data) - at):
                yield Damage(at, _why_no_batch(header, len(data) - at))
                return
            batch = bytes(data[at : at + header.size_bytes])
            fault = _fault_of(batch, header)
            yield Line("batch", {**_facts_of(header), "position": at, "isvalid": fault is None})
            if fault is not None:
                yield Damage(at, fault)
            if header.base_offset < next_offset:
                yield Damage(at, f"offset {header.base_offset} follows offset {next_offset - 1}")
            if wanted.records or wanted.decoder is not None:
                yield from _dump_records(batch, header, at, wanted)
            next_offset = header.next_offset
            at += header.size_bytes
        if at < len(data):
            yield Damage(at, f"{len(data) - at} bytes follow the last batch")


def _fault_of(batch: bytes, header: BatchHeader) -> str | None:
    try:
        check_crc(batch, 0, header)
    except BatchError as error:
        return error.message
    return None


def _why_no_batch(header: BatchHeader, bytes_left: int) -> str:
    if header.magic in (0, 1):
        return f"message format {header.magic} is not read"
    if header.magic != 2 or header.batch_length < HEADER_SIZE - 12:
        return "no batch begins here"
    return f"a batch of {header.size_bytes} bytes is cut off after {bytes_left}"


def _facts_of(header: BatchHeader) -> dict[str, Any]:
    horizon_ms = header.base_timestamp_ms if header.attributes & DELETE_HORIZON_BIT else None
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": horizon_ms,
        "LogAppendTime" if header.is_log_append_time else "CreateTime": header.max_timestamp_ms,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": CODECS.get(header.codec, str(header.codec)),
        "crc": header.crc,
    }


def _dump_records(batch: bytes, header: BatchHeader, at: int, wanted: Wanted) -> Found:
    try:
        for facts in records_in(batch, header, wanted.decoder):
            yield Line("record", facts)
    except ValueError as error:
        yield Damage(at, f"records from offset {header.base_offset} on: {error}")


# Indexes


def _dump_index(path: Path, wanted: Wanted) -> Found:
    data = path.read_bytes()
    index = OffsetIndex(int(path.stem), data)
    if len(data) % INDEX_ENTRY_SIZE:
        yield Damage(-1, f"{len(data)} bytes are no multiple of {INDEX_ENTRY_SIZE}")
    if not index.is_sound(2**32):
        yield Damage(-1, "offsets or positions do not increase")
    with _segment_of(path, wanted) as batch_at:
        for offset, position in index:
            yield Line("index", {"offset": offset, "position": position})
            if batch_at is None:
                continue
            header = batch_at(position)
            if header is None or header.last_offset != offset:
                yield Damage(-1, f"no batch at position {position} ends with offset {offset}")


def _dump_time_index(path: Path, wanted: Wanted) -> Found:
    data = path.read_bytes()
    index = TimeIndex(int(path.stem), data)
    if len(data) % TIME_ENTRY_SIZE:
        yield Damage(-1, f"{len(data)} bytes are no multiple of {TIME_ENTRY_SIZE}")
    if not index.is_sound():
        yield Damage(-1, "timestamps do not increase, or offsets fall")
    latest = _latest_timestamps(path.with_suffix(".log")) if wanted.verify_index else None
    for number in range(len(index)):
        timestamp_ms, offset = index.entry(number)
        yield Line("timeindex", {"timestamp": timestamp_ms, "offset": offset})
        if latest is not None and latest.get(offset) != timestamp_ms:
            yield Damage(-1, f"the batch that ends with offset {offset} has no timestamp {timestamp_ms}")


def _dump_txn_index(path: Path, wanted: Wanted) -> Found:
    try:
        entries = parse_txn_index(path.read_bytes(), int(path.stem))
    except TxnIndexCorrupt as error:
        yield Damage(-1, str(error))
        return
    markers = _control_offsets(path.with_suffix(".log")) if wanted.verify_index else None
    for entry in entries:
        yield Line(
            "txnindex",
            {
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            },
        )
        if markers is not None and markers.get(entry.last_offset) != entry.producer_id:
            yield Damage(-1, f"no marker of producer {entry.producer_id} at offset {entry.last_offset}")


@contextmanager
def _segment_of(path: Path, wanted: Wanted) -> Iterator[Callable[[int], BatchHeader | None] | None]:
    """The header at a position of the index's segment; None when it is not to be looked at."""
    log = path.with_suffix(".log")
    if not wanted.verify_index or not log.exists():
        yield None
        return
    with _mapped(log) as data:

        def batch_at(position: int) -> BatchHeader | None:
            if len(data) - position < HEADER_SIZE:
                return None
            header = parse_header(data, position)
            return header if is_whole(header, len(data) - position) else None

        yield batch_at


def _headers(log: Path) -> Iterator[BatchHeader]:
    with _mapped(log) as data:
        at = 0
        while len(data) - at >= HEADER_SIZE:
            header = parse_header(data, at)
            if not is_whole(header, len(data) - at):
                return
            yield header
            at += header.size_bytes


def _latest_timestamps(log: Path) -> dict[int, int] | None:
    if not log.exists():
        return None
    return {header.last_offset: header.max_timestamp_ms for header in _headers(log)}


def _control_offsets(log: Path) -> dict[int, int] | None:
    if not log.exists():
        return None
    return {header.base_offset: header.producer_id for header in _headers(log) if header.is_control}


# Small files


def _dump_snapshot(path: Path, wanted: Wanted) -> Found:
    del wanted
    try:
        states = decode_snapshot(path.read_bytes())
    except SnapshotCorrupt as error:
        yield Damage(-1, str(error))
        return
    for producer_id, entry in states.entries.items():
        last = entry.batches[-1] if entry.batches else None
        facts = {
            "producerId": producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": states.transactions.first_offset(producer_id),
            "lastTimestamp": entry.active_ms,
            "firstSequence": last.first_sequence if last else None,
            "lastSequence": last.last_sequence if last else None,
            "lastOffset": last.last_offset if last else None,
        }
        yield Line("producer", facts)


def _dump_text(parse: Callable[[str], list[Line]]) -> Callable[[Path, Wanted], Found]:
    def read(path: Path, wanted: Wanted) -> Found:
        del wanted
        try:
            yield from parse(path.read_text())
        except (CheckpointCorrupt, UnicodeDecodeError) as error:
            yield Damage(-1, str(error))

    return read


def _epochs(text: str) -> list[Line]:
    return [Line("epoch", {"epoch": epoch, "startOffset": start}) for epoch, start in parse_epochs(text)]


def _offsets(text: str) -> list[Line]:
    return [
        Line("checkpoint", {"topic": topic, "partition": partition, "offset": offset})
        for (topic, partition), offset in parse_offsets(text).items()
    ]


def _metadata(text: str) -> list[Line]:
    return [Line("metadata", {"topicId": str(parse_partition_metadata(text))})]


_SEGMENT_FILES: Final[dict[str, Callable[[Path, Wanted], Found]]] = {
    ".log": _dump_log,
    ".index": _dump_index,
    ".timeindex": _dump_time_index,
    ".txnindex": _dump_txn_index,
    ".snapshot": _dump_snapshot,
}
_NAMED_FILES: Final[dict[str, Callable[[Path, Wanted], Found]]] = {
    "leader-epoch-checkpoint": _dump_text(_epochs),
    "partition.metadata": _dump_text(_metadata),
    "recovery-point-offset-checkpoint": _dump_text(_offsets),
    "log-start-offset-checkpoint": _dump_text(_offsets),
    "replication-offset-checkpoint": _dump_text(_offsets),
    "cleaner-offset-checkpoint": _dump_text(_offsets),
}
