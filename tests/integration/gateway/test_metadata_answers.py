"""A flood of Metadata for hundreds of topics: an answer is mapped once, and steps end with their turn.

Work is counted: how often answers are decoded, and how many requests and replies one step takes.
"""

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gateway.session.mapped
import gateway.session.requests
import wire.build
from contracts.specs import InstanceSpec
from ctl.bench.one_loop import Pair, running_pair
from traffic.turns import QUANTUM_ALONE_NS
from wire.api_table import ApiKey
from wire.codec import decode_response, framed_request, request_class

TOPICS = 200
VERSIONS = (0, 1, 2, 4, 7, 9, 11)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, TOPICS) as running:
        yield running


class Client:
    """One connection to the instance that sends requests at once and reads answers in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids = itertools.count(1)

    @classmethod
    async def of(cls, pair: Pair) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", pair.port))

    async def ask(self, requests: list[Any]) -> list[Any]:
        ids = [next(self._ids) for _ in requests]
        frames = [framed_request(each, number, "c") for each, number in zip(requests, ids, strict=True)]
        self._writer.write(b"".join(frames))
        answers = []
        for request, number in zip(requests, ids, strict=True):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            correlation_id, answer = decode_response(
                await self._reader.readexactly(size), request.__api_key__, request.__version__
            )
            assert correlation_id == number
            answers.append(answer)
        return answers

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def client(pair: Pair) -> AsyncIterator[Client]:
    one = await Client.of(pair)
    yield one
    one.close()


def all_topics(version: int = 4) -> Any:
    message = request_class(ApiKey.METADATA, version)
    more = {"allow_auto_topic_creation": False} if version >= 4 else {}
    if version >= 8:
        more["include_topic_authorized_operations"] = False
        if version <= 10:
            more["include_cluster_authorized_operations"] = False
    return message(topics=() if version == 0 else None, **more)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of every reply that the gateway decodes."""
    sizes: list[int] = []
    decode = gateway.session.mapped.decode_response

    def counted(frame: bytes, *which: int) -> Any:
        sizes.append(len(frame))
        return decode(frame, *which)

    monkeypatch.setattr(gateway.session.mapped, "decode_response", counted)
    return sizes


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_the_broker_says_again_is_mapped_once(
    pair: Pair, client: Client, decoded: list[int], version: int
) -> None:
    (first,) = await client.ask([all_topics(version)])
    assert sorted(str(topic.name) for topic in first.topics) == sorted(pair.topics)
    assert [broker.port for broker in first.brokers] == [pair.port]
    mapped = len(decoded)
    others = await client.ask([all_topics(version)] * 40)
    assert all(other == first for other in others)
    assert len(decoded) == mapped, "40 more requests decode nothing"


async def test_a_topic_that_comes_is_in_the_next_answer(pair: Pair, client: Client) -> None:
    await client.ask([all_topics(), all_topics()])
    create = request_class(ApiKey.CREATE_TOPICS, 4)
    new = wire.build.build(
        create, {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": -1}]}
    )
    await client.ask([new])
    deadline = asyncio.get_running_loop().time() + 20
    while "new" not in {str(topic.name) for topic in (await client.ask([all_topics()]))[0].topics}:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


def _changed(pair: Pair, **changes: Any) -> None:
    """A new revision of the instance's spec comes."""
    (served,) = pair.gateway.worker.served.values()
    spec: InstanceSpec = msgspec.structs.replace(served.spec, revision=served.spec.revision + 1, **changes)
    pair.gateway.listeners.apply(spec)


async def test_an_instance_that_moves_tells_its_new_address(pair: Pair, client: Client) -> None:
    await client.ask([all_topics(), all_topics()])
    (served,) = pair.gateway.worker.served.values()
    moved = tuple(
        msgspec.structs.replace(each, advertised_host="moved.example") for each in served.spec.listeners
    )
    _changed(pair, listeners=moved)
    again = await Client.of(pair)
    try:
        (answer,) = await again.ask([all_topics()])
    finally:
        again.close()
    assert [str(broker.host) for broker in answer.brokers] == ["moved.example"]


async def test_who_may_see_a_topic_is_asked_for_each_client(pair: Pair, client: Client) -> None:
    await client.ask([all_topics(), all_topics()])
    _changed(pair, topic_whitelists={"topic-3": ("10.9.8.0/24",)})
    (answer,) = await client.ask([all_topics()])
    assert "topic-3" not in {str(topic.name) for topic in answer.topics}
    assert len(answer.topics) == TOPICS - 1


async def test_a_step_ends_when_its_instances_turn_does(
    pair: Pair, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock on which each reading takes a third of a quantum: no step handles as many as were sent."""
    await client.ask([all_topics()])
    steps: list[int] = []
    take, feed = gateway.session.requests.take_request, gateway.session.requests.Requests.receive

    def counted_feed(*arguments: Any) -> int:
        steps.append(0)
        return feed(*arguments)

    def counted_take(*arguments: Any) -> Any:
        steps[-1] += 1
        return take(*arguments)

    monkeypatch.setattr(gateway.session.requests, "take_request", counted_take)
    monkeypatch.setattr(gateway.session.requests.Requests, "receive", counted_feed)
    readings = itertools.count(pair.gateway.worker.pacing.clock_ns(), QUANTUM_ALONE_NS // 3)
    monkeypatch.setattr(pair.gateway.worker.pacing, "clock_ns", lambda: next(readings))
    await client.ask([all_topics()] * 30)
    assert sum(steps) == 30
    assert max(steps) <= 4, steps
