"""The times of committed offsets, from any cluster that speaks Kafka: Fetch says what is there (ADR 64).

A record's time does not change, so it is looked for once and remembered. Who asks has what is known after a
moment; the rest is looked for meanwhile, at a pace.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v11.response import FetchResponse, PartitionData
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i64

from runtime.clock import cpu_ns, monotonic_ms
from tenants.backend.cluster import Cluster
from tenants.rules.errors import Unavailable
from tenants.rules.record_time import UNKNOWN_MS, first_times
from wire.codec import duration

WAITING_MAX: Final = 5_000
"""Offsets of an instance that wait to be looked up; those beyond stay unknown until somebody asks again."""
KEPT_PER_INSTANCE: Final = 20_000
"""Times of an instance's offsets that are remembered."""
KEPT_MAX: Final = 200_000
"""Times that are remembered of all instances: beyond it the instance with most forgets first."""
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""An answer of a broker with the batch that an offset is in: of a larger one the time stays unknown."""
BYTES_PER_S: Final = 16 * 1024 * 1024
"""Bytes a second that brokers send for the offsets of one instance."""
CPU_SHARE: Final = 0.2
"""The part of its time that the console spends on offsets, shared by the instances that are looked up."""
INSTANCES_AT_ONCE: Final = 4
"""Instances whose offsets are looked up at the same time."""
LOOK_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of an instance that are read for one look; what is not found by then goes on with the next."""
_PARTITIONS_AT_ONCE: Final = 50
ROUND_CPU_S: Final = 0.02
"""CPU time of one turn, and of one partition more: what else an answer has is asked for again."""
_ROUND_S: Final = 0.0005
"""CPU time of a request beside that of looking into batches."""
_PARTITION_BYTES: Final = 16 * 1024
_SKIP_BYTES: Final = 256 * 1024
"""Asked for at once where nothing of an answer was a record to be seen."""
_FRESH_MS: Final = 300_000
"""Compaction may take a record away, so it is looked for again."""
_FLEETING_MS: Final = 5_000
"""What may soon be otherwise: of an open transaction, or what could not be looked up."""


class Place(NamedTuple):
    """An offset of a partition, not below the log's start."""

    topic_id: UUID
    partition: int
    offset: int


class Where(NamedTuple):
    """How a partition is asked."""

    topic: str
    """Its physical name."""
    leader: int
    end: int
    """The high watermark."""


class _Kept(NamedTuple):
    time_ms: int | None
    """None: no record to be seen is in front of `position`."""
    position: int
    until_ms: int


class _Wanted:
    """The offsets of one partition that wait."""

    __slots__ = ("is_uncommitted", "offsets", "where")

    def __init__(self, where: Where) -> None:
        self.where = where
        self.offsets: dict[int, int] = {}
        """By committed offset that at which its look goes on."""
        self.is_uncommitted = False
        """Whether a reader of committed records would wait for a transaction."""


class _Instance:
    """What is known and wanted of one instance."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Place, _Kept] = OrderedDict()
        self.wanted: OrderedDict[tuple[UUID, int], _Wanted] = OrderedDict()
        self.task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return sum(len(one.offsets) for one in self.wanted.values())


class RecordTimes:
    """Looks up and remembers; on one loop."""

    def __init__(self) -> None:
        self._instances: dict[str, _Instance] = {}
        self._kept = 0
        self._turns = asyncio.Semaphore(INSTANCES_AT_ONCE)
        self._reader = ThreadPoolExecutor(1, "record-times")
        self.fetches = 0
        """How often a broker was asked."""

    async def times(
        self, cluster: Cluster, instance_id: str, places: Mapping[Place, Where], within_s: float
    ) -> dict[Place, int | None]:
        """What is known at the latest after `within_s`: the time (ms; `UNKNOWN_MS`: it has none), None where
        there is nothing to be seen up to the high watermark. Places that are not in it are not known yet."""
        one = self._instances.setdefault(instance_id, _Instance())
        self._want(one, places)
        if one.wanted and one.task is None:
            one.task = asyncio.create_task(self._look(cluster, one))
        if (task := one.task) is not None:
            await asyncio.wait({task}, timeout=within_s)
            if task.done():
                task.result()
        known = {place: self._known(one, place, where.end) for place, where in places.items()}
        found = {place: kept.time_ms for place, kept in known.items() if kept is not None}
        if one.task is None and not one.kept:
            self._instances.pop(instance_id, None)
        return found

    def _want(self, one: _Instance, places: Mapping[Place, Where]) -> None:
        waiting = one.waiting
        for place, where in places.items():
            if self._known(one, place, where.end) is not None:
                continue
            partition = one.wanted.get(place[:2])
            if partition is not None and place.offset in partition.offsets:
                partition.where = where
                continue
            if waiting >= WAITING_MAX:
                return
            waiting += 1
            if partition is None:
                partition = one.wanted[place[:2]] = _Wanted(where)
            kept = one.kept.get(place)
            goes_on = kept.position if kept is not None and kept.time_ms is None else place.offset
            partition.where = where
            partition.offsets[place.offset] = goes_on

    def _known(self, one: _Instance, place: Place, end: int) -> _Kept | None:
        kept = one.kept.get(place)
        if kept is None or kept.until_ms < monotonic_ms() or (kept.time_ms is None and kept.position < end):
            return None
        one.kept.move_to_end(place)
        return kept

    async def _look(self, cluster: Cluster, one: _Instance) -> None:
        """Until nothing is wanted any more. What fails is not tried again: who looks again asks again."""
        left = LOOK_BYTES_MAX
        try:
            while one.wanted and left > 0:
                async with self._turns:
                    leader = next(iter(one.wanted.values())).where.leader
                    keys = [key for key, each in one.wanted.items() if each.where.leader == leader]
                    size_bytes, cpu_s = await self._round(cluster, one, leader, keys[:_PARTITIONS_AT_ONCE])
                left -= size_bytes
                self._forget(one)
                looking = sum(each.task is not None for each in self._instances.values())
                await asyncio.sleep(pause_s(size_bytes, cpu_s, max(looking, 1)))
        finally:
            one.task = None
            for key, wanted in list(one.wanted.items()):
                for offset, position in list(wanted.offsets.items()):
                    if position > offset:
                        self._keep(one, key, offset, _kept(None, position, _FRESH_MS))
            one.wanted.clear()

    async def _round(
        self, cluster: Cluster, one: _Instance, leader: int, keys: list[tuple[UUID, int]]
    ) -> tuple[int, float]:
        """Ask for some partitions of one broker: bytes and CPU time (s) that it took."""
        # Of the first of an answer there is a batch whatever its size, of the others only what is small.
        first = one.wanted[keys[0]]
        keys = [key for key in keys if one.wanted[key].is_uncommitted == first.is_uncommitted]
        for key in (*keys[1:], keys[0]):
            one.wanted.move_to_end(key)
        asked = {(one.wanted[key].where.topic, key[1]): key for key in keys}
        # Others may be wanted while it is under way: its answer does not say what is in front of its begin.
        looked = {key: dict(one.wanted[key].offsets) for key in keys}
        try:
            self.fetches += 1
            request = _request([(one.wanted[key], key[1]) for key in keys], not first.is_uncommitted)
            answer: FetchResponse = await cluster.ask(request, leader, response_bytes_max=BATCH_BYTES_MAX)
        except Unavailable:
            self._give_up(one, keys[0], looked[keys[0]])
            return 0, _ROUND_S
        size_bytes, cpu_s = 0, _ROUND_S
        for topic in answer.responses:
            for part in topic.partitions:
                found = asked.pop((topic.topic, int(part.partition_index)), None)
                size_bytes += len(part.records or b"")
                if found is not None and cpu_s < ROUND_CPU_S:
                    cpu_s += await self._take(one, found, looked[found], part, is_first=found == keys[0])
        return size_bytes, cpu_s

    async def _take(
        self,
        one: _Instance,
        key: tuple[UUID, int],
        looked: Mapping[int, int],
        part: PartitionData,
        *,
        is_first: bool,
    ) -> float:
        """What a broker says of one partition, for the offsets that it was asked for (`looked`, as
        `_Wanted.offsets`); the CPU time (s) that it took to read it."""
        wanted = one.wanted[key]
        if part.error_code is not ErrorCode.none:
            self._give_up(one, key, looked)
            return 0.0
        if not part.records:
            self._took_nothing(one, key, looked, int(part.last_stable_offset), is_first=is_first)
            return 0.0
        aborted = [
            (int(each.first_offset), int(each.producer_id)) for each in part.aborted_transactions or ()
        ]
        goes_on = sorted(set(looked.values()))

        def read() -> tuple[dict[int, int], int, int]:
            begun_ns = cpu_ns()
            found, position = first_times(memoryview(part.records or b""), aborted, goes_on)
            return found, position, cpu_ns() - begun_ns

        found, position, spent_ns = await asyncio.get_running_loop().run_in_executor(self._reader, read)
        kept_ms = _FLEETING_MS if wanted.is_uncommitted else _FRESH_MS
        for offset, at in looked.items():
            if at in found:
                self._keep(one, key, offset, _kept(found[at], position, kept_ms))
            elif at < position:
                if position >= wanted.where.end:
                    self._keep(one, key, offset, _kept(None, position, kept_ms))
                else:
                    wanted.offsets[offset] = position
        wanted.is_uncommitted = False
        if is_first and not found and position <= goes_on[0]:
            self._give_up(one, key, looked)
        return spent_ns / 1e9

    def _took_nothing(
        self,
        one: _Instance,
        key: tuple[UUID, int],
        looked: Mapping[int, int],
        last_stable_offset: int,
        *,
        is_first: bool,
    ) -> None:
        """There is nothing: at the end, behind an open transaction, or because what is there is large."""
        wanted = one.wanted[key]
        at = min(looked.values())
        if at >= wanted.where.end:
            for offset, position in looked.items():
                self._keep(one, key, offset, _kept(None, position, _FRESH_MS))
        elif not wanted.is_uncommitted and at >= last_stable_offset >= 0:
            wanted.is_uncommitted = True
            one.wanted.move_to_end(key, last=False)
        elif is_first:
            self._give_up(one, key, looked)

    def _give_up(self, one: _Instance, key: tuple[UUID, int], looked: Mapping[int, int]) -> None:
        """What the question began with is not to be had."""
        at = min(looked.values())
        for offset, position in looked.items():
            if position == at:
                self._keep(one, key, offset, _kept(UNKNOWN_MS, position, _FLEETING_MS))

    def _keep(self, one: _Instance, key: tuple[UUID, int], offset: int, kept: _Kept) -> None:
        """What was looked for of one offset is known."""
        place = Place(*key, offset)
        self._kept += place not in one.kept
        one.kept[place] = kept
        wanted = one.wanted[key]
        del wanted.offsets[offset]
        if not wanted.offsets:
            del one.wanted[key]

    def _forget(self, one: _Instance) -> None:
        """What was asked for longest ago, where it is too much."""
        while len(one.kept) > KEPT_PER_INSTANCE:
            one.kept.popitem(last=False)
            self._kept -= 1
        while self._kept > KEPT_MAX:
            instance_id, most = max(self._instances.items(), key=lambda each: len(each[1].kept))
            self._kept -= len(most.kept)
            most.kept.clear()
            if most.task is None:
                del self._instances[instance_id]

    def close(self) -> None:
        """End the thread."""
        self._reader.shutdown(wait=False, cancel_futures=True)


def pause_s(size_bytes: int, cpu_s: float, looking: int) -> float:
    """How long an instance waits after a turn that took so much, when so many are `looking`: whoever took
    little is soon back, and all together have no more than their share of the CPU."""
    return max(size_bytes / BYTES_PER_S, cpu_s * (looking / CPU_SHARE - 1))


def _kept(time_ms: int | None, position: int, for_ms: int) -> _Kept:
    return _Kept(time_ms, position, monotonic_ms() + for_ms)


def _request(asked: Iterable[tuple[_Wanted, int]], read_committed: bool) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for wanted, partition in asked:
        offset = min(wanted.offsets.values())
        size_bytes = _PARTITION_BYTES if offset in wanted.offsets else _SKIP_BYTES
        topics.setdefault(wanted.where.topic, []).append(
            FetchPartition(
                partition=i32(partition), fetch_offset=i64(offset), partition_max_bytes=i32(size_bytes)
            )
        )
    return FetchRequest(
        max_wait=duration(0),
        min_bytes=i32(0),
        max_bytes=i32(BATCH_BYTES_MAX // 4),
        isolation_level=i8(read_committed),
        topics=tuple(
            FetchTopic(topic=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
        ),
        forgotten_topics_data=(),
    )
