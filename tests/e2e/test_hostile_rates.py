"""Clients that try to get more than their instance bought, on bare sockets through the gateway, all at once
and each on an instance of its own: T is what they get, and a neighbour does not notice.

Counted are bytes that were answered, or stored where the client does not wait for an answer.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.records import create_topic
from tests.integration.broker.raw import RawClient, batch, fetch_request, produce_body, request
from tests.integration.stack import Stack, running_stack
from wire.codec import decode_response, framed_request

T: Final = 200_000
WINDOW_S: Final = 10.0
CONNECTIONS: Final = 8
FRAME_BYTES: Final = 16_000
UNANSWERED_MAX: Final = 100
"""Connections that a client which does not wait for answers opens, on each of its threads."""
METADATA_BYTES: Final = 4_000
PARTITIONS: Final = 8


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(Path(tmp_path_factory.mktemp("hostile")) / "data") as running:
        yield running


def framed(api_key: int, api_version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, api_version, 1, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_frame(partition: int = 0, acks: int = 1, *, damaged: bool = False) -> bytes:
    records = batch(b"x" * FRAME_BYTES)
    if damaged:
        records = records[:-1] + bytes([records[-1] ^ 1])
    return framed(0, 7, produce_body("load", partition, records, acks=acks))


def commit_frame(metadata_bytes: int) -> bytes:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": 0,
            "committed_leader_epoch": -1,
            "committed_metadata": "m" * metadata_bytes,
        }
        for index in range(PARTITIONS)
    ]
    commit = request(
        8,
        6,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "load", "partitions": partitions}],
    )
    return framed_request(commit, 1, "hostile")


@dataclass
class Hostile:
    """One kind of client, with an instance to itself."""

    name: str
    frame: Callable[[], bytes]
    answers: bool = False
    """Counts the answers' bytes, not the requests'."""
    waits: bool = True
    resets: bool = False
    listed: bool = False
    """The topic has an address list without this client: the gateway refuses it."""
    port: int = 0
    carried: int = 0
    throttled: int = 0
    """Answers that named a throttle time."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, until_s: float) -> None:
        """A new connection for each request."""
        frame = self.frame()
        for opened in range(1_000_000):
            left_s = until_s - time.monotonic()
            if left_s <= 0 or (not self.waits and opened == UNANSWERED_MAX):
                return
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=left_s) as sock:
                    self._exchange(sock, frame)
            except TimeoutError:
                return
            except ConnectionError:
                time.sleep(0.01)

    def _exchange(self, sock: socket.socket, frame: bytes) -> None:
        sock.sendall(frame)
        if self.resets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if not self.waits:
            return
        answer = _exactly(sock, 4)
        answer += _exactly(sock, struct.unpack(">i", answer)[0])
        with self.lock:
            self.carried += len(answer) if self.answers else len(frame)


def _exactly(sock: socket.socket, size: int) -> bytes:
    out = b""
    while len(out) < size:
        piece = sock.recv(size - len(out))
        if not piece:
            raise ConnectionError("closed")
        out += piece
    return out


class Neighbour(threading.Thread):
    """Works at a fraction of its rate on one connection, and notes what it was told."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.until_s = 0.0
        self.sent = 0
        self.faults: list[str] = []
        self._client = RawClient(port, timeout_s=30.0)

    def run(self) -> None:
        with self._client as client:
            while time.monotonic() < self.until_s:
                client.send_frame(0, 7, produce_body("load", 0, batch(b"y" * 1_000)))
                _, answer = decode_response(client.receive_frame(), 0, 7)
                self.sent += 1
                partition = answer.responses[0].partition_responses[0]
                if partition.error_code.value or answer.throttle_time.total_seconds():
                    self.faults.append(str(answer))
                time.sleep(0.02)


def stored_bytes(port: int) -> int:
    """What the batches of the topic's first partition took on the wire."""
    with RawClient(port) as client:
        answer = client.call(
            request(
                2,
                1,
                replica_id=-1,
                topics=[{"name": "load", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            )
        )
    return int(answer.topics[0].partitions[0].offset) * len(produce_frame())


KINDS: Final = (
    ("produce", produce_frame, {}),
    ("acks-5", lambda: produce_frame(acks=5), {}),
    ("no-partition", lambda: produce_frame(partition=99), {}),
    ("damaged", lambda: produce_frame(damaged=True), {}),
    ("acks-0", lambda: produce_frame(acks=0), {"waits": False}),
    ("reset", produce_frame, {"waits": False, "resets": True}),
    ("listed", produce_frame, {"listed": True}),
    ("fetch", lambda: framed_request(fetch_request("load", 0, max_bytes=1), 1, "hostile"), {"answers": True}),
    ("commit", lambda: commit_frame(METADATA_BYTES), {}),
    ("refused-commit", lambda: commit_frame(METADATA_BYTES * 2), {}),
)


@pytest.mark.timeout(180)
def test_nobody_gets_more_than_was_bought(stack: Stack) -> None:
    hostile = [Hostile(name, frame, **options) for name, frame, options in KINDS]  # type: ignore[arg-type]
    rates = {"produce_rate_bytes_per_s": T, "consume_rate_bytes_per_s": T}
    ids = {}
    for each in hostile:
        instance = stack.create_instance(f"hostile-{each.name}", **rates)
        ids[each.name] = instance["id"]
        create_topic(instance["bootstrap_servers"], "load", PARTITIONS)
        each.port = int(instance["bootstrap_servers"].rpartition(":")[2])
        if each.listed:
            path = f"instances/{instance['id']}/topics/load/whitelist"
            stack.api("PUT", path, {"cidrs": ["192.0.2.0/24"]})
            stack.wait_for_state(instance["id"], "running")
        if each.answers:
            with RawClient(each.port) as client:
                client.send_frame(0, 7, produce_body("load", 0, batch(b"x" * FRAME_BYTES)))
                client.receive_frame()
    quiet = stack.create_instance("quiet", **rates)
    create_topic(quiet["bootstrap_servers"], "load")
    neighbour = Neighbour(int(quiet["bootstrap_servers"].rpartition(":")[2]))
    until_s = neighbour.until_s = time.monotonic() + WINDOW_S
    threads = [
        threading.Thread(target=each.run, args=(until_s,)) for each in hostile for _ in range(CONNECTIONS)
    ]
    for thread in (neighbour, *threads):
        thread.start()
    for thread in (neighbour, *threads):
        thread.join()
    for each in hostile:
        if not each.waits:
            each.carried = stored_bytes(each.port)
    elapsed_s = time.monotonic() - until_s + WINDOW_S
    shares = {each.name: round(each.carried / elapsed_s / T, 3) for each in hostile}
    assert all(share <= 1.1 for share in shares.values()), shares
    assert all(
        shares[name] >= 0.5 for name in ("produce", "acks-5", "no-partition", "damaged", "listed", "fetch")
    ), shares
    assert not neighbour.faults and neighbour.sent, neighbour.faults[:3]
    print(shares)
