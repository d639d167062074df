"""An instance's topics on brokers that know no instances, page by page."""

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.kafka_client import KafkaUnavailable
from runtime.kafka_listing import partition_counts

OURS, THEIRS = "ibbbbbbbbbbb", "iccccccccccc"


class Broker:
    """Answers as Kafka does: topics in the order of their names, so many partitions at once, or fewer
    where fewer are asked for."""

    def __init__(self, topics: dict[str, int], page: int) -> None:
        self._all = [(name, index) for name, count in sorted(topics.items()) for index in range(count)]
        self._page = page
        self.asked = self.shown = 0

    async def ask(self, request: Any) -> Any:
        self.asked += 1
        at = (request.cursor.topic_name, request.cursor.partition_index)
        following = [one for one in self._all if one >= at]
        page = min(self._page, request.response_partition_limit)
        shown, rest = following[:page], following[page:]
        self.shown += len(shown)
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
    assert await partition_counts(broker.ask, OURS, 0) == {"a": 3, "b": 7}
    assert broker.asked == -(-10 // page), "neighbours behind ours are not asked for"


@pytest.mark.parametrize(("expected", "shown"), [(0, 16), (10, 16), (70, 71), (1000, 99)])
async def test_neighbours_are_not_listed_with_an_instance(expected: int, shown: int) -> None:
    broker = Broker(TOPICS | {f"{THEIRS}.b": 9}, 1000)
    assert await partition_counts(broker.ask, OURS, expected) == {"a": 3, "b": 7}
    assert (broker.shown, broker.asked) == (shown, 1)


async def test_one_that_has_more_than_is_thought_is_listed_whole() -> None:
    broker = Broker({f"{OURS}.t{n}": 1 for n in range(700)} | {f"{THEIRS}.a": 80}, 2000)
    assert sum((await partition_counts(broker.ask, OURS, 30)).values()) == 700
    assert broker.asked == 4, "31, then three times 300"
    broker.asked = 0
    assert sum((await partition_counts(broker.ask, OURS, 700)).values()) == 700
    assert broker.asked == 3


async def test_there_may_be_none() -> None:
    assert await partition_counts(Broker({}, 10).ask, OURS, 0) == {}
    assert await partition_counts(Broker({f"{THEIRS}.a": 5}, 2).ask, OURS, 0) == {}


async def test_a_broker_that_goes_round_in_circles_is_left() -> None:
    async def ask(request: Any) -> Any:
        return SimpleNamespace(topics=[], next_cursor=request.cursor)

    with pytest.raises(KafkaUnavailable, match="without an end"):
        await partition_counts(ask, OURS, 0)
