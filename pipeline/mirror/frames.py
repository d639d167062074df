"""The two messages that carry records, by hand: their bytes are neither decoded nor copied once more. Pure.

Fetch 4-11 of one partition and Produce 3-8 of one batch; no version among them is flexible.
Source: Kafka FetchRequest.json, FetchResponse.json, ProduceRequest.json.
"""

import struct
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.faults import MalformedFrame

_CORRELATION_BYTES: Final = 4
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_TOP_LEVEL_ERROR_FROM: Final = 7
_LOG_START_FROM: Final = 5
_PREFERRED_REPLICA_FROM: Final = 11


class FetchedPartition(NamedTuple):
    """The one partition of a Fetch reply."""

    error_code: ErrorCode
    high_watermark: int
    throttle_ms: int
    aborted: list[tuple[int, int]]
    """(producer id, first offset)."""
    frame: bytes
    """The reply; the records are its bytes from `records_at` up to `records_end`."""
    records_at: int
    records_end: int


def parse_fetch(frame: bytes, version: int) -> FetchedPartition:
    """A reply to a request for one partition. Raises: MalformedFrame."""
    try:
        return _parse_fetch(frame, version)
    except (struct.error, ValueError) as error:
        raise MalformedFrame(f"Fetch reply v{version}: {error}") from error


def _parse_fetch(frame: bytes, version: int) -> FetchedPartition:
    at = _CORRELATION_BYTES
    (throttle_ms,) = _I32.unpack_from(frame, at)
    at += 4
    if version >= _TOP_LEVEL_ERROR_FROM:
        (error,) = _I16.unpack_from(frame, at)
        at += 2 + 4  # and the session id
        if error:
            return FetchedPartition(ErrorCode(error), -1, throttle_ms, [], frame, at, at)
    (topics,) = _I32.unpack_from(frame, at)
    (name_size,) = _I16.unpack_from(frame, at + 4)
    at += 4 + 2 + name_size
    (partitions,) = _I32.unpack_from(frame, at)
    if (topics, partitions) != (1, 1):
        raise ValueError(f"{topics} topics, {partitions} partitions")
    _, error, high_watermark, _ = _PARTITION.unpack_from(frame, at + 4)
    at += 4 + _PARTITION.size + (8 if version >= _LOG_START_FROM else 0)
    (count,) = _I32.unpack_from(frame, at)
    at += 4
    aborted = [_ABORTED.unpack_from(frame, at + each * _ABORTED.size) for each in range(max(count, 0))]
    at += len(aborted) * _ABORTED.size + (4 if version >= _PREFERRED_REPLICA_FROM else 0)
    (size,) = _I32.unpack_from(frame, at)
    at += 4
    end = at + max(size, 0)
    if end > len(frame):
        raise ValueError(f"{size} bytes of records in a reply of {len(frame)}")
    return FetchedPartition(ErrorCode(error), high_watermark, throttle_ms, aborted, frame, at, end)


def produce_head(
    transactional_id: str | None, timeout_ms: int, topic: str, partition: int, records_size: int
) -> bytes:
    """The body of a Produce request of acks=all up to its records, which follow and end it."""
    identity = b"\xff\xff" if transactional_id is None else _string(transactional_id)
    return b"".join(
        (
            identity,
            _I16.pack(-1),
            _I32.pack(timeout_ms),
            _I32.pack(1),
            _string(topic),
            _I32.pack(1),
            _I32.pack(partition),
            _I32.pack(records_size),
        )
    )


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _I16.pack(len(encoded)) + encoded
