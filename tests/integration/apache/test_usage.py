"""Usage on an Apache Kafka: what gateways carried, to the byte, counted by the hour and recorded once."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.test_billed_bytes import (
    Bill,
    _fetch_sessions,
    _large,
    _many_names,
    _refused,
    _without_answers,
    produce_frame,
)
from tests.integration.apache.test_backend import admin_of, made, until
from tests.integration.apache.test_quota import answers
from tests.integration.broker.raw import batch, fetch_request
from tests.integration.stack import Stack
from tests.integration.tenants.test_counted_usage import _recorded as recorded

# By hand: behind the other tests of this stack, on a busy machine, not all was counted in time.
pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(600)]


def counted(stack: Stack, instance_id: str) -> tuple[int, int]:
    """Bytes produced and consumed, as the console counts them without the pipeline."""
    begin = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 86_400))
    told = stack.api("GET", f"instances/{instance_id}/usage?from={begin}&resolution=hour")["totals"]
    return (0, 0) if told is None else (int(told["produce_bytes"]), int(told["consume_bytes"]))


class CountedBill(Bill):
    """A client's count beside the usage that the console shows."""

    def metered(self) -> tuple[int, int]:
        return counted(self._stack, self.instance_id)

    def check(self) -> None:
        until(lambda: self.metered() == self.expected, lambda: f"{self.metered()}, not {self.expected}")
        time.sleep(12)  # counted once more, and no more than once
        assert self.metered() == self.expected


def _every_version(bill: Bill) -> None:
    """That this release still has."""
    for version in (3, 7, 8):
        bill.produce(produce_frame(version, {"a": {0: batch(b"one", b"two")}}))
    for version in (4, 7, 11):
        bill.fetch(fetch_request("a", 0, version=version))
        bill.fetch(fetch_request("a", 99, version=version))
        bill.fetch(fetch_request("missing", 0, version=version))


def _leader(instance: dict[str, Any], topic: str) -> str:
    """HOST:PORT of who leads its first partition."""
    told = admin_of(instance).list_topics(topic, timeout=30)
    broker = told.brokers[told.topics[topic].partitions[0].leader]
    return f"{broker.host}:{broker.port}"


def test_what_a_client_sent_and_received_is_used_to_the_byte(stack: Stack) -> None:
    """Every form of Produce and Fetch, each by an instance of its own, at the broker that leads."""
    exchanges: tuple[Callable[[Bill], None], ...] = (
        _every_version,
        _many_names,
        _refused,
        _without_answers,
        _large,
        _fetch_sessions,
    )
    bills = []
    for exchange in exchanges:
        instance = made(stack, legacy_clients=True)
        for name in ("a", "topic-with-a-longer-name"):
            stack.api("POST", f"instances/{instance['id']}/topics", {"name": name, "partitions": 2})
        bill = CountedBill(stack, instance | {"bootstrap_servers": _leader(instance, "a")})
        exchange(bill)
        bills.append(bill)
    for bill in bills[:-1]:
        until(
            lambda bill=bill: bill.metered() == bill.expected,
            lambda bill=bill: f"{bill.metered()}, not {bill.expected}",
        )
    bills[-1].check()
    assert [bill.metered() for bill in bills] == [bill.expected for bill in bills]


def test_a_master_that_is_killed_loses_no_byte_and_counts_none_twice(stack: Stack) -> None:
    instance, idle = made(stack), made(stack)
    for one in (instance, idle):
        stack.api("POST", f"instances/{one['id']}/topics", {"name": "t", "partitions": 3})
    servers: dict[str, Any] = {"bootstrap.servers": instance["bootstrap_servers"]}
    producer = Producer(servers)
    for turn in range(3):
        for _ in range(300):
            producer.produce("t", b"x" * 1_000)
        assert producer.flush(60) == 0
        if turn < 2:
            stack.wait_for_restart("control", stack.kill("control"))
    until(lambda: answers(stack), "no control plane is back")
    consumer = Consumer(servers | {"group.id": "g"})
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(3)])
    found = 0
    while found < 900:
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        found += 1
    consumer.close()
    until(
        lambda: counted(stack, instance["id"])[0] == recorded(stack, instance) > 900_000,
        lambda: f"counted {counted(stack, instance['id'])}, recorded {recorded(stack, instance)}",
    )
    time.sleep(12)  # counted once more, and no more than once
    told = counted(stack, instance["id"])
    assert told[0] == recorded(stack, instance) and told[1] > 900_000
    assert max(told) < 1_300_000, "frames are a little more than what is in them"
    assert counted(stack, idle["id"]) == (0, 0)
