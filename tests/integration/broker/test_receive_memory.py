"""Frames that stand still: what one instance's hold, and what another's producer notices of it."""

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.integration.broker.fake_control import SECRET
from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, batch, create_topic, produce, request

MIB = 1024 * 1024
_LOOKS = 10
"""Of 0.05 s, at which nothing has changed."""
GREEDY, ALSO_GREEDY, THIRD, POLITE = "igreedyaaaaa", "igreedybbbbb", "igreedyccccc", "ipoliteaaaaa"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with running_broker(tmp_path, "--secret-file", str(secret)) as running:
        yield running


def _connect(broker: BrokerProcess, instance_id: str) -> RawClient:
    """As a gateway connects for a client."""
    client = RawClient(broker.port, timeout_s=60)
    assert client.call(request(17, 1, mechanism="PLAIN")).error_code.value == 0
    token = f"{instance_id}/127.0.0.1:1\0portico\0{SECRET}".encode()
    assert client.call(request(36, 1, auth_bytes=token)).error_code.value == 0
    return client


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _held(broker: BrokerProcess) -> float:
    return broker.metrics()["portico_broker_receive_memory_bytes"]


class _Stalled:
    """Frames of 90 MiB, of which the first 19 MiB come, as far as they are taken, and then nothing."""

    def __init__(self, broker: BrokerProcess, held: ExitStack, instance_id: str, count: int) -> None:
        self._piece = memoryview(bytes(19 * MIB))
        self._sent = {held.enter_context(_connect(broker, instance_id)): 0 for _ in range(count)}
        for client in self._sent:
            client.socket.sendall(struct.pack(">ihh", 90 * MIB, 0, 8))
            client.socket.setblocking(False)

    def push(self) -> bool:
        """Send what the broker takes now; it takes more when others have had their turn. Always False."""
        for client, at in self._sent.items():
            with suppress(BlockingIOError):
                while at < len(self._piece):
                    at = self._sent[client] = at + client.socket.send(self._piece[at : at + MIB])
        return False


def _produce(broker: BrokerProcess, instance_id: str, topic: str) -> int:
    """200 kB of another instance."""
    with _connect(broker, instance_id) as client:
        answer = produce(client, f"{instance_id}.{topic}", batch(bytes(200_000)))
        assert answer.error_code.name == "none"
        return int(answer.base_offset)


def test_another_tenants_produce_does_not_wait_for_stalled_frames(broker: BrokerProcess) -> None:
    """Served while every stalled frame is still there: not because one of them was given up."""
    with _connect(broker, POLITE) as client:
        create_topic(client, f"{POLITE}.t")
    with ExitStack() as held:
        stalled = _Stalled(broker, held, GREEDY, 14)
        _wait_until(lambda: stalled.push() or _held(broker) > 80 * MIB)
        for number in range(5):
            assert _produce(broker, POLITE, "t") == number
        assert _held(broker) <= (100 + 32 + 20) * MIB, "its share, small ones, and one frame beyond"
        assert broker.closed_by("frame_given_up") == broker.closed_by("frame_stalled") == 0
    _wait_until(lambda: _held(broker) == 0)


def test_the_largest_staller_goes_when_memory_is_short(broker: BrokerProcess) -> None:
    """Three instances hold all there is, and the one frame that may go beyond it is theirs too.

    A fourth one's frame comes: the largest that stands still goes.
    """
    limit = 256 * MIB
    with _connect(broker, POLITE) as client:
        create_topic(client, f"{POLITE}.t")
    with ExitStack() as held:
        each = [_Stalled(broker, held, instance_id, 6) for instance_id in (GREEDY, ALSO_GREEDY, THIRD)]
        seen: list[float] = []

        def is_at_rest() -> bool:
            """A frame that grows holds both its buffers while it is copied: one look would count them."""
            for one in each:
                one.push()
            seen.append(_held(broker))
            return min(seen[-_LOOKS:]) == max(seen[-_LOOKS:]) >= limit + MIB and len(seen) >= _LOOKS

        offsets = count()

        def gives_way() -> bool:
            """On a slow machine a frame may come to rest later than it seems, and there is room for more."""
            _wait_until(is_at_rest)
            assert _produce(broker, POLITE, "t") == next(offsets)
            return broker.closed_by("frame_given_up") >= 1

        _wait_until(gives_way)
        assert broker.closed_by("frame_stalled") == broker.closed_by("frame_too_slow") == 0
        assert _produce(broker, POLITE, "t") == next(offsets)
    _wait_until(lambda: _held(broker) == 0)
    assert broker.closed_by("internal_error") == 0
