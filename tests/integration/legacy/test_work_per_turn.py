"""A Fetch of an old client is converted in turns with others: counted in calls, on a broker of its own."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from cProfile import Profile
from pathlib import Path
from typing import Any

import pytest

from broker.app import Broker
from broker.config import BrokerConfig
from ctl.bench.one_loop import metered
from tests.integration.broker.raw import batch, fetch_request, produce_body, request
from tests.unit.legacy.sets import read_old
from wire.codec import decode_response, duration, framed_request

_COUNT = 40_000
_CALLS_MAX = 12_000
"""A step of 200 messages, and what is around it; all of them are a hundred times as many."""


def _calls_of(work: Callable[[], None]) -> float:
    profile = Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(each.callcount for each in profile.getstats())


class _Client:
    """On the broker's own loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def exchange(self, frame: bytes) -> bytes:
        self._writer.write(frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)

    async def fetch(self, topic: str, offset: int) -> Any:
        frame = framed_request(fetch_request(topic, offset, version=3), 1, "old")
        return decode_response(await self.exchange(frame), 1, 3)[1].responses[0].partitions[0]


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    broker = Broker(BrokerConfig(node_id=1, cluster_id="old", data_dir=tmp_path, listen_port=0))
    yield await broker.start()
    await broker.stop()


async def test_no_turn_converts_or_passes_many_messages(port: int) -> None:
    client = _Client(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
    topic = {"name": "old", "num_partitions": 1, "replication_factor": -1, "assignments": [], "configs": []}
    create = request(19, 4, topics=[topic], timeout=duration(10_000))
    await client.exchange(framed_request(create, 1, "c"))
    body = b"\0\0\0\7\0\0\0\1\xff\xff" + produce_body("old", 0, batch(*[b"v"] * _COUNT))
    await client.exchange(len(body).to_bytes(4, "big") + body)
    for offset in (0, _COUNT - 10):
        with metered(_calls_of) as turns:
            answer = await client.fetch("old", offset)
        rows = read_old(answer.records)
        assert rows[0][0] == offset and len(rows) >= 10
        found = [turn for turn in turns if turn.whose == "broker"]
        assert max(turn.cost for turn in found) <= _CALLS_MAX, found
        assert len(found) > _COUNT // 1_000, "they took turns"
