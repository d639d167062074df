"""Counts usage by the hour as the master's records come, so that it is known without the pipeline.

One control process counts, the office's. What is counted and how far the topic was read are one transaction:
killed at any moment, nothing is counted twice and nothing is left out.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from contracts.billing import HOUR_MS
from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_batches import OtherVersionError, decoded
from contracts.usage_records import UsageRecord
from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.backend import usage_topic
from tenants.backend.cluster import Cluster
from tenants.backend.usage_topic import Values
from tenants.rules.counted_usage import (
    KEPT_MS,
    HourKey,
    MeterKey,
    Position,
    Tally,
    Unfit,
    hour_key,
    meter_key,
)
from tenants.rules.errors import Refused
from tenants.store import counted_usage, instances
from tenants.store.engine import Store, StoreFault
from tenants.store.shared_session import Office

_log = get_logger(__name__)
_EVERY_S: Final = 10.0
_PAUSES: Final = 4
"""While there is more, it rests so much longer than it worked: others use the same process."""
_FORGET_EVERY_MS: Final = 3_600_000


class UsageCounter:
    """The background task."""

    def __init__(
        self,
        store: Store,
        cluster_of: Callable[[str], Awaitable[Cluster]],
        office: Office,
        read: Callable[[Cluster, Mapping[int, Position]], Awaitable[list[Values]]] = usage_topic.read,
    ) -> None:
        """`read` answers what lies behind positions of the topic's partitions. Raises: Refused."""
        self._store = store
        self._read = read
        self._cluster_of = cluster_of
        self._office = office
        self._forgot_ms = 0
        self._is_failing = False
        self._told: dict[int, str] = {}
        """What was said of each partition last."""
        self._told_unfit: set[Unfit] = set()
        self.until_ms = 0
        """Epoch time up to which records of any broker are counted by this process; 0: none."""
        self.counts: Counter[str] = Counter(counted=0, unreadable=0, **{one.value: 0 for one in Unfit})
        """Records by outcome; read from the metrics thread."""

    async def run(self) -> None:
        """Count for ever."""
        while True:
            began_s, has_more = time.monotonic(), False
            try:
                has_more = self._office.since_ms is not None and await self.step(epoch_ms())
                self._is_failing = False
            except StoreFault as fault:
                self._fails(fault.reason)
            except Refused as refused:
                self._fails(refused.detail)
            await asyncio.sleep(_PAUSES * (time.monotonic() - began_s) if has_more else _EVERY_S)

    def _fails(self, reason: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            _log.warning("usage is not counted now; what comes meanwhile is counted later", reason=reason)

    async def step(self, now_ms: int) -> bool:
        """Count what the topic has next; whether there may be more. Raises: Unavailable, StoreFault."""
        cluster_id, positions = await asyncio.to_thread(self._positions)
        read = await self._read(await self._cluster_of(cluster_id), positions)
        for one in read:
            if one.unreadable is not None and self._told.get(one.partition) != one.unreadable:
                self._told[one.partition] = one.unreadable
                _log.warning("usage records are passed over", partition=one.partition, reason=one.unreadable)
        moved = [one for one in read if one.position != positions.get(one.partition)]
        if not moved and now_ms - self._forgot_ms < _FORGET_EVERY_MS:
            return False
        return await asyncio.to_thread(self._count, cluster_id, moved, now_ms) and bool(moved)

    def _positions(self) -> tuple[str, dict[int, Position]]:
        with self._store.read() as connection:
            system = instances.by_id(connection, SYSTEM_INSTANCE_ID)
            assert system is not None, "the control plane makes it when it starts"
            return system.cluster_id, counted_usage.positions(connection, system.cluster_id)

    def _count(self, cluster_id: str, read: Sequence[Values], now_ms: int) -> bool:
        """Whether this process still counts; it blocks."""
        records, unreadable = self._records(read)
        meters = {meter_key(one) for one in records}
        hours = {hour_key(one) for one in records}
        with self._store.write() as connection:
            if not self._office.holds(connection):
                return False
            tally = Tally(counted_usage.meters(connection, meters), counted_usage.hours(connection, hours))
            known: set[MeterKey | HourKey] = {*tally.meters, *tally.hours}
            tally.take(records, now_ms)
            counted_usage.save(connection, tally.meters, tally.hours, known)
            counted_usage.move_on(connection, cluster_id, {one.partition: one.position for one in read})
            is_time = now_ms - self._forgot_ms >= _FORGET_EVERY_MS
            newest_ms = counted_usage.newest_hour_ms(connection) if is_time else None
            if newest_ms is not None:  # a clock that is years ahead makes nothing old
                counted_usage.forget(connection, min(now_ms, newest_ms + HOUR_MS) - KEPT_MS)
        if is_time:
            self._forgot_ms = now_ms
            self._told_unfit.clear()
        self._tell(tally, unreadable, len(records))
        return True

    def _tell(self, tally: Tally, unreadable: int, records: int) -> None:
        self.counts.update({unfit.value: number for unfit, number in tally.unfit.items()})
        self.counts["unreadable"] += unreadable
        self.counts["counted"] += records - tally.unfit.total()
        self.until_ms = max((self.until_ms, *(one.until_ms for one in tally.meters.values())))
        news = tally.unfit.keys() - {Unfit.SEEN} - self._told_unfit
        self._told_unfit |= news
        for unfit in sorted(news):
            _log.warning("usage records are not counted", why=unfit.value, records=tally.unfit[unfit])

    def _records(self, read: Sequence[Values]) -> tuple[list[UsageRecord], int]:
        """What can be read, and how many cannot; of a message that cannot nobody knows how many it has."""
        records: list[UsageRecord] = []
        unreadable = 0
        for value in (value for one in read for value in one.values):
            try:
                found = decoded(value)
            except (msgspec.MsgspecError, OtherVersionError):
                unreadable += 1
                continue
            # a text with NUL is none that a database takes
            fits = [one for one in found.records() if "\0" not in one.boot_id + one.instance_id]
            unreadable += len(found.instance_id) - len(fits)
            records += fits
        return records, unreadable
