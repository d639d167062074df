"""The shell around the group coordinator: clock, timer, offsets topic, and the way back to connections.

    handler -> core -> effects -> append to the offsets topic -> below the high watermark -> core -> reply

Nothing is decided here. The replication factor is one, so a record is below the high watermark when its
append returns; a reply that waits for records leaves then.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import uuid4

from broker.call import Call
from broker.causes import CloseCause
from broker.groups.config import GroupConfig
from broker.groups.coordinator import GroupCoordinator
from broker.groups.messages import Append, Effects, Moment, Token
from broker.groups.records import (
    Record,
    UnreadableRecord,
    decode,
    encode_key,
    encode_value,
    partition_for,
)
from broker.leadership import LEADER_EPOCH
from broker.log.errors import LogError
from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from broker.log.results import AppendOrigin
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from wire import batch

_log = get_logger(__name__)
_READ_BYTES: Final = 1024 * 1024
_RECORDS_PER_BATCH: Final = 500
"""Of a rewritten log."""
_DEAD_RECORDS_KEPT: Final = 10_000
"""A log that is read in a moment is not rewritten at every start."""


def answering(call: Call, response_of: Callable[[Any], Any]) -> Token:
    """A reply token that answers the call with `response_of(result)`.

    A parked answer is built outside of the dispatch that guards handlers, so a bug in it is caught here.
    """

    def answer(result: Any) -> None:
        if call.is_gone or call.done:
            return
        try:
            call.reply(response_of(result))
        except Exception:  # noqa: BLE001 - as in dispatch: a bug costs one connection, not the coordinator
            _log.exception("a parked answer could not be built", api_key=call.header.api_key)
            call.close(CloseCause.INTERNAL_ERROR)

    return answer


class GroupCoordination:
    """The group coordinator of this broker. `logs` are the partitions of `__consumer_offsets`, in order.

    Until `load` has read them every request must be answered COORDINATOR_LOAD_IN_PROGRESS: see `is_loading`.
    """

    def __init__(self, logs: Sequence[PartitionLog], config: GroupConfig | None = None) -> None:
        self.config = config or GroupConfig()
        self.core = GroupCoordinator(self.config, lambda: str(uuid4()))
        self.is_loading = True
        self._logs = logs
        self._rewritten_bytes = [0] * len(logs)
        """Size of each partition when it was last rewritten: live keys alone may exceed their share."""
        self._after_load: list[Callable[[], Effects]] = []
        """What was deleted while loading."""
        self._appends: deque[Append] = deque()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    @property
    def stored_bytes(self) -> int:
        """Size of the offsets topic; no tenant pays for it."""
        return sum(log.size_bytes for log in self._logs)

    def now(self) -> Moment:
        """Both clocks."""
        return Moment(monotonic_ms(), epoch_ms())

    async def run(self) -> None:
        """Load, then look for what has expired, for ever."""
        if self.is_loading:
            await self.load()
        while True:
            await asyncio.sleep(self.config.expiry_interval_ms / 1000)
            self.submit(self.core.expire_offsets(self.now()))

    async def load(self) -> None:
        """Replay the offsets topic, all segments of all partitions, a piece at a time."""
        assert self.is_loading
        self.core = GroupCoordinator(self.config, lambda: str(uuid4()))
        records = 0
        for log in self._logs:
            log.advance_high_watermark()
            offset = log.log_start_offset
            while offset < log.log_end_offset:
                replayed, offset = self._replay_piece(log, offset)
                records += replayed
                await asyncio.sleep(0)
        self.core.activate(self.now())
        self.is_loading = False
        self._rewrite_where_it_pays()
        while self._after_load:
            self.submit(self._after_load.pop(0)())
        self._arm()
        _log.info("groups loaded", groups=len(self.core.list_groups()), records=records)

    def _replay_piece(self, log: PartitionLog, offset: int) -> tuple[int, int]:
        """(records replayed, offset to go on with). Only the last batch of a piece may be cut off."""
        piece = memoryview(log.read_bytes(offset, _READ_BYTES, up_to=log.log_end_offset, min_one_batch=True))
        records = 0
        at = 0
        while len(piece) - at >= batch.HEADER_SIZE:
            header = batch.parse_header(piece, at)
            if header.size_bytes > len(piece) - at:
                break
            if not header.is_control:
                for stored in records_of(piece[at : at + header.size_bytes], header):
                    record = self._decode(log, stored)
                    if record is not None:
                        self.core.replay(record)
                        records += 1
            at += header.size_bytes
            offset = header.next_offset
        assert at > 0, "a piece has at least one whole batch"
        return records, offset

    def _rewrite_where_it_pays(self) -> None:
        live = Counter(self._partition_of(record) for record in self.core.live_records())
        for partition, log in enumerate(self._logs):
            if log.log_end_offset - log.log_start_offset > 2 * live[partition] + _DEAD_RECORDS_KEPT:
                self._rewrite(partition)

    def _decode(self, log: PartitionLog, stored: batch.Record) -> Record | None:
        try:
            return decode(stored.key or b"", stored.value)
        except UnreadableRecord as error:
            # Leaving it out could reset a group, so nothing is served until someone looks.
            raise UnreadableRecord(f"{log.topic}-{log.partition} offset {stored.offset}: {error}") from error

    def submit(self, effects: Effects) -> None:
        """Carry effects out. A reply may bring the connection's next request, which comes back here: its
        appends wait their turn, because the core decided them later."""
        self._appends.extend(effects.appends)
        for reply in effects.replies:
            reply.token(reply.result)
        if not self._running:
            self._running = True
            try:
                while self._appends:
                    self._carry_out(self._appends.popleft())
            finally:
                self._running = False
            self._arm()

    def _carry_out(self, append: Append) -> None:
        partition = partition_for(append.group_id, len(self._logs))
        log = self._logs[partition]
        now = self.now()
        try:
            log.append(
                encode_batch(append.records, now.epoch_ms),
                now_ms=now.epoch_ms,
                leader_epoch=LEADER_EPOCH,
                origin=AppendOrigin.COORDINATOR,
            )
            log.advance_high_watermark()
        except LogError as error:
            _log.warning("group records were refused", group=append.group_id, error=error.message)
            self.submit(self.core.refused(append, error.error_code, now))
            return
        self.submit(self.core.committed(append, now))
        if self._has_outgrown(partition):
            self._rewrite(partition)

    def _has_outgrown(self, partition: int) -> bool:
        """Doubled at least, so that what is written again stays in proportion to what was committed."""
        kept_bytes = self._rewritten_bytes[partition]
        share_bytes = self.config.offsets_rewrite_bytes // len(self._logs)
        return self._logs[partition].size_bytes - kept_bytes > max(share_bytes, kept_bytes)

    def _rewrite(self, partition: int) -> None:
        """Replace a partition's log by its live keys: there is no compaction yet."""
        log = self._logs[partition]
        now_ms = epoch_ms()
        live = [record for record in self.core.live_records() if self._partition_of(record) == partition]
        batches = [
            encode_batch(live[at : at + _RECORDS_PER_BATCH], now_ms)
            for at in range(0, len(live), _RECORDS_PER_BATCH)
        ]
        try:
            freed = log.replace_with(batches, now_ms, leader_epoch=LEADER_EPOCH)
        except LogError as error:
            _log.warning("the offsets topic was not rewritten", partition=partition, error=error.message)
        else:
            _log.info("offsets topic rewritten", partition=partition, records=len(live), freed_bytes=freed)
        self._rewritten_bytes[partition] = log.size_bytes

    def _partition_of(self, record: Record) -> int:
        return partition_for(record.group_id, len(self._logs))

    def _arm(self) -> None:
        """Make sure the loop wakes us at the next deadline."""
        deadline_ms = self.core.next_deadline_ms()
        if deadline_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_s = max(deadline_ms - monotonic_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_ms = None
        self.submit(self.core.tick(self.now()))

    def on_topics_deleted(self, names: Iterable[str]) -> None:
        """Committed offsets of deleted topics go."""
        gone = tuple(names)
        self._once_loaded(lambda: self.core.forget_topics(gone, self.now()))

    def purge_instance(self, instance_id: str) -> None:
        """Everything of a deleted instance goes. Safe to repeat."""
        self._once_loaded(lambda: self.core.purge_instance(instance_id, self.now()))

    def _once_loaded(self, step: Callable[[], Effects]) -> None:
        if self.is_loading:
            self._after_load.append(step)
        else:
            self.submit(step())

    def close(self) -> None:
        """Stop the timer; parked calls end with their connections."""
        if self._timer is not None:
            self._timer.cancel()


def encode_batch(records: Sequence[Record], now_ms: int) -> bytearray:
    """Records as one batch of the offsets topic."""
    return batch.build_batch(
        tuple(batch.Record(0, now_ms, encode_key(record), encode_value(record)) for record in records)
    )
