"""Messages of a topic: looked at and sent at the instance's own expense, so many views at once."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.response import MetadataResponseTopic
from kio.static.primitive import i64

from contracts.names import SYSTEM_INSTANCE_ID, physical_name
from contracts.specs import Engine
from runtime.clock import cpu_ns, epoch_ms, monotonic_ms
from tenants.backend import messages, topics
from tenants.backend.cluster import Cluster
from tenants.backend.messages import Fetched, PaidConnections, paid_connections
from tenants.decoding.reading import Reading
from tenants.rules.callers import ViewsUnderWay
from tenants.rules.decoding import Read
from tenants.rules.errors import Conflict, Invalid, Unavailable
from tenants.rules.lifecycle import State, unfit
from tenants.rules.message_begin import Ends, From, begun
from tenants.rules.message_scan import (
    KEPT_BYTES_MAX,
    Asked,
    Budget,
    Look,
    Page,
    Steps,
    page_of,
)
from tenants.rules.model import Caller, Instance
from tenants.rules.moves import cluster_to_write
from tenants.store import audit
from tenants.store.engine import Store
from wire.batch import Record, build_batch
from wire.record_views import RecordView

T = TypeVar("T")
PARTITIONS_MAX: Final = 100
"""Partitions that one view of messages looks into."""
VIEW_MS_MAX: Final = 10_000
"""How long one view of messages may take, its waiting for the instance's rate included."""
DECODING_MS_MAX: Final = 6_000
"""How long one view waits for its messages to be decoded, and for the schemas of that."""
_OVER: Final[tuple[RecordView, ...]] = ()
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_SEND_S: Final = 10.0
_AUDITED_FOR_MS: Final = 600_000
_AUDITED_MAX: Final = 10_000
_NO_LEADER: Final = "the partition has no leader now"
_FAULTS: Final = {
    ErrorCode.offset_out_of_range: "records were deleted meanwhile",
    ErrorCode.not_leader_or_follower: "the partition's leader changes now",
    ErrorCode.leader_not_available: _NO_LEADER,
}


class Viewed(NamedTuple):
    """What a view found, and how far it looked."""

    page: Page
    looks: list[Look]
    budget: Budget
    stopped_by: str
    at_ms: int
    """The time that the first view began with, or that it was made at."""


class Messages:
    """Views of topics, and messages sent to them."""

    def __init__(
        self,
        store: Store,
        cluster_of: Callable[[str], Awaitable[Cluster]],
        is_full: Callable[[str], Awaitable[bool]],
        reading_of: Callable[[Caller, Instance, str], Reading],
    ) -> None:
        """`is_full`: whether an instance may not be written to, as the quota master has decided.
        `reading_of`: how a topic is read by somebody; blocks."""
        self._store = store
        self._cluster_of = cluster_of
        self._is_full = is_full
        self._reading_of = reading_of
        self._views = ViewsUnderWay()
        self._reader = ThreadPoolExecutor(1, "messages")
        """One thread for all views, which take turns by steps: at most one holds the loop up."""
        self._audited: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    async def view(
        self,
        caller: Caller,
        instance: Instance,
        topic: str,
        partition: int | None,
        begin: From,
        asked: Asked,
        *,
        read_committed: bool,
        told: Callable[[Viewed], T],
        is_download: bool = False,
        as_sent: bool = False,
    ) -> T:
        """Messages of a topic or one of its partitions, as `told` tells them in the reader's thread.

        `as_sent`: not decoded, where the caller may see all of them.
        Raises: NotFound, Invalid, Conflict, TooMany, Unavailable.
        """
        _refuse_suspended(instance)
        cluster = await self._cluster_of(cluster_to_write(instance))
        found = await topics.existing(cluster, instance.id, topic)
        leaders = _leaders(found, topic, partition)
        _check_size(asked, len(leaders))
        reading = await asyncio.to_thread(self._reading_of, caller, instance, topic)
        asked = asked._replace(decodes=not (reading.changes_nothing or (as_sent and reading.shows_all)))
        with self._views.one(caller.tenant, instance.id):
            if is_download:  # what is taken away is told each time
                await asyncio.to_thread(self._audit, caller, instance, "message.download", topic)
            else:
                await self._audit_view(caller, instance, topic)
            at_ms = epoch_ms() if begin.at_ms is None else begin.at_ms
            budget = Budget(cpu_ns)
            looks = await _looks(
                cluster, instance.id, leaders, begin, asked, budget, read_committed=read_committed
            )
            async with paid_connections(cluster, instance.id) as connections:
                view = _View(connections, instance.id, topic, looks, budget, self._reader, reading)
                ended = await view.run({key[1]: node for key, node in leaders.items()}, read_committed)
            if all(look.fault is not None for look in looks):
                raise Unavailable(
                    f"no partition can be read now: {looks[0].fault}. Try again in a few seconds"
                )
            viewed = _viewed(looks, asked, budget, ended, at_ms)
            return await asyncio.get_running_loop().run_in_executor(self._reader, told, viewed)

    async def send(
        self,
        caller: Caller,
        instance: Instance,
        topic: str,
        partition: int | None,
        record: Record,
    ) -> tuple[int, int]:
        """Write one message: its partition and offset. Left out, the partition is chosen by the key as
        Kafka's Java client does it, or by chance.

        Who asks is in the audit log before it is written, so a request that is sent again with its
        idempotency key does not write it again, whatever the first one came to.
        Raises: NotFound, Invalid, Conflict, Unavailable, after which it may have been written.
        """
        _refuse_suspended(instance)
        if instance.id == SYSTEM_INSTANCE_ID:
            raise Conflict("the system instance is Portico's own and is not written to")
        cluster = await self._cluster_of(cluster_to_write(instance))
        found = await topics.existing(cluster, instance.id, topic)
        # Brokers of an Apache Kafka know no capacity.
        if cluster.engine is Engine.APACHE and await self._is_full(instance.id):
            raise Conflict("the instance is full: delete data, shorten retention or resize")
        leaders = _leaders(found, topic, partition)
        chosen = await asyncio.to_thread(_chosen, partition, record.key, len(leaders))
        node_id = leaders[topic, chosen]
        if node_id not in cluster.addresses:
            raise Unavailable(f"{_NO_LEADER}. Try again in a few seconds")
        batch = bytes(build_batch([record]))
        with self._views.one(caller.tenant, instance.id):
            detail = f"{topic}: to partition {chosen}"
            await asyncio.to_thread(self._audit, caller, instance, "message.send", detail)
            async with paid_connections(cluster, instance.id) as connections:
                offset = await messages.produce(
                    connections, instance.id, topic, chosen, node_id, batch, timeout_s=_SEND_S
                )
        return chosen, offset

    async def _audit_view(self, caller: Caller, instance: Instance, topic: str) -> None:
        """One row for somebody who looks through a topic for some minutes."""
        key, now_ms = (caller.actor, instance.id, topic), monotonic_ms()
        known_ms = self._audited.get(key)
        if known_ms is not None and now_ms - known_ms < _AUDITED_FOR_MS:
            return
        await asyncio.to_thread(self._audit, caller, instance, "message.read", topic)
        self._audited[key] = now_ms
        self._audited.move_to_end(key)
        while len(self._audited) > _AUDITED_MAX:
            self._audited.popitem(last=False)

    def _audit(self, caller: Caller, instance: Instance, action: str, detail: str) -> None:
        with self._store.write() as connection:
            audit.record_of(connection, caller, instance, action, detail, epoch_ms())

    def close(self) -> None:
        """End the thread."""
        self._reader.shutdown(wait=False, cancel_futures=True)


class _View:
    """One view while it is read."""

    def __init__(
        self,
        connections: PaidConnections,
        instance_id: str,
        topic: str,
        looks: list[Look],
        budget: Budget,
        reader: ThreadPoolExecutor,
        reading: Reading,
    ) -> None:
        self._connections, self._topic, self._reading = connections, topic, reading
        self._physical_topic = physical_name(instance_id, topic)
        self._looks = looks
        self._budget, self._reader = budget, reader
        self._deadline_ms = monotonic_ms() + VIEW_MS_MAX
        self._decoding_left_ms = DECODING_MS_MAX

    async def run(self, leaders: dict[int, int], read_committed: bool) -> str:
        """Read until everything wanted is found, or as long as may be: what ended it."""
        throttled_s = 0.0
        while left := [look for look in self._looks if not look.is_done]:
            left_ms = self._deadline_ms - monotonic_ms()
            if left_ms <= throttled_s * 1000:
                return "time"
            await asyncio.sleep(throttled_s)
            node_id = leaders[left[0].partition]
            turn = [look for look in left if leaders[look.partition] == node_id]
            # What stands first gets a batch of any size: next time it is another's turn.
            self._looks.remove(turn[0])
            self._looks.append(turn[0])
            request = messages.fetch_request(
                self._physical_topic, turn, _ANSWER_BYTES_MAX, read_committed=read_committed
            )
            try:
                answer = await self._connections.call(node_id, request, left_ms / 1000)
            except Unavailable:
                if not self._budget.fetched_bytes:
                    raise
                return "time"
            throttled_s = answer.throttle_time.total_seconds()
            first, before = turn[0], (turn[0].position, turn[0].low_offset)
            await self._take(turn, messages.fetched(answer), is_throttled=throttled_s > 0)
            if self._budget.is_spent:
                return "time" if self._budget.is_late else "scanned"
            if not (first.is_done or throttled_s or before != (first.position, first.low_offset)):
                first.fault = "the broker answers with less than one batch"
        return "limit"

    async def _take(self, turn: list[Look], fetched: list[Fetched], *, is_throttled: bool) -> None:
        loop = asyncio.get_running_loop()
        looks = {look.partition: look for look in turn}
        for one in fetched:
            look = looks[one.partition]
            if one.error_code is ErrorCode.unknown_topic_or_partition:
                raise topics.no_topic(self._topic)  # by now
            if one.error_code is not ErrorCode.none:
                look.fault = _FAULTS.get(one.error_code, f"the broker answered {one.error_code.name.upper()}")
            elif len(one.records):
                steps = look.take(one.records, one.aborted)
                read: Sequence[Read] | None = None
                while (wanted := await loop.run_in_executor(self._reader, _step, steps, read)) is not _OVER:
                    # Others' steps come in between.
                    read = await self._read(wanted) if wanted else None
                    if monotonic_ms() >= self._deadline_ms:
                        self._budget.end()
            elif look is turn[0] and not is_throttled:
                look.nothing()
            if self._budget.is_spent:
                return

    async def _read(self, records: Sequence[RecordView]) -> Sequence[Read] | None:
        """As the viewer may see them; None: there is no time for it."""
        left_ms = min(self._deadline_ms - monotonic_ms(), self._decoding_left_ms)
        began_ms = monotonic_ms()
        try:
            async with asyncio.timeout(max(left_ms, 0) / 1000):
                return await self._reading.read(records)
        except TimeoutError:
            self._budget.end()
            return None
        finally:
            self._decoding_left_ms -= monotonic_ms() - began_ms


def _step(steps: Steps, read: Sequence[Read] | None) -> Sequence[RecordView] | None:
    """One of them; `_OVER` at their end."""
    try:
        return steps.send(read)
    except StopIteration:
        return _OVER


def _viewed(looks: list[Look], asked: Asked, budget: Budget, ended: str, at_ms: int) -> Viewed:
    page = page_of(looks, asked.limit, newest_first=asked.newest_first)
    is_full = len(page.messages) >= asked.limit
    stopped_by = "limit" if is_full and page.has_more else ended if page.has_more else "end"
    return Viewed(page, sorted(looks, key=lambda look: look.partition), budget, stopped_by, at_ms)


def _refuse_suspended(instance: Instance) -> None:
    if instance.state is State.SUSPENDED:
        raise Conflict("the instance is suspended: resume it first")


def _leaders(found: MetadataResponseTopic, topic: str, partition: int | None) -> dict[tuple[str, int], int]:
    """The leader of each partition that is meant. Raises: Invalid, Unavailable."""
    leaders = {(topic, int(one.partition_index)): int(one.leader_id) for one in found.partitions}
    if not leaders:  # it was made a moment ago
        raise Unavailable("the topic has no partitions yet. Try again in a few seconds")
    if partition is not None:
        if (topic, partition) not in leaders:
            raise Invalid([unfit("partition", f"the topic has no partition {partition}")])
        return {(topic, partition): leaders[topic, partition]}
    return leaders


def _check_size(asked: Asked, partitions: int) -> None:
    """Raises: Invalid."""
    if partitions > PARTITIONS_MAX:
        told = f"the topic has {partitions}: name one, {PARTITIONS_MAX} at most are looked at together"
        raise Invalid([unfit("partition", told)])
    if asked.value_bytes_max * max(asked.limit, partitions) > KEPT_BYTES_MAX:
        told = f"so many of so many messages are more than {KEPT_BYTES_MAX}: ask for fewer or shorter ones"
        raise Invalid([unfit("value_bytes", told)])


async def _looks(
    cluster: Cluster,
    instance_id: str,
    leaders: dict[tuple[str, int], int],
    begin: From,
    asked: Asked,
    budget: Budget,
    *,
    read_committed: bool,
) -> list[Look]:
    """Where each partition is begun, in an order by chance: the budget is often spent before the last."""
    starts = await topics.offsets(cluster, instance_id, leaders, topics.EARLIEST)
    ends = await topics.offsets(cluster, instance_id, leaders, read_committed=read_committed)
    timed = {key: node for key, node in leaders.items() if begin.is_timed(key[1])}
    times: dict[tuple[str, int], int] = {}
    if timed and begin.at_ms is not None:
        times = await topics.offsets(cluster, instance_id, timed, i64(begin.at_ms))
    return [
        begun(key[1], begin, Ends(starts.get(key), ends.get(key), times.get(key)), asked, budget)
        for key in random.sample(sorted(leaders), len(leaders))
    ]


def _chosen(partition: int | None, key: bytes | None, partitions: int) -> int:
    if partition is not None:
        return partition
    if key is None:
        return random.randrange(partitions)
    from kafka.partitioner.default import murmur2  # a whole client, which few console processes need

    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions
