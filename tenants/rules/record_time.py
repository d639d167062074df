"""How long a group has been behind: the time of the first record that it has not consumed. Pure.

What a reader of committed records never sees (control batches, aborted transactions) is not behind anybody.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wire.batch import DELETE_HORIZON_BIT, HEADER_SIZE, BatchError, BatchHeader, Buffer
from wire.compression import PayloadUnreadable, decompress
from wire.record_views import seen_committed, whole_batches
from wire.record_walk import check_count, record_times

UNKNOWN_MS: Final = -1
"""The time of a record that has none, or of a batch that cannot be looked into."""
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that a batch may decompress to when the time of a record within is looked for; else it is unknown."""
RECORDS_WALKED_MAX: Final = 20_000
"""Records of a batch in which one is looked for; in a larger batch each has the time of its first."""
_ANY_TIME: Final = -(2**63)


class Times(NamedTuple):
    """What one answer of a broker says."""

    found: dict[int, int]
    """By offset the time (ms) of the first record that is not in front of it; those that it tells of."""
    position: int
    """The offset up to which the answer was looked through: records of the others are not in front of it."""


def first_times(records: Buffer, aborted: Iterable[tuple[int, int]], offsets: Sequence[int]) -> Times:
    """What an answer says of offsets, which ascend and are not in front of where it was asked to begin.

    A batch is looked into once however many offsets are in it, and only when its header does not say it.
    """
    left = list(reversed(offsets))
    position = offsets[0]
    found: dict[int, int] = {}
    try:
        for at, header, is_seen in seen_committed(whole_batches(records), aborted):
            if not left:
                break
            if is_seen and header.record_count:
                wanted = [offset for offset in reversed(left) if offset <= header.last_offset]
                found |= _times_in(records[at : at + header.size_bytes], header, wanted)
                left = [offset for offset in left if offset not in found]
            position = max(position, header.next_offset)
    except BatchError:
        found |= dict.fromkeys(left, UNKNOWN_MS)
    return Times(found, position)


def _times_in(batch: Buffer, header: BatchHeader, offsets: Sequence[int]) -> dict[int, int]:
    """Of offsets that ascend, those that a batch has a record for."""
    has_all = header.record_count == header.last_offset - header.base_offset + 1
    is_dated = not header.attributes & DELETE_HORIZON_BIT
    if has_all and header.is_log_append_time:
        return dict.fromkeys(offsets, _time(header.max_timestamp_ms))
    found: dict[int, int] = {}
    if has_all and is_dated:
        found = {
            offset: _time(header.base_timestamp_ms) for offset in offsets if offset <= header.base_offset
        }
    inside = [offset for offset in offsets if offset not in found]
    if not inside:
        return found
    if header.record_count > RECORDS_WALKED_MAX:
        # What a horizon took the place of was the first's time; the last time there is says as much then.
        time_ms = header.base_timestamp_ms if is_dated else header.max_timestamp_ms
        return found | dict.fromkeys(inside, _time(time_ms))
    try:
        for offset, time_ms in _looked_into(batch, header, inside):
            found[offset] = _time(header.max_timestamp_ms if header.is_log_append_time else time_ms)
    except (BatchError, PayloadUnreadable):
        found |= {offset: UNKNOWN_MS for offset in inside if offset not in found}
    return found


def _looked_into(batch: Buffer, header: BatchHeader, offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Raises: BatchError, PayloadUnreadable."""
    check_count(header)
    payload = decompress(bytes(batch[HEADER_SIZE:]), header.codec, INFLATED_BYTES_MAX)
    waiting = list(reversed(offsets))
    for record in record_times(payload, header, _ANY_TIME, waiting[-1]):
        if record is None:
            continue
        time_ms, offset = record
        while waiting and waiting[-1] <= offset:
            yield waiting.pop(), time_ms
        if not waiting:
            return


def _time(time_ms: int) -> int:
    return max(time_ms, UNKNOWN_MS)


def lag_seconds(time_ms: int, now_ms: int) -> float | None:
    """The age of the first record that is not consumed; a record from the future is not behind (0), None for
    one without a time."""
    return None if time_ms < 0 else max(0, now_ms - time_ms) / 1000


class Oldest(NamedTuple):
    """What is known of several."""

    seconds: float | None
    """The largest that is known, so one is so old at least; None: none is known."""
    is_whole: bool
    """Whether all are known."""


def oldest(seconds: Iterable[float | None]) -> Oldest:
    """Of a group's partitions."""
    every = list(seconds)
    known = [each for each in every if each is not None]
    return Oldest(max(known, default=None if every else 0.0), len(known) == len(every))


def largest(seconds: Iterable[float | None]) -> float | None:
    """That of a group; None as long as one of its partitions is not known."""
    found = oldest(seconds)
    return found.seconds if found.is_whole else None
