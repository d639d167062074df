"""One partition of an internal topic that this broker leads, and the coordinator of its keys.

    handler -> core -> effects -> append -> below the high watermark -> core -> reply

Nothing is decided here. A shard lives for one leader epoch: it loads, serves, and ends when leadership does,
or when a record could not be told committed or not; then another one reads the log again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Core, Effects, Moment
from broker.coordinators.loading import replay_log
from broker.log.errors import LogError
from broker.log.results import AppendOrigin
from broker.replication.partition import Partition
from runtime.clock import Clock
from runtime.logs import get_logger

_log = get_logger(__name__)
COMMIT_TIMEOUT_MS: Final = 5_000
"""`offsets.commit.timeout.ms`: how long an answer waits for its records to be committed."""

C = TypeVar("C", bound=Core[Any])
Written = Callable[[str, int], None]
"""Hears of bytes that were written, and of the group or transactional id they are about."""


def nobody_pays(_key: str, _size_bytes: int) -> None:
    """A broker without a quota."""


class _InFlight:
    """An append that is in the log, from `base_offset` to below `end_offset`."""

    __slots__ = ("append", "base_offset", "deadline_ms", "end_offset", "is_committed")

    def __init__(self, append: Any, base_offset: int, end_offset: int, deadline_ms: int) -> None:
        self.append = append
        self.base_offset: Final = base_offset
        self.end_offset: Final = end_offset
        self.deadline_ms: int | None = deadline_ms
        """When those who wait learn that it takes too long; None: they know."""
        self.is_committed = False


class Shard(Generic[C]):
    """See the module. Until `load` has ended requests are refused: see `is_loading`."""

    def __init__(
        self,
        partition: Partition,
        core: C,
        on_command: Callable[["Shard[C]", Any], None],
        on_doubt: Callable[["Shard[C]"], None],
        on_written: Written,
        clock: Clock,
    ) -> None:
        """`on_doubt` is called when the core may no longer match the log: the shard must be replaced."""
        self.partition: Final = partition
        self.core: Final = core
        self.leader_epoch: Final = partition.leader_epoch
        self.is_loading = True
        self.is_closed = False
        self._on_command = on_command
        self._on_doubt = on_doubt
        self._on_written = on_written
        self._clock = clock
        self._queue: deque[Any] = deque()
        """Appends that wait for their turn to be written."""
        self._in_flight: deque[_InFlight] = deque()
        self._after_load: deque[Callable[[], Effects[Any]]] = deque()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    def now(self) -> Moment:
        """Both clocks."""
        return Moment(self._clock.monotonic_ms(), self._clock.epoch_ms())

    @property
    def error(self) -> ErrorCode | None:
        """Why a request cannot be served now, or None."""
        if self.is_closed:
            return ErrorCode.not_coordinator
        return ErrorCode.coordinator_load_in_progress if self.is_loading else None

    # -- loading

    async def load(self) -> None:
        """Replay the log to its end; serve once that is committed, so that nothing we tell can be undone.

        Raises: StorageFailed, and what the core raises for records it cannot read.
        """
        assert self.is_loading
        records = 0
        for replayed in replay_log(self.partition.log, self.core):
            records += replayed
            await asyncio.sleep(0)
            if self.is_closed:
                return
        committed = asyncio.get_running_loop().create_future()

        def tell(error: ErrorCode) -> None:
            if not committed.done():
                committed.set_result(error)

        self.partition.when_committed(self.partition.log.log_end_offset, tell)
        await committed
        if not self.is_closed:
            self._activate(records)

    def _activate(self, records: int) -> None:
        self.is_loading = False
        self.submit(self.core.activate(self.now()))
        while self._after_load and not self.is_closed:
            self.submit(self._after_load.popleft()())
        partition = self.partition
        if records:
            _log.info("coordinator loaded", topic=partition.topic, partition=partition.index, records=records)

    def once_loaded(self, step: Callable[[], Effects[Any]]) -> None:
        """Take a step now, or as soon as the log is read."""
        if self.is_loading:
            self._after_load.append(step)
        elif not self.is_closed:
            self.submit(step())

    # -- effects

    def submit(self, effects: Effects[Any]) -> None:
        """Carry effects out. A reply may bring the connection's next request, which comes back here: its
        appends wait their turn, because the core decided them later."""
        self._queue.extend(effects.appends)
        for reply in effects.replies:
            reply.token(reply.result)
        for command in effects.commands:
            self._on_command(self, command)
        if not self._running:
            self._running = True
            try:
                while self._queue and not self.is_closed:
                    self._carry_out(self._queue.popleft())
            finally:
                self._running = False
            self._arm()

    def _carry_out(self, append: Any) -> None:
        moment = self.now()
        try:
            batch = self.core.encode(append, moment)
            result = self.partition.append(
                batch.records,
                now_ms=moment.epoch_ms,
                origin=AppendOrigin.COORDINATOR,
                verification=batch.verification,
                transaction_version=batch.transaction_version,
            )
        except LogError as error:
            partition = self.partition
            _log.warning(
                "a coordinator's records were refused",
                topic=partition.topic,
                partition=partition.index,
                error=error.message,
            )
            self.submit(self.core.refused(append, error.error_code, moment))
            return
        self._on_written(batch.key, len(batch.records))
        deadline_ms = moment.monotonic_ms + COMMIT_TIMEOUT_MS
        flight = _InFlight(append, result.base_offset, result.last_offset + 1, deadline_ms)
        self._in_flight.append(flight)
        self.partition.when_committed(flight.end_offset, lambda error: self._landed(flight, error))

    def _landed(self, flight: _InFlight, error: ErrorCode) -> None:
        if self.is_closed:
            return
        if error is ErrorCode.not_enough_replicas_after_append:
            # It is committed, by fewer than asked: who waits must not rely on it, the state does.
            self._tell_overdue(flight, error)
        elif error is not ErrorCode.none:
            self._on_doubt(self)
            return
        flight.is_committed = True
        while not self.is_closed and self._in_flight and self._in_flight[0].is_committed:
            first = self._in_flight.popleft()
            self.submit(self.core.committed(first.append, first.base_offset, self.now()))

    def _tell_overdue(self, flight: _InFlight, error: ErrorCode) -> None:
        if flight.deadline_ms is not None:
            flight.deadline_ms = None
            flight.append, effects = self.core.overdue(flight.append, error, self.now())
            self.submit(effects)

    # -- deadlines

    def _next_deadline_ms(self) -> int | None:
        core_ms = self.core.next_deadline_ms()
        # Written in order, so the first that still waits has the earliest deadline.
        waiting_ms = next(
            (each.deadline_ms for each in self._in_flight if each.deadline_ms is not None), None
        )
        if core_ms is None or waiting_ms is None:
            return waiting_ms if core_ms is None else core_ms
        return min(core_ms, waiting_ms)

    def _arm(self) -> None:
        """Make sure the loop wakes us at the next deadline."""
        deadline_ms = None if self.is_closed else self._next_deadline_ms()
        if deadline_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_s = max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_ms = None
        now_ms = self._clock.monotonic_ms()
        for flight in tuple(self._in_flight):
            if flight.deadline_ms is not None and flight.deadline_ms <= now_ms:
                self._tell_overdue(flight, ErrorCode.request_timed_out)
        if not self.is_closed:
            self.submit(self.core.tick(self.now()))

    # -- the end

    def resign(self) -> None:
        """This broker leads the partition no longer: who waits is sent away."""
        assert not self.is_closed
        pending = [*(flight.append for flight in self._in_flight), *self._queue]
        self.close()
        for reply in self.core.resigned(pending):
            reply.token(reply.result)

    def close(self) -> None:
        """Stop; parked calls end with their connections."""
        self.is_closed = True
        self._in_flight.clear()
        self._queue.clear()
        self._after_load.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
