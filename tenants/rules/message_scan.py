"""Looking through partitions for the messages that somebody wants to see: what is read next, what it may
cost, which messages are told. Pure: bytes come in as brokers answer them.

Forwards a partition is read from an offset on. Backwards it is read in windows of offsets, the newest first,
each from its begin; the first is one offset wide, for only then is known how many bytes offsets have.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tenants.rules.decoding import Note, Read
from tenants.rules.message_filter import Filter
from wire.batch import HEADER_SIZE, BatchError, BatchHeader, check_crc
from wire.compression import PayloadTooLarge, PayloadUnreadable, decompress
from wire.record_views import HEADERS_SEEN_MAX, RecordView, record_views, seen_committed, whole_batches
from wire.record_walk import check_count

RECORDS_MAX: Final = 20_000
"""Records that one view of messages looks at."""
FETCHED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes that brokers send for one view, and one batch more."""
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that the batches of one view have when they are decompressed, and one batch more."""
CPU_MS_MAX: Final = 2_000
"""CPU time of looking through records for one view, and one record more."""
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that one batch may decompress to; of a larger one is told that it cannot be shown."""
KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of values that one view tells; of keys as many, of headers `HEADERS_BYTES_SHOWN` a message."""
HEADERS_BYTES_SHOWN: Final = 4_096
"""Bytes of a message's headers that are shown; how many headers there are is told."""
HEADERS_SHOWN_MAX: Final = 20
"""Headers of a message that are shown; of one that is asked for alone a hundred."""
_CPU_NS_MAX: Final = CPU_MS_MAX * 1_000_000
_STEP_CPU_NS: Final = 20_000_000
_STEP_RECORDS: Final = 500
_STEP_BYTES: Final = 256 * 1024
_WINDOW_BYTES: Final = 512 * 1024
_ANSWER_BYTES_MIN: Final = 64 * 1024
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_GROWTH: Final = 4
_GROWTH_OVER_GAPS: Final = 16
_ANY: Final = Filter()


Steps: TypeAlias = Generator[list[RecordView] | None, Sequence[Read] | None, None]
"""None: others may have their turn. Records: they are to be decoded, and sent as they were read; None is sent
where there is no time for it."""


class Piece(NamedTuple):
    """The begin of a field of a record."""

    data: bytes
    size_bytes: int


class Message(NamedTuple):
    """A record that is told."""

    partition: int
    offset: int
    timestamp_ms: int
    is_log_append_time: bool
    key: Piece | None
    value: Piece | None
    headers: tuple[tuple[Piece, Piece | None], ...]
    """The first ones."""
    header_count: int
    size_bytes: int
    key_note: Note = Note()
    value_note: Note = Note()


class Asked(NamedTuple):
    """What somebody wants to see."""

    limit: int
    value_bytes_max: int
    filter: Filter
    newest_first: bool
    decodes: bool = False
    """Whether records are read by schemas, or not all of them may be seen: filters look at what is read."""


class Budget:
    """What one view has cost."""

    def __init__(self, cpu_ns: Callable[[], int]) -> None:
        """`cpu_ns`: CPU time of the thread that looks."""
        self.records = self.fetched_bytes = self.inflated_bytes = 0
        self._cpu_ns = cpu_ns
        self._spent_ns = self._step_ns = self._read_ns = 0
        self._is_late = False

    def begin_step(self) -> None:
        """From now on the thread looks for this view."""
        self._read_ns, self._step_ns = self._cpu_ns(), 0

    def look_at_clock(self) -> None:
        """Charge what the thread has spent."""
        now_ns = self._cpu_ns()
        self._spent_ns += now_ns - self._read_ns
        self._step_ns += now_ns - self._read_ns
        self._read_ns = now_ns

    def end(self) -> None:
        """There is no time left."""
        self._is_late = True

    @property
    def is_step_over(self) -> bool:
        """Whether it is others' turn."""
        return self._step_ns >= _STEP_CPU_NS

    @property
    def is_half_late(self) -> bool:
        """Whether half of the time is spent."""
        return self.is_late or 2 * self._spent_ns >= _CPU_NS_MAX

    @property
    def is_late(self) -> bool:
        """Whether the time is spent."""
        return self._is_late or self._spent_ns >= _CPU_NS_MAX

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is read."""
        return (
            self.is_late
            or self.records >= RECORDS_MAX
            or self.fetched_bytes >= FETCHED_BYTES_MAX
            or self.inflated_bytes >= INFLATED_BYTES_MAX
        )


class Unreadable(NamedTuple):
    """A batch that could not be looked into."""

    partition: int
    first_offset: int
    last_offset: int
    reason: str


class Look:
    """One partition, looked through from an offset on: from `low_offset` up to `high_offset`, exclusive."""

    def __init__(self, partition: int, start: int, end: int, at: int, asked: Asked, budget: Budget) -> None:
        """`start` and `end` of the log that readers see; `at`: where looking begins."""
        self.partition, self.log_start_offset, self.end_offset = partition, start, end
        self.asked, self.budget = asked, budget
        self.position = self._at = min(max(at, start), end)
        """`position`: the offset that is read next."""
        self.stop = end
        """The offset that is not read any more."""
        self._window_low = 0
        """The first offset that is wanted."""
        self.found: deque[Message] = deque()
        self.unreadable: list[Unreadable] = []
        self.is_placed = True
        """Whether it is known where it goes on."""
        self.fault: str | None = None
        """Why no more of it can be read."""
        self.answer_bytes_max = _ANSWER_BYTES_MAX
        """How much of it a broker is asked for at once."""

    @property
    def low_offset(self) -> int:
        return self._at

    @property
    def high_offset(self) -> int:
        return self.position

    @property
    def has_more(self) -> bool:
        """Whether there is more behind what was looked through."""
        return self.high_offset < self.end_offset

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be read of it now."""
        return self.fault is not None or self.position >= self.stop or self._is_full

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= self.asked.limit

    def take(self, records: memoryview, aborted: Iterable[tuple[int, int]]) -> Steps:
        """Look through what a broker answered, in steps."""
        self.budget.begin_step()
        self.budget.fetched_bytes += len(records)
        size_bytes = 0
        try:
            for at, header, is_seen in seen_committed(whole_batches(records), aborted):
                if self.is_done or self.budget.is_spent:
                    break
                if header.next_offset <= self.position:
                    continue
                is_whole = True
                if header.base_offset < self.stop:
                    size_bytes += header.size_bytes
                    if is_seen and header.record_count:
                        batch = records[at : at + header.size_bytes]
                        is_whole = yield from self._look_into(batch, header)
                if is_whole:
                    self.position = max(self.position, min(header.next_offset, self.stop))
        except BatchError as error:
            self.fault = error.message
        self._passed(size_bytes)

    def nothing(self) -> None:
        """There are no records from `position` on."""
        self.position = self.stop
        self._passed(0)

    def _look_into(
        self, batch: memoryview, header: BatchHeader
    ) -> Generator[list[RecordView] | None, Sequence[Read] | None, bool]:
        """Whether nothing that is wanted is left in the batch."""
        seen = bytes_seen = 0
        waiting: list[RecordView] = []
        at_once = self._decoded_at_once
        try:
            check_crc(batch, 0, header)
            check_count(header)
            payload = memoryview(decompress(bytes(batch[HEADER_SIZE:]), header.codec, BATCH_BYTES_MAX))
            self.budget.inflated_bytes += len(payload)
            for record in record_views(header, payload, self._sees_from(header), self.stop):
                seen += 1
                if record is not None:
                    bytes_seen += record.size_bytes
                    waiting.append(record)
                if len(waiting) >= at_once:
                    if (yield from self._see_all(waiting, header)):
                        return False
                    waiting = []
                if seen >= _STEP_RECORDS or bytes_seen >= _STEP_BYTES or self.budget.is_step_over:
                    if (yield from self._see_all(waiting, header)):
                        return False
                    waiting, seen, bytes_seen = [], 0, 0
                    yield None
                    self.budget.begin_step()
        except (BatchError, PayloadUnreadable) as error:
            if isinstance(error, PayloadTooLarge):
                self.budget.inflated_bytes += BATCH_BYTES_MAX
            self.unreadable.append(
                Unreadable(self.partition, header.base_offset, header.last_offset, str(error))
            )
        if (yield from self._see_all(waiting, header)):
            return False
        self.budget.look_at_clock()
        yield None
        self.budget.begin_step()
        return True

    @property
    def _decoded_at_once(self) -> int:
        """Records that are decoded together: no more than are wanted, where all of them are."""
        if not self.asked.decodes:
            return 1
        return min(_STEP_RECORDS, self.asked.limit) if self.asked.filter == _ANY else _STEP_RECORDS

    def _see_all(
        self, waiting: list[RecordView], header: BatchHeader
    ) -> Generator[list[RecordView] | None, Sequence[Read] | None, bool]:
        """Whether no more is looked at."""
        read: Sequence[Read] = ()
        if self.asked.decodes and waiting:
            self.budget.look_at_clock()
            told = yield waiting
            self.budget.begin_step()
            if told is None:
                return True
            read = told
        for place, record in enumerate(waiting):
            self._see(record, read[place] if read else Read(record), header)
            self.budget.look_at_clock()
            if self._is_full or self.budget.records >= RECORDS_MAX or self._ends_late():
                return True
        return False

    def _see(self, record: RecordView, read: Read, header: BatchHeader) -> None:
        self.position = max(self.position, record.offset + 1)
        if record.offset < self._window_low:
            return
        self.budget.records += 1
        if self.asked.filter.holds(read.record):
            self._find(_message(self.partition, read, header, self.asked))

    def _ends_late(self) -> bool:
        """Whether no more is looked at, for the time is spent."""
        return self.budget.is_late

    def _sees_from(self, header: BatchHeader) -> int:
        """The first offset of a batch that is of interest."""
        return max(self.position, header.base_offset)

    def _find(self, message: Message) -> None:
        self.found.append(message)

    def _passed(self, size_bytes: int) -> None:
        """An answer was looked through, or as much of it as may be."""


class Unanswered(Look):
    """A partition of which nothing is known now: it is begun where it was to be, as soon as it answers."""

    def __init__(self, partition: int, place: int | None, fault: str, asked: Asked, budget: Budget) -> None:
        """`place`: where it was to be begun, when that is known."""
        super().__init__(partition, place or 0, place or 0, place or 0, asked, budget)
        self.is_placed = place is not None
        self.fault = fault


class LookBack(Look):
    """One partition, looked through from its newest messages back."""

    def __init__(
        self, partition: int, start: int, end: int, before: int, asked: Asked, budget: Budget
    ) -> None:
        """`before`: the offset in front of which messages are wanted."""
        super().__init__(partition, start, end, before, asked, budget)
        self._before = self._low = self._at
        self._in_window: deque[Message] = deque()
        self._window_bytes = 0
        self._evicted = -1
        self._has_all = self._is_narrowed = False
        self.answer_bytes_max = _ANSWER_BYTES_MIN
        self._open_window(1)

    @property
    def low_offset(self) -> int:
        return self._low

    @property
    def high_offset(self) -> int:
        return self._before

    @property
    def has_more(self) -> bool:
        """Whether there is more in front of what was looked through."""
        return self._low > self.log_start_offset

    @property
    def is_done(self) -> bool:
        return self.fault is not None or self._has_all

    @property
    def _is_full(self) -> bool:
        return False  # the last ones of a window are wanted

    def _open_window(self, width: int) -> None:
        self.stop = self._low
        self.position = self._window_low = max(self.log_start_offset, self.stop - width)
        self._in_window.clear()
        self._window_bytes = 0
        self._has_all = self._has_all or self.position >= self.stop

    def _sees_from(self, header: BatchHeader) -> int:
        """Of the batch in which a window begins the rest is looked at, too, as far as may be."""
        if self.position > self._window_low:
            return self.position
        most = max(1, (RECORDS_MAX - self.budget.records) // 2)
        first = max(self.log_start_offset, header.base_offset, self.stop - most)
        self._window_low = min(self._window_low, first)
        return self._window_low

    def _ends_late(self) -> bool:
        """Where not even the first window is through, it becomes smaller: each view comes further by one
        message at least."""
        if self._low < self._before:
            return self.budget.is_late
        if self.budget.is_late:
            self._narrow(1)
        elif self.budget.is_half_late and not self._is_narrowed:
            self._is_narrowed = True
            self._narrow(max(1, (self.position - self._window_low) // 2))
        return False

    def _narrow(self, width: int) -> None:
        low = max(self._window_low, self.stop - width)
        if low > self._window_low:
            self._window_low, self._evicted = low, -1
            self._in_window = deque(one for one in self._in_window if one.offset >= low)

    def _find(self, message: Message) -> None:
        self._in_window.append(message)
        self._leave_out(self.asked.limit)

    def _leave_out(self, room: int) -> None:
        while len(self._in_window) > room:
            self._evicted = self._in_window.popleft().offset

    def _passed(self, size_bytes: int) -> None:
        self._window_bytes += size_bytes
        if self.fault is not None or self.position < self.stop:
            return
        self._leave_out(self.asked.limit - len(self.found))
        self.found.extendleft(reversed(self._in_window))
        width = self.stop - self._window_low
        self._low = max(self._window_low, self._evicted + 1)
        self._has_all = len(self.found) >= self.asked.limit
        next_width = _next_width(width, self._window_bytes)
        asked_bytes = 2 * self._window_bytes * next_width // width
        self.answer_bytes_max = min(max(asked_bytes, _ANSWER_BYTES_MIN), _ANSWER_BYTES_MAX)
        self._open_window(next_width)


def _next_width(width: int, size_bytes: int) -> int:
    """How many offsets to look at next, after so many of so many bytes."""
    if not size_bytes:
        return width * _GROWTH_OVER_GAPS
    return max(1, min(width * _GROWTH, width * _WINDOW_BYTES // size_bytes))


def _message(partition: int, read: Read, header: BatchHeader, asked: Asked) -> Message:
    record = read.record
    bytes_max = asked.value_bytes_max
    headers_max = HEADERS_SEEN_MAX if asked.limit == 1 else HEADERS_SHOWN_MAX
    headers: list[tuple[Piece, Piece | None]] = []
    room = HEADERS_BYTES_SHOWN
    for name, value in record.headers[:headers_max]:
        room -= len(name) + len(value or b"")
        if room < 0 and headers:
            break
        headers.append((_piece(name, HEADERS_BYTES_SHOWN), _maybe_piece(value, HEADERS_BYTES_SHOWN)))
    return Message(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        is_log_append_time=header.is_log_append_time,
        key=_maybe_piece(record.key, bytes_max),
        value=_maybe_piece(record.value, bytes_max),
        headers=tuple(headers),
        header_count=record.header_count,
        size_bytes=record.size_bytes,
        key_note=read.key,
        value_note=read.value,
    )


def _piece(field: memoryview, bytes_max: int) -> Piece:
    return Piece(bytes(field[:bytes_max]), len(field))


def _maybe_piece(field: memoryview | None, bytes_max: int) -> Piece | None:
    return None if field is None else _piece(field, bytes_max)


class Page(NamedTuple):
    """What is told, in the order it is told, and where each partition goes on."""

    messages: list[Message]
    next_offsets: dict[int, int | None]
    """Forwards the next offset, backwards the one in front of which it goes on; None: not known."""
    has_more: bool


def page_of(looks: Sequence[Look], limit: int, *, newest_first: bool) -> Page:
    """The first messages of all partitions by their times, each partition's in its own order."""
    lists = [deque(reversed(look.found) if newest_first else look.found) for look in looks]

    def rank(place: int) -> tuple[int, int, int]:
        head = lists[place][0]
        return (-head.timestamp_ms if newest_first else head.timestamp_ms, head.partition, place)

    heads = [rank(place) for place, found in enumerate(lists) if found]
    heapq.heapify(heads)
    messages: list[Message] = []
    while heads and len(messages) < limit:
        place = heapq.heappop(heads)[2]
        messages.append(lists[place].popleft())
        if lists[place]:
            heapq.heappush(heads, rank(place))
    next_offsets: dict[int, int | None] = {}
    for look, left in zip(looks, lists, strict=True):
        if not look.is_placed:
            next_offsets[look.partition] = None
        elif newest_first:
            next_offsets[look.partition] = left[0].offset + 1 if left else look.low_offset
        else:
            next_offsets[look.partition] = left[0].offset if left else look.high_offset
    has_more = any(lists) or any(look.has_more and look.fault is None for look in looks)
    return Page(messages, next_offsets, has_more)
