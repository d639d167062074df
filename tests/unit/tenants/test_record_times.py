"""Times of offsets, looked up: how often brokers are asked, and what is told of what is not known."""

import asyncio
import itertools
import threading
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchRequest
from kio.schema.fetch.v11.response import FetchableTopicResponse, FetchResponse, PartitionData
from kio.static.primitive import i32, i64

from contracts.specs import BrokerAddress
from tenants.backend import record_times
from tenants.backend.cluster import Cluster, ConnectionPool
from tenants.backend.record_times import CPU_SHARE, Place, RecordTimes, Where, pause_s
from tenants.rules.errors import Unavailable
from tenants.rules.record_time import UNKNOWN_MS
from wire.batch import Record, build_batch, iterate_batches
from wire.codec import duration

_T = 1_700_000_000_000
_ID = UUID(int=1)


class Broker(Cluster):
    """A cluster of one broker, which answers Fetch as Kafka does: of the first partition a batch at least."""

    def __init__(self, batches: list[bytes], last_stable_offset: int | None = None) -> None:
        super().__init__(ConnectionPool(None), (BrokerAddress(node_id=1, host="127.0.0.1", port=1),))
        self.batches = [(next(iterate_batches(each))[1], each) for each in batches]
        self.end = self.batches[-1][0].next_offset if batches else 0
        self.last_stable_offset = self.end if last_stable_offset is None else last_stable_offset
        self.too_large = False
        self.asked = 0

    async def ask(self, request: Any, node_id: int | None = None, **_more: Any) -> FetchResponse:
        assert isinstance(request, FetchRequest) and node_id == 1
        self.asked += 1
        if self.too_large:
            raise Unavailable("the answer is too large")
        parts = [(topic.topic, part) for topic in request.topics for part in topic.partitions]
        return FetchResponse(
            throttle_time=duration(0),
            error_code=ErrorCode.none,
            session_id=i32(0),
            responses=tuple(
                FetchableTopicResponse(
                    topic=name, partitions=(self._part(part, request.isolation_level, is_first=not at),)
                )
                for at, (name, part) in enumerate(parts)
            ),
        )

    def _part(self, part: Any, isolation_level: int, *, is_first: bool) -> PartitionData:
        limit = self.last_stable_offset if isolation_level else self.end
        found = b""
        for header, data in self.batches:
            if header.last_offset < part.fetch_offset or header.base_offset >= limit:
                continue
            if len(found) + len(data) > part.partition_max_bytes and (found or not is_first):
                break
            found += data
        return PartitionData(
            partition_index=part.partition,
            error_code=ErrorCode.none,
            high_watermark=i64(self.end),
            last_stable_offset=i64(self.last_stable_offset),
            aborted_transactions=(),
            preferred_read_replica=-1,  # type: ignore[arg-type]
            records=found or None,  # type: ignore[arg-type]
        )

    def places(self, offsets: list[int], partitions: int = 1) -> dict[Place, Where]:
        where = Where("i.t", 1, self.end)
        return {Place(_ID, each, offset): where for each in range(partitions) for offset in offsets}


def batches(count: int, records: int = 10, size: int = 100) -> list[bytes]:
    def one(base: int) -> bytes:
        own = [Record(0, _T + 1_000 * (base + number), None, b"x" * size) for number in range(records)]
        return bytes(build_batch(own, base_offset=base))

    return [one(number * records) for number in range(count)]


async def known(times: RecordTimes, broker: Broker, places: dict[Place, Where]) -> dict[Place, int | None]:
    found: dict[Place, int | None] = {}
    for _ in range(100):
        found = await times.times(broker, "i", places, 5)
        if len(found) == len(places):
            break
    return found


async def test_a_thousand_groups_of_one_partition_cost_few_questions() -> None:
    broker, times = Broker(batches(100)), RecordTimes()
    places = broker.places(list(range(1_000)))
    assert await known(times, broker, places) == {place: _T + 1_000 * place.offset for place in places}
    asked = broker.asked
    assert asked <= 20
    assert len(await times.times(broker, "i", places, 0)) == 1_000
    assert broker.asked == asked, "a time does not change"


async def test_large_batches_of_many_partitions_are_all_found() -> None:
    broker, times = Broker(batches(3, size=4_000)), RecordTimes()
    places = broker.places([5, 12, 29], partitions=70)
    assert await known(times, broker, places) == {place: _T + 1_000 * place.offset for place in places}


async def test_what_a_tenant_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_times, "WAITING_MAX", 100)
    monkeypatch.setattr(record_times, "KEPT_PER_INSTANCE", 50)
    broker, times = Broker(batches(3)), RecordTimes()
    found = await times.times(broker, "i", broker.places([5], partitions=100_000), 5)
    assert 0 < len(found) <= 100 and broker.asked <= 100
    assert None not in found.values()
    assert len(await times.times(broker, "i", broker.places([5], partitions=100), 0)) <= 50


async def test_what_is_not_known_yet_is_not_there() -> None:
    broker, times = Broker(batches(3)), RecordTimes()
    assert await times.times(broker, "i", broker.places([5]), 0) == {}
    assert await known(times, broker, broker.places([5])) == {Place(_ID, 0, 5): _T + 5_000}


async def test_a_batch_too_large_to_be_read_is_unknown_and_holds_nobody_up() -> None:
    broker, times = Broker(batches(3)), RecordTimes()
    broker.too_large = True
    places = broker.places([5, 12])
    assert await known(times, broker, places) == dict.fromkeys(places, UNKNOWN_MS)
    assert broker.asked <= 2


async def test_behind_an_open_transaction_the_time_is_that_of_its_records() -> None:
    broker, times = Broker(batches(3), last_stable_offset=10), RecordTimes()
    places = broker.places([5, 10, 25])
    assert await known(times, broker, places) == {place: _T + 1_000 * place.offset for place in places}


async def test_nothing_left_is_known_until_there_is_more() -> None:
    marked = bytearray(batches(1)[0])
    marked[22] |= 0x20  # a control batch
    broker, times = Broker([bytes(marked)]), RecordTimes()
    assert await known(times, broker, broker.places([3])) == {Place(_ID, 0, 3): None}
    more = Broker([bytes(marked), batches(2)[1]])
    assert await known(times, more, more.places([3])) == {Place(_ID, 0, 3): _T + 10_000}


async def test_instances_wait_for_a_turn_and_all_have_one() -> None:
    brokers, times = [Broker(batches(3)) for _ in range(12)], RecordTimes()
    found = await asyncio.gather(
        *(times.times(each, f"i{at}", each.places([5]), 10) for at, each in enumerate(brokers))
    )
    assert found == [{Place(_ID, 0, 5): _T + 5_000}] * 12


class Held(Broker):
    """Its first answer leaves when it is let go."""

    def __init__(self, batches: list[bytes]) -> None:
        super().__init__(batches)
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def ask(self, request: Any, node_id: int | None = None, **more: Any) -> FetchResponse:
        self.was_asked.set()
        await self.may_answer.wait()
        return await super().ask(request, node_id, **more)


async def test_an_offset_asked_for_while_a_later_one_is_looked_up_gets_its_own_time() -> None:
    broker, times = Held(batches(100)), RecordTimes()
    later, earlier = broker.places([905]), broker.places([5])
    first = asyncio.create_task(known(times, broker, later))
    await broker.was_asked.wait()
    assert await times.times(broker, "i", earlier, 0) == {}
    broker.may_answer.set()
    assert await known(times, broker, earlier | later) == {
        place: _T + 1_000 * place.offset for place in earlier | later
    }
    await first


async def test_an_offset_asked_for_while_an_answer_is_read_gets_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, times = Broker(batches(100)), RecordTimes()
    later, earlier = broker.places([905]), broker.places([5])
    is_read, may_go_on = threading.Event(), threading.Event()
    look = record_times.first_times

    def held(*asked: Any) -> Any:
        is_read.set()
        assert may_go_on.wait(60)
        return look(*asked)

    monkeypatch.setattr(record_times, "first_times", held)
    first = asyncio.create_task(known(times, broker, later))
    assert await asyncio.to_thread(is_read.wait, 60)
    assert await times.times(broker, "i", earlier, 0) == {}
    may_go_on.set()
    assert await known(times, broker, earlier) == {place: _T + 1_000 * place.offset for place in earlier}
    assert await first == {place: _T + 1_000 * place.offset for place in later}


async def test_a_turn_ends_with_its_cpu_time_and_what_is_left_has_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent = itertools.count(step=11_000_000)
    monkeypatch.setattr(record_times, "cpu_ns", lambda: next(spent))
    broker, times = Broker(batches(3)), RecordTimes()
    places = broker.places([5], partitions=9)
    assert await known(times, broker, places) == dict.fromkeys(places, _T + 5_000)
    assert broker.asked == 5, "two partitions a turn"


def test_instances_share_the_cpu_time_however_many_there_are() -> None:
    for looking in (1, 8, 200):
        shares = [spent / (spent + pause_s(0, spent, looking)) for spent in (0.02, 0.001) * (looking // 2)]
        assert sum(shares) <= CPU_SHARE + 1e-9
    assert pause_s(0, 0.001, 8) < pause_s(0, 0.02, 8), "who takes little is soon back"
