"""Reading topic `usage` from where somebody stopped, whatever became of the topic since."""

from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tenants.backend import usage_topic
from tenants.backend.cluster import Cluster
from tenants.backend.usage_topic import Values
from tenants.rules.counted_usage import Position
from tenants.rules.errors import Unavailable
from wire.batch import Record, build_batch

OLD, NEW = UUID(int=1), UUID(int=2)
START, END = 3, 10
_NONE: Final = ErrorCode.none


class OneBroker:
    """It has one partition, with records of offsets 3 to 9, a batch each, which say their offset."""

    def __init__(self) -> None:
        self.addresses = {1: ("127.0.0.1", 1)}
        self.topic_id, self.error_code = OLD, _NONE
        self.is_up, self.damaged = True, -1

    async def ask(self, request: Any, leader: int | None = None) -> Any:
        kind = type(request).__name__
        if kind == "MetadataRequest":
            partition = SimpleNamespace(partition_index=0, leader_id=1, error_code=_NONE)
            topic = SimpleNamespace(
                error_code=self.error_code, topic_id=self.topic_id, partitions=(partition,)
            )
            return SimpleNamespace(topics=(topic,))
        assert leader == 1
        if not self.is_up:
            raise Unavailable("down")
        name = request.topics[0]
        if kind == "ListOffsetsRequest":
            one = SimpleNamespace(partition_index=0, offset=START, error_code=_NONE)
            return SimpleNamespace(topics=(SimpleNamespace(name=name.name, partitions=(one,)),))
        one = self._fetched(int(name.partitions[0].fetch_offset))
        return SimpleNamespace(responses=(SimpleNamespace(topic=name.topic, partitions=(one,)),))

    def _fetched(self, offset: int) -> Any:
        is_there = START <= offset <= END
        batches = []
        for at in range(offset, END):
            batch = build_batch([Record(0, 0, None, b"%d" % at)], base_offset=at)
            batch[-1] ^= at == self.damaged
            batches.append(bytes(batch))
        return SimpleNamespace(
            partition_index=0,
            error_code=_NONE if is_there else ErrorCode.offset_out_of_range,
            records=b"".join(batches) if is_there else None,
            aborted_transactions=None,
        )


async def _read(broker: OneBroker, position: Position | None) -> Values | None:
    found = await usage_topic.read(cast(Cluster, broker), {} if position is None else {0: position})
    return found[0] if found else None


def _at(offset: int, topic_id: UUID = OLD) -> Position:
    return Position(str(topic_id), offset)


async def test_it_goes_on_where_it_stopped() -> None:
    broker = OneBroker()
    assert await _read(broker, _at(7)) == Values(0, _at(END), [b"7", b"8", b"9"], None)
    assert await _read(broker, _at(END)) is None


async def test_the_first_time_it_begins_with_the_oldest_record() -> None:
    assert await _read(OneBroker(), None) == Values(0, _at(START), [], None)


async def test_what_is_gone_is_passed_over_and_told() -> None:
    read = await _read(OneBroker(), _at(2))
    assert read is not None and read.position == _at(START)
    assert read.unreadable == "offset 2 is not there, it goes on at 3"


async def test_a_topic_that_was_made_anew_is_read_from_its_begin() -> None:
    broker = OneBroker()
    broker.topic_id = NEW
    first = await _read(broker, _at(7))
    assert first == Values(0, _at(START, NEW), [], None)
    second = await _read(broker, first.position)
    assert second is not None and second.values[0] == b"3" and second.position == _at(END, NEW)


async def test_a_damaged_batch_is_passed_over_and_told() -> None:
    broker = OneBroker()
    broker.damaged = 8
    read = await _read(broker, _at(7))
    assert read is not None and (read.position, read.values) == (_at(END), [b"7", b"9"])
    assert read.unreadable is not None and "the batch at 8" in read.unreadable


async def test_no_topic_is_nothing_and_a_silent_broker_is_told() -> None:
    broker = OneBroker()
    broker.is_up = False
    with pytest.raises(Unavailable):
        await _read(broker, None)
    broker.error_code = ErrorCode.topic_authorization_failed
    with pytest.raises(Unavailable, match="TOPIC_AUTHORIZATION_FAILED"):
        await _read(broker, None)
    broker.error_code = ErrorCode.unknown_topic_or_partition
    assert await _read(broker, None) is None
