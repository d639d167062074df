"""Batches whose records are not what their header says, with a CRC that is right."""

from collections.abc import Sequence

from wire.batch import BatchHeader, Record, build_batch, encode_records, parse_header, seal_batch
from wire.compression import compress
from wire.varint import write_varint

NOW_MS = 1_700_000_000_000


def record(
    offset_delta: int = 0,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    key_size: int | None = None,
    value_size: int | None = None,
    length: int | None = None,
    behind: bytes = b"",
) -> bytes:
    """One encoded record; the sizes and `length` say something else than what is there, `behind` stands
    within its length behind its last field."""
    body = bytearray(b"\0")
    write_varint(body, 0)
    write_varint(body, offset_delta)
    for field, claimed in ((key, key_size), (value, value_size)):
        write_varint(body, claimed if claimed is not None else -1 if field is None else len(field))
        body += field or b""
    write_varint(body, 0)
    body += behind
    out = bytearray()
    write_varint(out, len(body) if length is None else length)
    return bytes(out + body)


def batch_of(payload: bytes, count: int, *, codec: int = 0) -> bytes:
    """A sealed batch that declares `count` records and holds this payload, compressed by `codec`."""
    header: BatchHeader = parse_header(build_batch([Record(0, NOW_MS, b"k", b"v")]))
    header = header._replace(
        attributes=codec, record_count=count, last_offset_delta=count - 1, max_timestamp_ms=NOW_MS
    )
    return bytes(seal_batch(header, compress(payload, codec))[1])


def malformed_batches(codec: int = 0) -> dict[str, bytes]:
    """What Apache answers INVALID_RECORD to, by what is wrong."""
    good = [record(number) for number in range(3)]
    return {
        "one declared as a thousand": batch_of(good[0], 1_000, codec=codec),
        "one declared as two milliards": batch_of(good[0], 2**31 - 1, codec=codec),
        "one declared as two": batch_of(good[0], 2, codec=codec),
        "three declared as one": batch_of(b"".join(good), 1, codec=codec),
        "three declared as two": batch_of(b"".join(good), 2, codec=codec),
        "a length that is too large": batch_of(good[0] + record(1, length=100), 2, codec=codec),
        "a length that is too small": batch_of(good[0] + record(1, length=6), 2, codec=codec),
        "a negative length": batch_of(good[0] + record(1, length=-2), 2, codec=codec),
        "a length of nothing": batch_of(good[0] + b"\0" * 8, 9, codec=codec),
        "a negative key length": batch_of(record(0, key_size=-2, key=b""), 1, codec=codec),
        "a key beyond its record": batch_of(record(0, key_size=50), 1, codec=codec),
        "a negative value length of two bytes": batch_of(
            record(0, value_size=-65, value=b""), 1, codec=codec
        ),
        "bytes behind the records": batch_of(good[0] + good[1] + b"\0\0\0", 2, codec=codec),
        "bytes behind the fields": batch_of(record(0, behind=b"\0\0"), 1, codec=codec),
        "the same offset delta thrice": batch_of(good[0] * 3, 3, codec=codec),
        "a first offset delta of one": batch_of(good[1], 1, codec=codec),
        "no records": batch_of(b"", 1, codec=codec),
    }


def encoded(rows: Sequence[Record]) -> bytes:
    """Right records, for what is done to them afterwards."""
    return encode_records(tuple(rows))
