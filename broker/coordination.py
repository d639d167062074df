"""The shell around the group coordinator: clock, timer, offsets topic, and the way back to connections.

    handler -> core -> effects -> append to the offsets topic -> below the high watermark -> core -> reply

Nothing is decided here. The replication factor is one, so a record is below the high watermark when its
append returns; a reply that waits for records leaves then.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from uuid import uuid4

from kio.schema.errors import ErrorCode

from broker.coordinators.loading import replay_log
from broker.effects import Moment
from broker.groups.config import GroupConfig
from broker.groups.coordinator import GroupCoordinator
from broker.groups.messages import Append, Effects, ListedGroup
from broker.java_hash import partition_for
from broker.leadership import LEADER_EPOCH
from broker.log.errors import LogError
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger

_log = get_logger(__name__)


class GroupCoordination:
    """The group coordinator of this broker. `logs` are the partitions of `__consumer_offsets`, in order.

    Until `load` has read them every request must be answered COORDINATOR_LOAD_IN_PROGRESS: see `is_loading`.
    """

    def __init__(self, logs: Sequence[PartitionLog], config: GroupConfig | None = None) -> None:
        self.config = config or GroupConfig()
        self.core = GroupCoordinator(self.config, lambda: str(uuid4()))
        self.is_loading = True
        self._logs = logs
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

    def of(self, _group_id: str) -> "GroupCoordination | ErrorCode":
        """Who coordinates a group."""
        return ErrorCode.coordinator_load_in_progress if self.is_loading else self

    def list_groups(self, states: frozenset[str]) -> list[ListedGroup]:
        """All groups."""
        return self.core.list_groups(states)

    def now(self) -> Moment:
        """Both clocks."""
        return Moment(monotonic_ms(), epoch_ms())

    async def run(self) -> None:
        """Load, then look for what has expired, for ever."""
        if self.is_loading:
            await self.load()
        while True:
            await asyncio.sleep(self.config.expiry_interval_ms / 1000)
            self.submit(self.core.sweep(self.now()))

    async def load(self) -> None:
        """Replay the offsets topic, all segments of all partitions, a piece at a time."""
        assert self.is_loading
        self.core = GroupCoordinator(self.config, lambda: str(uuid4()))
        records = 0
        for log in self._logs:
            log.advance_high_watermark()
            for replayed in replay_log(log, self.core):
                records += replayed
                await asyncio.sleep(0)
        self.core.activate(self.now())
        self.is_loading = False
        while self._after_load:
            self.submit(self._after_load.pop(0)())
        self._arm()
        _log.info("groups loaded", groups=len(self.core.list_groups()), records=records)

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
            result = log.append(
                self.core.encode(append, now).records,
                now_ms=now.epoch_ms,
                leader_epoch=LEADER_EPOCH,
                origin=AppendOrigin.COORDINATOR,
            )
            log.advance_high_watermark()
        except LogError as error:
            _log.warning("group records were refused", group=append.group_id, error=error.message)
            self.submit(self.core.refused(append, error.error_code, now))
            return
        self.submit(self.core.committed(append, result.base_offset, now))

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
