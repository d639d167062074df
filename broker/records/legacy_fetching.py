"""Fetch 0-3: batches leave as messages of the format that a client of this version reads.

A batch is converted as it is read, so that what has no form in the old formats (control batches) neither
counts as found nor stops a consumer in front of it. Converting costs time for every message, so an answer
holds little, partitions take turns at being first, and it is done in steps, between which others have their
turn.
"""

from collections.abc import Generator
from time import perf_counter_ns
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.frames.fetch_reply import PartitionRead
from broker.log.results import LogSlice
from broker.records.fetching import Fetch
from wire.batch import BatchError
from wire.hot.fetch import FetchPartition, FetchScan
from wire.legacy.conversion import message_set_of
from wire.legacy.message_set import MAGIC_V0, MAGIC_V1

LEGACY_BELOW: Final = 4
"""Versions whose clients read no record batches."""
ANSWER_BYTES_MAX: Final = 512 * 1024
"""Of one answer, unless its first message is larger."""
_V1_FROM: Final = 2
_ONE_WHOLE_FROM: Final = 3
"""From here on the first message is never cut (KIP-74)."""
_BYTES_MAX: Final = 2**31 - 1
_READS_MAX: Final = 8
"""Slices that are opened for one answer; partitions behind them have their turn with the next."""
_DONE: Final = object()
_NONE: Final = int(ErrorCode.none.value)
_UNKNOWN_TO_OLD: Final = {
    int(ErrorCode.kafka_storage_error.value): int(ErrorCode.not_leader_or_follower.value)
}
"""What Kafka tells clients that do not know a code."""


def in_turn(scan: FetchScan, turn: int) -> FetchScan:
    """The request with another partition first in each turn, and bounds that suit conversion."""
    count = len(scan.partitions)
    first = turn % count if count else 0
    return scan._replace(
        max_bytes=min(scan.max_bytes, ANSWER_BYTES_MAX),
        partitions=scan.partitions[first:] + scan.partitions[:first],
    )


class _Room(NamedTuple):
    """How much one partition's messages may take."""

    bytes_max: int
    first_bytes_max: int
    """Of the first message alone."""
    cuts_first: bool
    """A larger first message comes cut off: the client's own limit is too small for it."""


class LegacyFetch(Fetch):
    """One Fetch of an old client."""

    __slots__ = ("_gave_way", "_reads_left", "_steps")

    def attempt(self, final: bool = False) -> None:
        """Answer if there is enough, or if it is time; else wait (on)."""
        self._reads_left = _READS_MAX
        self._gave_way = False
        self._steps = self._attempt(final)
        self._step()

    def _step(self) -> None:
        """Convert a little more."""
        if next(self._steps, _DONE) is not _DONE:
            self._gave_way = True
            self._deps.later.after_others(self.call, self._step)

    def _attempt(self, final: bool) -> Generator[None, None, None]:
        started_ns = perf_counter_ns()
        now_ms = self._deps.now_ms()
        left = min(self.scan.max_bytes, self._deps.config.fetch_bytes_max)
        allowances: dict[str, int] = {}
        reads: list[PartitionRead] = []
        is_first = True
        for wanted in self.context.wanted:
            read = yield from self._read_old(wanted, left, is_first, allowances, now_ms)
            if read.records is not None:
                is_first = False
                left -= read.records_bytes
            reads.append(read)
        # What came meanwhile told nobody: it may be what would be waited for.
        self._conclude(reads, started_ns, final=final or self._gave_way)

    def _read_old(
        self, wanted: FetchPartition, left: int, is_first: bool, allowances: dict[str, int], now_ms: int
    ) -> Generator[None, None, PartitionRead]:
        room = self._room(wanted, left, is_first)
        passed = wanted
        if not self._reads_left or (room.bytes_max == 0 and room.first_bytes_max == 0):
            return _for_old(self._read(wanted, 0, False, allowances, now_ms))
        while self._reads_left:
            self._reads_left -= 1
            found = self._read(passed, left, room.first_bytes_max > 0, allowances, now_ms)
            read, next_offset = yield from self._converted(found, room, allowances)
            if read.error_code != _NONE or read.records or next_offset == passed.fetch_offset:
                break
            passed = passed._replace(fetch_offset=next_offset)
        return read._replace(wanted=wanted)

    def _room(self, wanted: FetchPartition, left: int, is_first: bool) -> _Room:
        bytes_max = max(0, min(wanted.max_bytes, left))
        if self.call.api_version >= _ONE_WHOLE_FROM:
            return _Room(bytes_max, _BYTES_MAX if is_first else 0, cuts_first=False)
        if is_first or wanted.max_bytes <= left:
            return _Room(bytes_max, max(0, wanted.max_bytes), cuts_first=True)
        return _Room(bytes_max, 0, cuts_first=False)

    def _converted(
        self, read: PartitionRead, room: _Room, allowances: dict[str, int]
    ) -> Generator[None, None, tuple[PartitionRead, int]]:
        """The read with messages instead of batches, and the offset behind them."""
        at = read.wanted.fetch_offset
        if not isinstance(read.records, LogSlice):
            return _for_old(read), at
        bytes_max = room.bytes_max
        if read.instance_id is not None:
            allowances[read.instance_id] += read.records_bytes
            bytes_max = min(bytes_max, max(0, allowances[read.instance_id]))
        try:
            down = yield from message_set_of(
                memoryview(read.records.read()),
                MAGIC_V1 if self.call.api_version >= _V1_FROM else MAGIC_V0,
                at,
                bytes_max,
                first_bytes_max=room.first_bytes_max,
                cuts_first=room.cuts_first,
            )
        except BatchError as error:
            return PartitionRead(read.wanted, int(error.error_code.value), read.instance_id), at
        except OSError as error:
            self._deps.storage_failed("a fetch cannot be read", error)
            code = int(ErrorCode.kafka_storage_error.value)
            return _for_old(PartitionRead(read.wanted, code, read.instance_id)), at
        if read.instance_id is not None:
            allowances[read.instance_id] -= len(down.messages)
        return read._replace(records=down.messages or None), down.next_offset


def _for_old(read: PartitionRead) -> PartitionRead:
    return read._replace(error_code=_UNKNOWN_TO_OLD.get(read.error_code, read.error_code))
