"""What one Produce or Fetch makes a gateway do when nobody else is about: counted, not timed.

Calls of our own Python functions per request and its reply, least of many. Bounds are what they were when
sessions came to know no socket, and one more: who needs more says why.
"""

import asyncio
import socket
import struct
import sys
import threading
from collections import Counter
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from contracts.specs import BrokerAddress, ClusterSpec
from gateway.app import Gateway
from gateway.config import GatewayConfig
from runtime.clock import Clock
from runtime.pacing import Pacing
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
_SWITCHES: Final = ("register", "modify", "unregister")
"""What makes epoll look at a socket, or leave it."""


class _Counter:
    """Counts what the loop's thread calls of ours, and what it calls of the kernel's."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            if frame.f_code.co_filename.startswith(_ROOT) and "/.venv/" not in frame.f_code.co_filename:
                self.calls["python"] += 1
        elif event == "c_call":
            self.calls[function.__name__] += 1


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


class _Loop(threading.Thread):
    """A gateway on a loop of its own, every call of which is counted."""

    def __init__(self, broker_port: int) -> None:
        super().__init__()
        self._serves, self._ending = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._spec = instance_spec(A)
        broker = BrokerAddress(node_id=1, host="127.0.0.1", port=broker_port)
        self._cluster = ClusterSpec(revision=1, cluster_id=CLUSTER_ID, brokers=(broker,))
        self.port = self._spec.listeners[1].port
        self.counter = _Counter()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        gateway = Gateway(GatewayConfig(name="gateway-0"))
        gateway.start()
        gateway.follower.apply_static([self._spec], [self._cluster])
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(sys.setprofile, self.counter)
        self._serves.set()
        await self._ending.wait()
        sys.setprofile(None)
        await gateway.aclose()

    def settle(self) -> None:
        """Until what was under way is through."""
        assert self._loop is not None
        through = threading.Event()
        self._loop.call_soon_threadsafe(through.set)
        assert through.wait(60)

    def __enter__(self) -> "_Loop":
        self.start()
        assert self._serves.wait(60)
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ending.set)
        self.join(60)


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


def _least(loop: _Loop, client: _Client, frame: bytes) -> Counter[str]:
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
    clock = count(step=1_000)  # no quantum is used up, however busy the machine is
    broker = _Broker()
    broker.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(Pacing.__init__.__kwdefaults__, "clock", Clock(monotonic_ns=lambda: next(clock)))
        with _Loop(broker.port) as loop:
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
        assert not any(calls[name] for name in (*_SWITCHES, "thread_time_ns")), (kind, calls)
