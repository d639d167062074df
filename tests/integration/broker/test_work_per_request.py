"""What one Produce or Fetch of a tenant makes a broker do when nobody else is about: counted, not timed.

Calls of Python functions per request, least of many. Bounds are what they were when this was written, with
room for a few, and for large frames that come and go in pieces: who needs more says why.
"""

import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from broker.app import Broker
from broker.config import BrokerConfig
from broker.net.server import Server
from runtime.machine import Machine
from runtime.pacing import Pacing
from tests.counted_loop import SWITCHES, CallCounter, CountedLoop, machine_of
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch_request, produce_body, request
from traffic.turns import QUANTUM_ALONE_NS, Turn
from wire.codec import framed_request

_SECRET: Final = "counted"
_TOPIC: Final = "iaaaaaaaaaaa.t"
_REQUESTS: Final = 30
_REQUESTS_MAX: Final = 300
"""On a machine with other work a large frame comes in more pieces than it has to, most of the time."""
_RECORD: Final = b"v" * 1_000
_BATCHES: Final = {
    "one record": batch(b"v" * 100),
    "16 KB": batch(*[_RECORD] * 15),
    "1 MB": batch(*[_RECORD] * 980),
}


@asynccontextmanager
async def _served(directory: Path, machine: Machine) -> AsyncIterator[int]:
    broker = Broker(
        BrokerConfig(node_id=1, cluster_id="counted", data_dir=directory, listen_port=0, secret=_SECRET),
        machine,
    )
    yield await broker.start()
    await broker.stop()


def _counted(directory: Path, step_ns: int = 1_000) -> CountedLoop:
    """By a clock on which no quantum is used up, unless `step_ns` says so."""
    return CountedLoop(partial(_served, directory, machine_of(step_ns)))


def _client(port: int, authorization_id: str) -> RawClient:
    client = RawClient(port, timeout_s=60.0)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    client.call(request(17, 1, mechanism="PLAIN"))
    client.call(request(36, 1, auth_bytes=f"{authorization_id}\0portico\0{_SECRET}".encode()))
    return client


_CALLS_MAX: Final = {
    "produce one record": 128,
    "produce 16 KB": 133,
    "produce 1 MB": 190,
    "fetch one record": 139,
    "fetch 16 KB": 144,
    "fetch 1 MB": 152,
}


def _least(counter: CallCounter, client: RawClient, frame: bytes, enough: int | None = None) -> Counter[str]:
    """What the cheapest of many requests has called; of more of them while it is above `enough`."""
    seen: list[Counter[str]] = []
    while len(seen) < _REQUESTS or (
        enough is not None and len(seen) < _REQUESTS_MAX and min(each["python"] for each in seen) > enough
    ):
        before = counter.calls.copy()
        client.socket.sendall(frame)
        client.receive_frame()
        client.call(request(18, 0))  # so that the loop is through with the other
        seen.append(counter.calls - before)
    return min(seen, key=lambda each: each["python"])


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """By kind of request: calls of a request and of the ApiVersions behind it, less one ApiVersions."""
    directory = tmp_path_factory.mktemp("counted")
    with _counted(directory) as loop:
        with _client(loop.port, "") as operator:
            create_topic(operator, _TOPIC)
        with _client(loop.port, "iaaaaaaaaaaa/192.0.2.1:5") as client:
            frames = {
                f"produce {name}": _framed(produce_body(_TOPIC, 0, records, acks=-1))
                for name, records in _BATCHES.items()
            }
            for at, (name, records) in zip((0, 1, 16), _BATCHES.items(), strict=True):
                frames[f"fetch {name}"] = framed_request(
                    fetch_request(_TOPIC, at, max_bytes=len(records)), 1, "counted"
                )
            for name in _BATCHES:
                client.socket.sendall(frames[f"produce {name}"])
                client.receive_frame()
            asking = _least(loop.counter, client, framed_request(request(18, 0), 1, "counted"))
            alone = Counter({name: calls // 2 for name, calls in asking.items()})
            return {
                name: _least(loop.counter, client, frame, _CALLS_MAX[name] + alone["python"]) - alone
                for name, frame in frames.items()
            }


def _framed(body: bytes) -> bytes:
    frame = b"\0\0\0\7\0\0\0\1\xff\xff" + body
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("kind", _CALLS_MAX)
def test_a_request_calls_so_much_and_no_more(work: dict[str, Counter[str]], kind: str) -> None:
    assert work[kind]["python"] <= _CALLS_MAX[kind], work[kind]


def test_a_request_leaves_sockets_and_the_clock_of_the_thread_alone(work: dict[str, Counter[str]]) -> None:
    """What is uncontended is not paused, and the account of CPU time costs no system call per request."""
    for kind, calls in work.items():
        assert not any(calls[name] for name in (*SWITCHES, "thread_time_ns")), (kind, calls)


def test_a_step_ends_when_its_instances_turn_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which each reading takes a third of a quantum: no step handles all that were sent."""
    steps = [0]
    dispatch, end = Server.dispatch, Pacing.end

    def counted_dispatch(server: Server, connection: Any, frame: Any) -> None:
        steps[-1] += 1
        dispatch(server, connection, frame)

    def counted_end(pacing: Pacing, turn: Turn) -> None:
        steps.append(0)
        end(pacing, turn)

    monkeypatch.setattr(Server, "dispatch", counted_dispatch)
    monkeypatch.setattr(Pacing, "end", counted_end)
    with (
        _counted(tmp_path, QUANTUM_ALONE_NS // 3) as loop,
        _client(loop.port, "iaaaaaaaaaaa/192.0.2.1:5") as client,
    ):
        steps[:] = [0]
        client.socket.sendall(framed_request(request(18, 0), 1, "counted") * 30)
        for _ in range(30):
            client.receive_frame()
    assert sum(steps) >= 30
    assert max(steps) <= 4, steps


def test_answers_to_what_came_together_leave_together(tmp_path: Path) -> None:
    with _counted(tmp_path) as loop:
        with _client(loop.port, "") as operator:
            create_topic(operator, _TOPIC)
        with _client(loop.port, "iaaaaaaaaaaa/192.0.2.1:5") as client:
            frame = _framed(produce_body(_TOPIC, 0, _BATCHES["one record"], acks=-1))
            client.socket.sendall(frame)
            client.receive_frame()
            before = loop.counter.calls.copy()
            client.socket.sendall(frame * _REQUESTS)
            answers = [client.receive_frame() for _ in range(_REQUESTS)]
            sent = loop.counter.calls - before
    assert sent["send"] + sent["sendmsg"] <= _REQUESTS // 5, sent
    assert len(answers) == _REQUESTS


def test_answers_that_were_collected_leave_before_a_hostile_frame_closes(tmp_path: Path) -> None:
    with _counted(tmp_path) as loop, _client(loop.port, "iaaaaaaaaaaa/192.0.2.1:5") as client:
        asked = framed_request(request(18, 0), 1, "counted")
        client.socket.sendall(asked * 3 + b"\x7f\xff\xff\xff" + b"\0" * 16)
        for _ in range(3):
            assert client.receive_frame()
        with pytest.raises((OSError, EOFError)):
            client.receive_frame()
