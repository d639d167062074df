"""What one Produce or Fetch makes a gateway do when nobody else is about: counted, not timed.

Calls of our own Python functions per request and its reply, least of many. Bounds are what they were when
sessions came to know no socket, and one more: who needs more says why.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from contracts.specs import BrokerAddress, ClusterSpec
from gateway.app import Gateway
from gateway.config import GatewayConfig
from tests.counted_loop import SWITCHES, CountedLoop, machine_of
from tests.scenarios.harness import CLUSTER_ID, A, instance_spec
from wire.api_table import ApiKey
from wire.build import build, response
from wire.codec import framed_request, framed_response, request_class

_ROOT: Final = str(Path(__file__).resolve().parents[3])
_TOPIC: Final = "orders"
_REQUESTS: Final = 30
_SMALL, _LARGE = b"v" * 100, b"v" * 16_000
_PRODUCE_VERSION: Final = 8
_FETCH_VERSION: Final = 11


class _Broker(threading.Thread):
    """Answers each frame of its only connection with what it was told to answer with."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.answers: dict[int, bytes] = {}
        """Frames by API, their correlation ids to be filled in."""

    def run(self) -> None:
        client, _ = self._listening.accept()
        with client, client.makefile("rb") as reads:
            while head := reads.read(12):
                size, api_key, _, correlation_id = struct.unpack(">ihhi", head)
                reads.read(size - 8)
                answer = self.answers[api_key]
                client.sendall(answer[:4] + struct.pack(">i", correlation_id) + answer[8:])

    def close(self) -> None:
        self._listening.close()
        self.join(20)


@asynccontextmanager
async def _served(broker_port: int) -> AsyncIterator[int]:
    """By a clock on which no quantum is used up."""
    spec = instance_spec(A)
    broker = BrokerAddress(node_id=1, host="127.0.0.1", port=broker_port)
    gateway = Gateway(GatewayConfig(name="gateway-0"), machine_of(1_000))
    gateway.start()
    cluster = ClusterSpec(revision=1, cluster_id=CLUSTER_ID, brokers=(broker,))
    gateway.follower.apply_static([spec], [cluster])
    yield spec.listeners[1].port
    await gateway.aclose()


def _is_ours(path: str) -> bool:
    return path.startswith(_ROOT) and "/.venv/" not in path


class _Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._reads = self._socket.makefile("rb")

    def call(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._reads.read(4))
        return self._reads.read(size)

    def close(self) -> None:
        self._reads.close()
        self._socket.close()


def _produce(records: bytes) -> bytes:
    topic = {"name": _TOPIC, "partition_data": [{"index": 0, "records": records}]}
    message = request_class(ApiKey.PRODUCE, _PRODUCE_VERSION)
    return framed_request(build(message, {"acks": -1, "topic_data": [topic]}), 7, "counted")


def _fetch() -> bytes:
    topic = {"topic": _TOPIC, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}
    message = request_class(ApiKey.FETCH, _FETCH_VERSION)
    return framed_request(build(message, {"max_bytes": 1 << 20, "topics": [topic]}), 7, "counted")


def _produced() -> bytes:
    entry = {"name": f"{A}.{_TOPIC}", "partition_responses": [{"index": 0}]}
    return framed_response(response(ApiKey.PRODUCE, _PRODUCE_VERSION, responses=[entry]), 0)


def _fetched(records: bytes) -> bytes:
    entry = {"topic": f"{A}.{_TOPIC}", "partitions": [{"partition_index": 0, "records": records}]}
    return framed_response(response(ApiKey.FETCH, _FETCH_VERSION, responses=[entry]), 0)


_KINDS: Final = {
    "produce 100 B": (_produce(_SMALL), _produced()),
    "produce 16 KB": (_produce(_LARGE), _produced()),
    "fetch 100 B": (_fetch(), _fetched(_SMALL)),
    "fetch 16 KB": (_fetch(), _fetched(_LARGE)),
}


def _least(loop: CountedLoop, client: _Client, frame: bytes) -> Counter[str]:
    """What the cheapest of many requests has called."""
    seen: list[Counter[str]] = []
    loop.settle()
    before = loop.counter.calls.copy()
    for _ in range(_REQUESTS):
        client.call(frame)
        loop.settle()
        now = loop.counter.calls.copy()
        seen.append(now - before)
        before = now
    return min(seen, key=lambda each: each["python"])


@pytest.fixture(scope="module")
def work() -> dict[str, Counter[str]]:
    """By kind of request: calls of one and of its reply."""
    broker = _Broker()
    broker.start()
    with CountedLoop(partial(_served, broker.port), _is_ours) as loop:
        client = _Client(loop.port)
        found = {}
        for kind, (frame, answer) in _KINDS.items():
            broker.answers[struct.unpack_from(">ih", frame)[1]] = answer
            client.call(frame)
            found[kind] = _least(loop, client, frame)
        client.close()
    broker.close()
    return found


@pytest.mark.parametrize(
    ("kind", "calls_max"),
    [
        ("produce 100 B", 36),
        ("produce 16 KB", 37),
        ("fetch 100 B", 47),
        ("fetch 16 KB", 48),
    ],
)
def test_a_request_calls_so_much_and_no_more(
    work: dict[str, Counter[str]], kind: str, calls_max: int
) -> None:
    assert work[kind]["python"] <= calls_max, work[kind]


def test_a_request_leaves_the_poll_and_the_clock_of_the_thread_alone(work: dict[str, Counter[str]]) -> None:
    """What is uncontended is not paused, and the account of CPU time costs no system call per request."""
    for kind, calls in work.items():
        assert not any(calls[name] for name in (*SWITCHES, "thread_time_ns")), (kind, calls)
