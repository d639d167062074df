"""Who creates and deletes topics faster than his rate is held to it, and his neighbour notices nothing."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PlainNewTopic
from kafka.errors import NodeNotReadyError, ThrottlingQuotaExceededError
from kio.schema.errors import ErrorCode

from tests.integration.broker.raw import RawClient, request
from tests.integration.mutating import QUOTA, create, delete, flood, grow, port_of
from tests.integration.stack import Stack

NONE = ErrorCode.none
WORKERS = 4
LIMITS = {"controller_mutation_rate_max": 5, "partitions_max": 5_000}


@pytest.fixture
def instance(stack: Stack, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """An instance with a small rate."""
    made = stack.create_instance(f"rate-{abs(hash(request.node.name))}", limits=LIMITS)
    yield made
    stack.api("DELETE", f"instances/{made['id']}")


def test_a_flood_over_all_workers_is_held_to_one_rate_while_a_neighbour_goes_on(
    stack: Stack,
) -> None:
    flooding = stack.create_instance("flooding", limits={"controller_mutation_rate_max": 1})
    beside = stack.create_instance("beside-a-flood", limits={"partitions_max": 500})
    began = time.monotonic()
    codes = flood(port_of(flooding), connections=8, attempts=8)
    elapsed_s = time.monotonic() - began
    assert codes.keys() == {NONE, QUOTA}
    assert 11 < codes[NONE] <= 11 + elapsed_s + 8, "a charge of each connection may be under way"
    with RawClient(port_of(flooding), timeout_s=60) as client:
        listed = client.call(request(3, 4, topics=None, allow_auto_topic_creation=False)).topics
    assert len(listed) == codes[NONE]
    with RawClient(port_of(beside)) as client:
        assert create(client, 7, {"many": 500}) == ({"many": NONE}, 0)
    producer = Producer({"bootstrap.servers": beside["bootstrap_servers"], "acks": "all"})
    acknowledged: list[Any] = []
    for _ in range(100):
        producer.produce("many", b"value", on_delivery=lambda error, _: acknowledged.append(error))
    assert producer.flush(30) == 0 and acknowledged == [None] * 100


def test_entries_are_refused_one_by_one_and_taken_when_the_time_is_over(instance: dict[str, Any]) -> None:
    with RawClient(port_of(instance), timeout_s=60) as client:
        assert create(client, 7, {"looked-at": 2_000}, validate_only=True) == ({"looked-at": NONE}, 0)
        told = create(client, 7, {"a": 1, "b": 60, "c": 1})
        assert told.codes == {"a": NONE, "b": NONE, "c": QUOTA} and 1_000 < told.throttle_ms <= 1_200
        assert create(client, 7, {"c": 60}).codes == {"c": NONE}, "not read before the time that was told"
        told = delete(client, 6, "b", "c")
        while told.codes["b"] is QUOTA:
            assert told.codes["c"] is QUOTA and told.throttle_ms > 0
            told = delete(client, 6, "b", "c")
        assert told.codes == {"b": NONE, "c": QUOTA}
        told = grow(client, 3, {"c": 120, "a": 2})
        assert told.codes == {"c": NONE, "a": QUOTA} and told.throttle_ms >= 900


def test_old_versions_are_carried_out_and_held_back(instance: dict[str, Any]) -> None:
    with RawClient(port_of(instance), timeout_s=60) as client:
        began = time.monotonic()
        told = create(client, 5, {"a": 50, "b": 10})
        assert told.codes == {"a": NONE, "b": NONE} and 900 < told.throttle_ms <= 1_000
        throttle_s = told.throttle_ms / 1000
        told = grow(client, 1, {"b": 70})
        assert time.monotonic() - began >= throttle_s, "the connection is not read meanwhile"
        assert told.codes == {"b": NONE} and told.throttle_ms >= 900
        told = delete(client, 4, "b", "nobody")
        assert told.codes == {"b": NONE, "nobody": ErrorCode.unknown_topic_or_partition}
        assert told.throttle_ms >= 2_900


def test_old_versions_are_held_to_the_rate_over_new_connections_too(instance: dict[str, Any]) -> None:
    began = time.monotonic()
    codes = flood(port_of(instance), connections=8, attempts=12, version=5, anew=True)
    assert codes == {NONE: 96}
    assert time.monotonic() - began >= (96 - 55 - WORKERS) / 5, "each worker may have one under way"


def test_clients_that_know_no_refusal_get_all_they_ask_for(instance: dict[str, Any]) -> None:
    admin = AdminClient({"bootstrap.servers": instance["bootstrap_servers"]})
    for number in range(4):
        wanted = [NewTopic(f"t{number}-{each}", 8) for each in range(2)]
        for made in admin.create_topics(wanted, request_timeout=60).values():
            made.result(60)
    for gone in admin.delete_topics([f"t{number}-0" for number in range(4)], request_timeout=60).values():
        gone.result(60)
    assert {name for name in admin.list_topics(timeout=60).topics if name.endswith("-0")} == set()


def test_a_client_that_leaves_it_to_its_caller_says_that_it_may_be_tried_again(
    instance: dict[str, Any],
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=instance["bootstrap_servers"], request_timeout_ms=60_000)
    admin.create_topics([PlainNewTopic("a", 60, -1)])
    with pytest.raises(ThrottlingQuotaExceededError) as refused:
        admin.delete_topics(["a"])
    assert refused.value.retriable
    deadline = time.monotonic() + 60
    is_gone = False
    while not is_gone and time.monotonic() < deadline:
        time.sleep(0.1)
        with contextlib.suppress(ThrottlingQuotaExceededError, NodeNotReadyError):
            admin.delete_topics(["a"])  # it does not send anything before the time that it was told
            is_gone = True
    assert is_gone
    admin.close()


def test_the_console_has_the_same_rate_in_a_bucket_of_its_own(stack: Stack, instance: dict[str, Any]) -> None:
    path = f"instances/{instance['id']}/topics"
    with RawClient(port_of(instance), timeout_s=60) as client:
        create(client, 7, {"by-client": 200})
    stack.api("POST", path, {"name": "a", "partitions": 150})
    refused = httpx.post(
        f"{stack.console_url}/v1/{path}",
        json={"name": "b", "partitions": 1},
        headers={"Authorization": f"Bearer {stack.api_key}"},
        timeout=30,
        trust_env=False,
    )
    wait_s = int(refused.headers["retry-after"])
    assert refused.status_code == 429 and 1 <= wait_s <= 19
    assert refused.json()["detail"].startswith(
        "the instance creates and deletes 5 partitions a second at most"
    )
    stack.api("POST", path, {"name": "a", "partitions": 1}, expect=409)
    stack.api("DELETE", f"{path}/a", expect=429)
    time.sleep(wait_s)
    stack.api("DELETE", f"{path}/a")
