"""The whole product over an Apache Kafka: what tenants do, what neighbours see, and what its death costs."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from ctl.bench.apache_kafka import KafkaBroker
from ctl.stack.layout import free_port
from tests.integration import lag_truth
from tests.integration.broker.raw import RawClient, request
from tests.integration.stack import ROOT, Stack
from tests.scenarios.captured import captured
from tests.vports import Vports

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]
_WITHIN_S = 120.0


def until(holds: Callable[[], Any], what: str | Callable[[], str]) -> Any:
    """`what` says what is missing, at the end."""
    deadline = time.monotonic() + _WITHIN_S
    while not (found := holds()):
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(0.2)
    return found


def made(stack: Stack, **changes: Any) -> dict[str, Any]:
    return stack.create_instance(f"i{uuid.uuid4().hex[:8]}", **changes)


def admin_of(instance: dict[str, Any]) -> AdminClient:
    return AdminClient({"bootstrap.servers": instance["bootstrap_servers"]})


def produced(instance: dict[str, Any], topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def consumed(instance: dict[str, Any], topic: str, group: str, count: int) -> list[bytes]:
    """Read as a group from the beginning, and committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": instance["bootstrap_servers"],
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + _WITHIN_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_two_tenants_with_the_same_names_see_their_own(stack: Stack, kafka: list[KafkaBroker]) -> None:
    one, two = made(stack), made(stack)
    stack.api("POST", f"instances/{one['id']}/topics", {"name": "orders", "partitions": 3})
    admin = admin_of(two)
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(60)
    for instance, text in ((one, b"one"), (two, b"two")):
        produced(instance, "orders", [b"%s-%d" % (text, number) for number in range(50)])
        assert set(consumed(instance, "orders", "readers", 50)) == {
            b"%s-%d" % (text, number) for number in range(50)
        }
    for instance, partitions in ((one, 3), (two, 2)):
        listed = admin_of(instance).list_topics(timeout=30)
        assert {name: len(topic.partitions) for name, topic in listed.topics.items()} == {
            "orders": partitions
        }
        assert {broker.port for broker in listed.brokers.values()}.isdisjoint({one.port for one in kafka})
        groups = stack.api("GET", f"instances/{instance['id']}/groups")["items"]
        assert [group["group"] for group in groups] == ["readers"]
        shown = stack.api("GET", f"instances/{instance['id']}/topics/orders")
        assert sum(one["high_watermark"] for one in shown["partitions"]) == 50
        assert sum(one["size_bytes"] for one in shown["partitions"]) > 0
    lag = stack.api("GET", f"instances/{one['id']}/groups/readers")
    assert lag["lag"] == 0


def test_the_members_of_a_group_have_no_address_of_ours(stack: Stack) -> None:
    instance = made(stack)
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t", "partitions": 1})
    consumer = Consumer({"bootstrap.servers": instance["bootstrap_servers"], "group.id": "g"})
    consumer.subscribe(["t"])
    until(lambda: (consumer.poll(0.2), consumer.assignment())[1], "the group has no member")
    admin = admin_of(instance)
    described = admin.describe_consumer_groups(["g"])["g"].result(60)
    assert [member.host for member in described.members] == [""]
    shown = stack.api("GET", f"instances/{instance['id']}/groups/g")
    assert [member["client_host"] for member in shown["members"]] == [""]
    consumer.close()


def test_limits_are_written_into_topics(stack: Stack) -> None:
    instance = made(stack, limits={"retention_ms_max": 3_600_000, "message_bytes_max": 100_000})
    admin = admin_of(instance)
    admin.create_topics([NewTopic("t", 1, config={"retention.ms": "-1"})])["t"].result(60)
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "u", "partitions": 1})

    def configs(topic: str) -> tuple[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = admin.describe_configs([resource])[resource].result(60)
        return found["retention.ms"].value, found["max.message.bytes"].value

    assert configs("t") == configs("u") == ("3600000", "100000")
    path = f"instances/{instance['id']}/topics/t"
    stack.api("PATCH", path, {"configs": {"retention.ms": "60000"}})
    assert until(lambda: configs("t") == ("60000", "100000"), "the change is not seen")
    stack.api("PATCH", path, {"configs": {"retention.ms": None, "max.message.bytes": None}})
    assert until(lambda: configs("t") == ("3600000", "100000"), "unset means the limit")
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "message.max.bytes": 500_000})
    refused: list[Any] = []
    producer.produce("t", b"x" * 200_000, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(60) == 0
    assert refused[0].name() == "MSG_SIZE_TOO_LARGE"


def test_changed_limits_reach_the_topics_that_are_there(stack: Stack) -> None:
    """Lowered ones are written at once; raised ones where the limit of before is what stood there. A second
    tenant's topics stay as they are."""
    first = {"retention_ms_max": 3_600_000, "message_bytes_max": 100_000}
    instance, other = made(stack, limits=first), made(stack, limits=first)
    configs = {"u": {"retention.ms": "60000", "max.message.bytes": "5000"}, "t": {}}
    for one in (instance, other):
        for name, own in configs.items():
            body = {"name": name, "partitions": 1, "configs": own}
            stack.api("POST", f"instances/{one['id']}/topics", body)

    def told(one: dict[str, Any]) -> dict[str, tuple[str, str]]:
        admin, resources = (
            admin_of(one),
            [ConfigResource(ConfigResource.Type.TOPIC, each) for each in configs],
        )
        found = {each.name: asked.result(60) for each, asked in admin.describe_configs(resources).items()}
        return {name: (of["retention.ms"].value, of["max.message.bytes"].value) for name, of in found.items()}

    def change(retention_ms: int, message_bytes: int) -> None:
        limits = {"retention_ms_max": retention_ms, "message_bytes_max": message_bytes}
        stack.api("PATCH", f"instances/{instance['id']}", {"limits": limits})

    as_before = {"t": ("3600000", "100000"), "u": ("60000", "5000")}
    assert told(instance) == told(other) == as_before
    change(1_800_000, 50_000)
    until(lambda: told(instance) == {"t": ("1800000", "50000"), "u": ("60000", "5000")}, told(instance))
    time.sleep(7.0)  # until it is settled which limits were written
    change(7_200_000, 4_000)
    until(lambda: told(instance) == {"t": ("7200000", "4000"), "u": ("60000", "4000")}, told(instance))
    assert told(other) == as_before


def test_tools_meet_the_kafka_they_know(stack: Stack) -> None:
    """Topics by a cursor, resources of configs, groups' configs and features, all of this instance only."""
    one, two = made(stack), made(stack)
    for instance, topics in ((one, ("a", "b")), (two, ("a", "theirs"))):
        admin = admin_of(instance)
        for made_of in admin.create_topics([NewTopic(topic, 2) for topic in topics]).values():
            made_of.result(60)
    kept = {"message.timestamp.after.max.ms": "9223372036854775807", "flush.messages": "1"}
    admin = admin_of(one)
    admin.create_topics([NewTopic("kept", 1, config=kept)])["kept"].result(60)
    admin.create_topics([NewTopic("a_b", 1)])["a_b"].result(60)
    with pytest.raises(KafkaException, match="collides with existing topic: a_b"):
        admin.create_topics([NewTopic("a.b", 1)])["a.b"].result(60)
    host, _, port = one["bootstrap_servers"].rpartition(":")
    assert host == "127.0.0.1"
    with RawClient(int(port)) as raw:
        found, cursor = [], None
        while True:
            asked = request(75, 0, topics=[], response_partition_limit=1, cursor=cursor)
            answer = raw.call(asked)
            found += [(topic.name, len(topic.partitions)) for topic in answer.topics]
            if answer.next_cursor is None:
                break
            at = answer.next_cursor
            cursor = {"topic_name": at.topic_name, "partition_index": at.partition_index}
        assert found == [("a", 1), ("a", 1), ("a_b", 1), ("b", 1), ("b", 1), ("kept", 1)]
        listed = raw.call(request(74, 1, resource_types=(2, 32))).config_resources
        assert [each.resource_name for each in listed] == ["a", "a_b", "b", "kept"]
        resources = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None}
            for kind, name in ((2, "kept"), (32, "readers"))
        ]
        of_topic, of_group = raw.call(request(32, 4, resources=resources)).results
        values = {each.name: each.value for each in of_topic.configs}
        assert values["message.timestamp.after.max.ms"] == kept["message.timestamp.after.max.ms"]
        assert values["flush.messages"] == "9223372036854775807", "it would be an fsync per write"
        assert of_group.resource_name == "readers"
        assert "consumer.session.timeout.ms" in {each.name for each in of_group.configs}
        told = raw.call(request(18, 4, client_software_name="raw", client_software_version="1"))
        features = {each.name: each.max_version_level for each in told.finalized_features}
        assert features == {"group.version": 1, "transaction.version": 2}
        transactions = request(66, 2, duration_filter=-1, transactional_id_pattern=".*")
        assert raw.call(transactions).error_code.value == 0


def test_partitions_are_counted_without_a_controller_that_would(stack: Stack) -> None:
    instance = made(stack, limits={"partitions_max": 5}, auto_create_topics=True)
    admin = admin_of(instance)
    admin.create_topics([NewTopic("t", 3)])["t"].result(60)
    with pytest.raises(KafkaException, match="3 of at most 5 partitions; 3 more do not fit"):
        admin.create_topics([NewTopic("u", 3)])["u"].result(60)
    with pytest.raises(KafkaException, match="3 of at most 5"):
        admin.create_partitions([NewPartitions("t", 6)])["t"].result(60)
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "message.timeout.ms": 10_000})
    for number in range(6):
        producer.produce(f"asked-{number}", b"1", on_delivery=lambda *_: None)
    producer.flush(60)
    counts = [len(topic.partitions) for topic in admin.list_topics(timeout=30).topics.values()]
    assert sum(counts) == 5


def test_transactions_and_their_aborts(stack: Stack) -> None:
    instance = made(stack)
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t", "partitions": 1})
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "transactional.id": "p"})
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        producer.produce("t", b"%d" % number)
        assert producer.flush(60) == 0
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    assert consumed(instance, "t", "g", 2) == [b"0", b"2"]

    path = f"instances/{instance['id']}/topics/t/messages"
    sent = stack.api("POST", path, {"value": "sent"})["offset"]

    def seen(**asked: Any) -> list[str]:
        return [one["value"]["text"] for one in stack.api("GET", path, **asked)["messages"]]

    until(lambda: seen() == ["sent", "2", "0"], "the console sees what was committed, the newest first")
    assert seen(offset=0) == ["0", "2", "sent"]
    assert seen(offset=0, uncommitted=True) == ["0", "1", "2", "3", "sent"]
    assert seen(offset=sent) == ["sent"]


def test_a_deleted_instance_leaves_nothing_and_takes_nothing_with_it(stack: Stack, backend: str) -> None:
    gone, stays = made(stack), made(stack)
    for instance in (gone, stays):
        stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t", "partitions": 2})
        produced(instance, "t", [b"1"])
        consumed(instance, "t", "g", 1)
    direct = AdminClient({"bootstrap.servers": backend})

    def left(instance: dict[str, Any]) -> tuple[list[str], list[str]]:
        groups = direct.list_consumer_groups().result(60).valid
        topics = direct.list_topics(timeout=30).topics
        return (
            [name for name in topics if name.startswith(instance["id"])],
            [group.group_id for group in groups if group.group_id.startswith(instance["id"])],
        )

    assert left(gone) == ([f"{gone['id']}.t"], [f"{gone['id']}.g"])
    stack.api("DELETE", f"instances/{gone['id']}")
    until(lambda: left(gone) == ([], []), f"{left(gone)} is left")
    until(
        lambda: gone["id"] not in [one["id"] for one in stack.api("GET", "deleted-instances")["items"]],
        "the purge does not end",
    )
    assert left(stays) == ([f"{stays['id']}.t"], [f"{stays['id']}.g"])
    assert consumed(stays, "t", "others", 1) == [b"1"]


def test_what_this_engine_lacks_is_told(stack: Stack) -> None:
    told = stack.api("GET", "brokers")
    [cluster] = told["clusters"]
    assert (cluster["engine"], cluster["trouble"], cluster["brokers"]) == ("apache", None, 3)
    assert any("coordinators" in lack for lack in cluster["lacks"])
    assert not any("client quotas" in lack for lack in cluster["lacks"]), (
        "its client quotas follow the leases"
    )
    assert [broker["live"] for broker in told["items"]] == [True] * 3
    assert all(broker["log_bytes"] is not None for broker in told["items"])
    assert stack.api("GET", "health")["brokers_live"] == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_broker_that_dies_loses_nothing_acknowledged(
    stack: Stack, kafka: list[KafkaBroker], number: signal.Signals
) -> None:
    instance = made(stack)
    admin = admin_of(instance)
    admin.create_topics([NewTopic("t", 3)])["t"].result(60)
    leader = admin.list_topics("t", timeout=30).topics["t"].partitions[0].leader
    [broker] = [one for one in kafka if one.node_id == leader]
    acknowledged: set[bytes] = set()
    ended = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "enable.idempotence": True})

        def told(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.add(message.value())

        sent = 0
        while not ended.is_set():
            producer.produce("t", b"%d" % sent, partition=sent % 3, on_delivery=told)
            sent += 1
            producer.poll(0.005)
        assert producer.flush(90) == 0

    def consume_and_ask() -> None:
        consumer = Consumer({"bootstrap.servers": instance["bootstrap_servers"], "group.id": "g"})
        consumer.subscribe(["t"])
        while not ended.is_set():
            consumer.consume(1000, 0.2)
            with contextlib.suppress(KafkaException):  # while nobody leads
                consumer.list_topics(timeout=10)
                consumer.committed([TopicPartition("t", 0)], timeout=10)
        consumer.close()

    bootstrap = {int(instance["bootstrap_servers"].rpartition(":")[2])}
    vports = {one.port for one in admin.list_topics(timeout=30).brokers.values()} | bootstrap
    busy = [threading.Thread(target=each) for each in (produce, consume_and_ask)]
    with captured(vports) as sent:
        for each in busy:
            each.start()
        try:
            until(lambda: len(acknowledged) > 100, "nothing is acknowledged")
            os.kill(broker.pid, number)
            broker.until_ended()
            at_death = len(acknowledged)
            trouble = f"broker {leader} is not there"
            until(lambda: stack.api("GET", "brokers")["clusters"][0]["trouble"] == trouble, "nobody tells")
            until(lambda: len(acknowledged) > at_death + 300, "producing does not go on")
        finally:
            broker.start()
            broker.until_serving()
            ended.set()
            for each in busy:
                each.join(120)
        until(lambda: stack.api("GET", "brokers")["clusters"][0]["trouble"] is None, "it is not back")
    assert sent.told(vports) == vports - bootstrap, "addresses are found where they are"
    assert not sent.told({one.port for one in kafka}), "a client was told an address of the cluster"
    reader = Consumer({"bootstrap.servers": instance["bootstrap_servers"], "group.id": "g"})
    reader.assign([TopicPartition("t", partition, 0) for partition in range(3)])
    found: list[bytes] = []
    until(
        lambda: (
            found.extend(one.value() for one in reader.consume(1000, 1.0) if one.error() is None)
            or len(set(found) & acknowledged) == len(acknowledged)
        ),
        "something acknowledged is lost",
    )
    reader.close()
    assert len(found) == len(set(found)), "an idempotent producer's record is there twice"


@pytest.mark.long
def test_a_backend_that_is_not_there_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    port = free_port()
    told = subprocess.run(
        [
            *(sys.executable, "-m", "runtime.start", "ctl.main", "up", "--backend", f"127.0.0.1:{port}"),
            *("--data-dir", str(tmp_path / "data"), "--console", f"127.0.0.1:{free_port()}"),
            *("--vports", str(Vports()), "--metrics", "127.0.0.1:0", "--workers", "1"),
        ],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert told.returncode == 1
    assert f"no broker answers: broker 127.0.0.1:{port} cannot be reached" in told.stderr
    assert "Portico serves" not in told.stdout


def test_lag_in_seconds_is_that_of_the_first_record_not_consumed(stack: Stack) -> None:
    instance = made(stack)
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "orders", "partitions": 1})
    log, end = lag_truth.mixed_log(instance, "orders")
    lag_truth.check(stack, instance, log, end)
