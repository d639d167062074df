"""What the conventions' attributes are taken from, and that hostile bytes give none."""

import random

from kio.schema.fetch.v11 import FetchRequest
from kio.schema.fetch.v11.request import FetchTopic

from gateway.rules.messaging_attributes import operation_of, request_attributes
from tests.integration.broker.raw import batch, produce_body
from wire.codec import duration, framed_request

_NOW = duration(0)
_PRODUCE_HEAD = b"\0\0\0\7\0\0\0\1"


def _produce(client_id: bytes = b"\0\4till") -> bytes:
    frame = _PRODUCE_HEAD + client_id + produce_body("orders", 0, batch(b"v"), acks=-1)
    return len(frame).to_bytes(4, "big") + frame


def test_a_produce_names_its_topic_and_its_client() -> None:
    assert request_attributes(memoryview(_produce())) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "till",
        "messaging.destination.name": "orders",
    }
    assert "messaging.client.id" not in request_attributes(memoryview(_produce(b"\xff\xff")))


def test_a_fetch_of_one_topic_names_it_and_one_of_several_none() -> None:
    def fetch(*topics: str) -> memoryview:
        made = tuple(FetchTopic(topic=topic, partitions=()) for topic in topics)  # type: ignore[arg-type]
        request = FetchRequest(max_wait=_NOW, min_bytes=1, topics=made, forgotten_topics_data=())  # type: ignore[arg-type]
        return memoryview(framed_request(request, 1, "c"))

    assert request_attributes(fetch("orders"))["messaging.destination.name"] == "orders"
    assert "messaging.destination.name" not in request_attributes(fetch("orders", "customers"))


def test_what_is_cut_or_wrong_gives_less_and_fails_never() -> None:
    whole = _produce()
    for size in range(12, len(whole)):
        request_attributes(memoryview(whole[:size]))
    draw = random.Random(33)
    for _ in range(3_000):
        bent = bytearray(whole)
        for _ in range(4):
            bent[draw.randrange(8, len(bent))] = draw.randrange(256)
        request_attributes(memoryview(bent))


def test_operations_have_the_names_of_the_conventions() -> None:
    assert [operation_of(key) for key in (0, 1, 8, 3)] == ["send", "poll", "commit", None]
