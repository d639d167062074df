"""Replies to a Fetch of one partition. Pure; the layout is `wire.hot.fetch`."""

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from wire.faults import MalformedFrame
from wire.hot.fetch import read_answer


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
    throttle_ms, error, _, partitions = read_answer(memoryview(frame), version)
    try:
        if error:
            return FetchedPartition(ErrorCode(error), -1, throttle_ms, [], frame, 0, 0)
        (part,) = partitions
        error_code = ErrorCode(part.error_code)
    except ValueError as fault:
        raise MalformedFrame(f"Fetch reply v{version}: {fault}") from fault
    aborted = list(part.aborted)
    return FetchedPartition(
        error_code, part.high_watermark, throttle_ms, aborted, frame, part.start, part.end
    )
