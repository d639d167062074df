"""Usage records of a whole stack, read through the system instance's vport, add up to what was carried."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_batches import decoded
from contracts.usage_records import USAGE_TOPIC, UsageRecord, record_id
from tests.integration.stack import Stack

INTERVAL_MS = 1_000
VALUE = b"x" * 1_000


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    started = Stack(tmp_path / "data", "--usage-interval-ms", str(INTERVAL_MS), "--workers", "1").start()
    yield started
    started.stop()


class Shop:
    """An instance, and where it and the system instance are reached whatever becomes of the console."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        created = stack.create_instance("shop")
        self.instance_id = str(created["id"])
        self.bootstrap = str(created["bootstrap_servers"])
        stack.api("POST", f"instances/{self.instance_id}/topics", {"name": "orders", "partitions": 2})
        self.system = str(stack.api("GET", f"instances/{SYSTEM_INSTANCE_ID}")["bootstrap_servers"])
        self.sent_bytes = 0
        deadline = time.monotonic() + 60
        while not self.quota()["brokers"]:  # what was before the first report shows in totals only
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def produce(self, records: int) -> None:
        """Until all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number in range(records):
            producer.produce("orders", VALUE, partition=number % 2)
        assert producer.flush(60) == 0
        self.sent_bytes += records * len(VALUE)

    def produce_and_report(self, records: int) -> None:
        """Until the master knows, too: what a broker did not report dies with it."""
        before = self.reported_bytes()
        self.produce(records)
        deadline = time.monotonic() + 60
        while self.reported_bytes() < before + records * len(VALUE):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def reported_bytes(self) -> int:
        """What the broker said that it took since it started; zero until it says so."""
        return sum(int(each["produce"]["used_total"]) for each in self.quota()["brokers"])

    def quota(self) -> dict[str, Any]:
        """The master's view of the instance, once it answers: while one takes over it is 503."""
        url = f"{self.stack.console_url}/v1/instances/{self.instance_id}/quota"
        headers = {"Authorization": f"Bearer {self.stack.api_key}"}
        deadline = time.monotonic() + 20
        while (answer := httpx.get(url, headers=headers, trust_env=False)).status_code == 503:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.2)
        view: dict[str, Any] = answer.raise_for_status().json()
        return view

    def told(self, within_s: float = 60.0) -> list[UsageRecord]:
        """The instance's records, once they tell of everything that was sent."""
        deadline = time.monotonic() + within_s
        while True:
            records: list[UsageRecord] = []
            with contextlib.suppress(KafkaException):  # while processes come back
                records = read(self.system)
            mine = [one for one in records if one.instance_id == self.instance_id]
            if used(mine) >= self.sent_bytes and mine[-1].stored_bytes >= self.sent_bytes:
                return mine
            assert time.monotonic() < deadline, records[-3:]
            time.sleep(0.5)


def read(bootstrap: str) -> list[UsageRecord]:
    """Everything on topic `usage`, each id once; the same id always says the same of what it counts."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = Consumer(settings | {"group.id": "nobody", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(USAGE_TOPIC, timeout=10).topics[USAGE_TOPIC].partitions
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(USAGE_TOPIC, each))[1] for each in partitions
        }
        consumer.assign([TopicPartition(USAGE_TOPIC, each, 0) for each, end in ends.items() if end])
        found: dict[str, UsageRecord] = {}
        left = {each: end for each, end in ends.items() if end}
        while left:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None, message.error()
            batch = decoded(message.value())
            assert message.key() == batch.point.encode()
            for record in batch.records():
                assert record.id == record_id(record.boot_id, record.instance_id, record.interval_start_ms)
                if record.id not in found or found[record.id].interval_ms < record.interval_ms:
                    found[record.id] = record
            if message.offset() + 1 >= left.get(message.partition(), 2**63):
                del left[message.partition()]
    finally:
        consumer.close()
    return sorted(found.values(), key=lambda record: record.interval_start_ms)


def used(records: list[UsageRecord]) -> int:
    """What an instance's records and the gaps between their totals say that it produced; checks the chain."""
    totals: dict[str, int] = defaultdict(int)
    for record in records:
        begin = record.produce_bytes_total - record.produce_bytes
        assert begin >= totals[record.boot_id], "no byte is in two records"
        totals[record.boot_id] = record.produce_bytes_total
    return sum(totals.values())


def test_what_was_carried_is_told_whatever_is_killed(stack: Stack) -> None:
    shop = Shop(stack)
    shop.produce(500)
    records = shop.told()
    assert sum(one.produce_bytes for one in records) == used(records)

    shop.produce(300)
    killed = stack.kill("control")
    stack.wait_for_restart("control", killed)
    shop.produce(200)
    shop.told()

    shop.produce_and_report(100)
    killed = stack.kill_broker(1)
    stack.wait_for_broker(1, other_than=killed)
    shop.produce(50)
    assert len({one.boot_id for one in shop.told()}) == 2

    shop.produce_and_report(70)
    stack.stop()
    stack.start()
    records = shop.told()
    assert shop.sent_bytes < used(records) < 1.1 * shop.sent_bytes
    assert (records[-1].partitions_led, records[-1].produce_limit_bytes_per_s) == (2, 200_000_000)


def test_only_operators_and_this_machine_reach_the_usage_topic(stack: Stack) -> None:
    shop = stack.create_instance("shop")
    tenant_view = AdminClient({"bootstrap.servers": shop["bootstrap_servers"]}).list_topics(timeout=10)
    assert USAGE_TOPIC not in tenant_view.topics
    assert SYSTEM_INSTANCE_ID not in {one["id"] for one in stack.api("GET", "instances")["items"]}
    system = stack.api("GET", f"instances/{SYSTEM_INSTANCE_ID}")
    assert system["whitelist"] == ["127.0.0.0/8", "::1/128"]
    admin = AdminClient({"bootstrap.servers": system["bootstrap_servers"]})
    deadline = time.monotonic() + 20
    while USAGE_TOPIC not in (found := admin.list_topics(timeout=10).topics):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    assert len(found[USAGE_TOPIC].partitions) == 4
    owner = stack.api("POST", "keys", {"name": "k", "role": "owner"})["secret"]
    answer = httpx.get(
        f"{stack.console_url}/v1/instances/{SYSTEM_INSTANCE_ID}",
        headers={"Authorization": f"Bearer {owner}"},
        trust_env=False,
    )
    assert answer.status_code == 404
    stack.api("DELETE", f"instances/{SYSTEM_INSTANCE_ID}", expect=409)
