"""An instance's topics on brokers that know no instances, page by page."""

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.kafka_client import KafkaUnavailable
from runtime.kafka_listing import partition_counts

OURS, THEIRS = "ibbbbbbbbbbb", "iccccccccccc"


class Broker:
    """Answers as Kafka does: topics in the order of their names, so many partitions at once."""

    def __init__(self, topics: dict[str, int], page: int) -> None:
        self._all = [(name, index) for name, count in sorted(topics.items()) for index in range(count)]
        self._page = page
        self.asked = 0

    async def ask(self, request: Any) -> Any:
        self.asked += 1
        at = (request.cursor.topic_name, request.cursor.partition_index)
        following = [one for one in self._all if one >= at]
        shown, rest = following[: self._page], following[self._page :]
        topics = [
            SimpleNamespace(name=name, partitions=[one for one in shown if one[0] == name])
            for name in dict.fromkeys(name for name, _ in shown)
        ]
        cursor = SimpleNamespace(topic_name=rest[0][0], partition_index=rest[0][1]) if rest else None
        return SimpleNamespace(topics=topics, next_cursor=cursor)


TOPICS = {"__consumer_offsets": 50, "iaaaaaaaaaaa.t": 9, f"{OURS}.a": 3, f"{OURS}.b": 7, f"{THEIRS}.a": 80}


@pytest.mark.parametrize("page", [1, 2, 3, 10, 1000])
async def test_only_ours_are_counted_however_they_are_cut_into_pages(page: int) -> None:
    broker = Broker(TOPICS, page)
    assert await partition_counts(broker.ask, OURS) == {"a": 3, "b": 7}
    assert broker.asked == -(-10 // page), "neighbours behind ours are not asked for"


async def test_there_may_be_none() -> None:
    assert await partition_counts(Broker({}, 10).ask, OURS) == {}
    assert await partition_counts(Broker({f"{THEIRS}.a": 5}, 2).ask, OURS) == {}


async def test_a_broker_that_goes_round_in_circles_is_left() -> None:
    async def ask(request: Any) -> Any:
        return SimpleNamespace(topics=[], next_cursor=request.cursor)

    with pytest.raises(KafkaUnavailable, match="without an end"):
        await partition_counts(ask, OURS)
