"""What is metered, and so billed, is what crossed the client's own socket: Produce request frames and Fetch
answer frames, length prefixes included, to the byte and in every form (docs/quota.md: What a byte is)."""

import struct
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.e2e.records import create_topic
from tests.integration.broker.raw import RawClient, batch, fetch_request
from tests.integration.stack import Stack
from wire.codec import framed_request

PRODUCE_VERSIONS: Final = (0, 2, 3, 7, 8)
FETCH_VERSIONS: Final = (0, 2, 4, 7, 11)


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def produce_frame(
    version: int,
    topics: dict[str, dict[int, bytes]],
    *,
    acks: int = 1,
    transactional_id: str | None = None,
    client_id: str = "bill",
) -> bytes:
    """A Produce request with its length prefix: records by topic and partition."""
    body = struct.pack(">hhi", 0, version, 1) + _string(client_id)
    if version >= 3:
        body += _string(transactional_id)
    body += struct.pack(">hii", acks, 5_000, len(topics))
    for name, partitions in topics.items():
        body += _string(name) + struct.pack(">i", len(partitions))
        for index, records in partitions.items():
            body += struct.pack(">ii", index, len(records)) + records
    return struct.pack(">i", len(body)) + body


class Bill:
    """A client that counts what it sends and receives."""

    def __init__(self, stack: Stack, instance: dict[str, Any]) -> None:
        self._stack = stack
        self.instance_id = str(instance["id"])
        self._client = RawClient(int(instance["bootstrap_servers"].rpartition(":")[2]), timeout_s=30.0)
        self.produced = self.consumed = 0

    def produce(self, frame: bytes, *, answered: bool = True) -> None:
        self._client.socket.sendall(frame)
        self.produced += len(frame)
        if answered:
            self._client.receive_frame()

    def fetch(self, request: Any) -> None:
        self._client.socket.sendall(framed_request(request, 1, "bill"))
        self.consumed += 4 + len(self._client.receive_frame())

    def metered(self) -> tuple[int, int]:
        brokers = self._stack.api("GET", f"instances/{self.instance_id}/quota")["brokers"]
        flows = [(broker["produce"]["used_total"], broker["consume"]["used_total"]) for broker in brokers]
        return sum(produce for produce, _ in flows), sum(consume for _, consume in flows)

    def check(self) -> None:
        """Reports come each second: wait until all is told, then it is exactly that."""
        deadline = time.monotonic() + 30
        while any(told < sent for told, sent in zip(self.metered(), self.expected, strict=True)):
            assert time.monotonic() < deadline, (self.metered(), self.expected)
            time.sleep(0.2)
        assert self.metered() == self.expected

    @property
    def expected(self) -> tuple[int, int]:
        return self.produced, self.consumed


def _bill(stack: Stack, name: str, **changes: Any) -> Bill:
    instance = stack.create_instance(f"bill-{name}", legacy_clients=True, **changes)
    for topic in ("a", "topic-with-a-longer-name"):
        create_topic(instance["bootstrap_servers"], topic, 2)
    return Bill(stack, instance)


def _every_produce_version(bill: Bill) -> None:
    for version in PRODUCE_VERSIONS:
        bill.produce(produce_frame(version, {"a": {0: batch(b"one")}}))


def _many_names(bill: Bill) -> None:
    one = batch(b"x" * 100)
    topics = {"a": {0: one, 1: one}, "topic-with-a-longer-name": {1: one}, "missing": {0: one}}
    bill.produce(produce_frame(8, topics))
    bill.produce(produce_frame(7, topics, transactional_id="nobody's"))
    bill.produce(produce_frame(7, {}))


def _refused(bill: Bill) -> None:
    one = batch(b"x" * 100)
    bill.produce(produce_frame(7, {"a": {0: one}}, acks=5))
    bill.produce(produce_frame(7, {"a": {99: one}}))
    bill.produce(produce_frame(7, {"a": {0: b"no batch"}}))
    bill.produce(produce_frame(7, {"n" * 300: {0: one}}))
    bill.produce(produce_frame(7, {"a": {0: one}}, transactional_id=""))


def _without_answers(bill: Bill) -> None:
    bill.produce(produce_frame(7, {"a": {0: batch(b"x")}}, acks=0), answered=False)
    bill.produce(produce_frame(3, {"a": {0: batch(b"x")}}, acks=0), answered=False)


def _large(bill: Bill) -> None:
    large = batch(b"x" * 900_000)
    bill.produce(produce_frame(7, {"a": {0: large, 1: large}}))
    bill.fetch(fetch_request("a", 0, max_bytes=10_000_000))


def _every_fetch_version(bill: Bill) -> None:
    bill.produce(produce_frame(7, {"a": {0: batch(b"one", b"two")}}))
    for version in FETCH_VERSIONS:
        bill.fetch(fetch_request("a", 0, version=version))
        bill.fetch(fetch_request("a", 99, version=version))
        bill.fetch(fetch_request("missing", 0, version=version))


def _fetch_sessions(bill: Bill) -> None:
    bill.fetch(fetch_request("a", 0, session_epoch=0))
    bill.fetch(fetch_request("a", 0, session_id=7, session_epoch=3))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "exchange",
    [
        _every_produce_version,
        _many_names,
        _refused,
        _without_answers,
        _large,
        _every_fetch_version,
        _fetch_sessions,
    ],
)
def test_the_bill_is_what_the_client_sent_and_received(
    stack: Stack, exchange: Callable[[Bill], None]
) -> None:
    bill = _bill(stack, exchange.__name__.strip("_").replace("_", "-"))
    exchange(bill)
    bill.check()


@pytest.mark.timeout(120)
def test_topics_with_address_lists_are_billed_as_others(stack: Stack) -> None:
    """The gateway answers for topics that this client may not use: their bytes are the tenant's, too."""
    bill = _bill(stack, "lists")
    path = f"instances/{bill.instance_id}/topics/a/whitelist"
    stack.api("PUT", path, {"cidrs": ["192.0.2.0/24"]})
    stack.wait_for_state(bill.instance_id, "running")
    one = batch(b"x" * 100)
    both = {"a": {0: one}, "topic-with-a-longer-name": {0: one}}
    bill.produce(produce_frame(7, {"a": {0: one}}))
    bill.produce(produce_frame(7, both))
    bill.fetch(fetch_request("a", 0))
    bill.fetch(fetch_request("topic-with-a-longer-name", 0))
    bill.check()
