"""Topics, messages, groups and purging through the console, with real clients beside it."""

import asyncio
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.metadata.v8.request import MetadataRequest

from runtime.kafka_client import KafkaConnection
from tests.integration.stack import Stack
from tests.lately import LATELY_MS


@pytest.fixture
def instance(stack: Stack) -> Iterator[dict[str, Any]]:
    """An instance of its own for each test."""
    made = stack.create_instance(f"console-{uuid.uuid4().hex[:8]}")
    yield made
    stack.api("DELETE", f"instances/{made['id']}")


def _eventually(what: Callable[[], Any], within_s: float = 60.0) -> Any:
    deadline = time.monotonic() + within_s
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.1)


def _produce(instance: dict[str, Any], topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"]})
    for number in range(count):
        producer.produce(topic, value=b"x" * 1000, key=str(number), partition=partition)
    assert producer.flush(20) == 0


@contextmanager
def _consumer(instance: dict[str, Any], group: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": instance["bootstrap_servers"],
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": "console-test",
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def test_the_life_of_a_topic(stack: Stack, instance: dict[str, Any]) -> None:
    path = f"instances/{instance['id']}/topics"
    body = {"name": "orders", "partitions": 2, "configs": {"retention.ms": "3600000"}}
    made = stack.api("POST", path, body)
    assert [one["high_watermark"] for one in made["partitions"]] == [0, 0]
    stack.api("POST", path, body, expect=409)
    metadata = AdminClient({"bootstrap.servers": instance["bootstrap_servers"]}).list_topics(timeout=10)
    assert {name: len(topic.partitions) for name, topic in metadata.topics.items()} == {"orders": 2}

    _produce(instance, "orders", 50)
    topic = stack.api("GET", f"{path}/orders")
    assert [one["high_watermark"] for one in topic["partitions"]] == [50, 0]
    assert topic["stored_bytes"] > 50_000
    configs = {one["name"]: one for one in topic["configs"]}
    assert (configs["retention.ms"]["value"], configs["retention.ms"]["is_default"]) == ("3600000", False)
    assert configs["retention.ms"]["editable"]
    [listed] = stack.api("GET", path)["items"]
    assert (listed["partitions"], listed["replication_factor"]) == (2, 1)
    assert listed["stored_bytes"] == topic["stored_bytes"]

    change = {"partitions": 3, "configs": {"retention.ms": None, "max.message.bytes": "5000"}}
    changed = stack.api("PATCH", f"{path}/orders", change)
    configs = {one["name"]: one for one in changed["configs"]}
    assert configs["retention.ms"]["is_default"]
    assert configs["max.message.bytes"]["value"] == "5000"
    assert len(changed["partitions"]) == 3
    stack.api("PATCH", f"{path}/orders", {"partitions": 2}, expect=409)

    some = stack.api(
        "POST", f"{path}/orders/delete-records", {"partitions": [{"partition": 0, "before_offset": 10}]}
    )
    assert some["partitions"] == [{"partition": 0, "log_start_offset": 10, "error": None}]
    everything = stack.api("POST", f"{path}/orders/delete-records", {})
    assert [one["log_start_offset"] for one in everything["partitions"]] == [50, 0, 0]
    beyond = {"partitions": [{"partition": 0, "before_offset": 51}]}
    [refused] = stack.api("POST", f"{path}/orders/delete-records", beyond)["partitions"]
    assert refused["error"] == "OFFSET_OUT_OF_RANGE"
    stack.api("POST", f"{path}/orders/delete-records", {"partitions": [{"partition": 9}]}, expect=409)

    stack.api("DELETE", f"{path}/orders")
    stack.api("DELETE", f"{path}/orders", expect=404)
    stack.api("GET", f"{path}/orders", expect=404)
    assert stack.api("GET", path)["items"] == []


def test_what_a_topic_may_not_be(stack: Stack, instance: dict[str, Any]) -> None:
    stack.api("PATCH", f"instances/{instance['id']}", {"limits": {"partitions_max": 4}})
    path = f"instances/{instance['id']}/topics"
    for body in (
        {"name": "a/b"},
        {"name": "t" * 237},
        {"name": "t", "configs": {"unclean.leader.election.enable": "true"}},
        {"name": "t", "configs": {"leader.replication.throttled.replicas": "*"}},
        {"name": "t", "partitions": 0},
    ):
        problem = stack.api("POST", path, body, expect=422)
        assert problem["errors"], problem
    below = stack.api("POST", path, {"name": "t", "configs": {"retention.ms": "-2"}}, expect=409)
    assert below["errors"], "what a value may be follows from the instance's limits"
    too_many = stack.api("POST", path, {"name": "t", "partitions": 5}, expect=409)
    assert "0 of 4 partitions are in use" in too_many["detail"]
    longest = "t" * 236
    assert stack.api("POST", path, {"name": longest})["name"] == longest
    stack.api("PATCH", f"{path}/{longest}", {"partitions": 5}, expect=409)
    for missing in ("absent", "a b", "t" * 237):
        stack.api("GET", f"{path}/{missing}", expect=404)
        stack.api("PATCH", f"{path}/{missing}", {"partitions": 2}, expect=404)
        stack.api("DELETE", f"{path}/{missing}", expect=404)
        stack.api("POST", f"{path}/{missing}/delete-records", {}, expect=404)


def test_a_topics_defaults_fit_its_instance(stack: Stack, instance: dict[str, Any]) -> None:
    limits = {"message_bytes_max": 4096, "retention_ms_max": 3_600_000, "partitions_default": 2}
    stack.api("PATCH", f"instances/{instance['id']}", {"limits": limits})
    made = stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t"})
    assert len(made["partitions"]) == 2
    values = {one["name"]: one["value"] for one in made["configs"]}
    assert values["max.message.bytes"] == "4096"
    assert values["retention.ms"] == "3600000"
    assert values["segment.bytes"] == str(10_000_000_000 // 100)


def test_a_topic_shows_what_its_instance_allows_and_follows_it(
    stack: Stack, instance: dict[str, Any]
) -> None:
    """What Kafka Streams asks of a repartition topic, by a client and in the console."""
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": "52428800",
        "segment.index.bytes": "52428800",
    }
    admin = AdminClient({"bootstrap.servers": instance["bootstrap_servers"]})
    (made,) = admin.create_topics([NewTopic("repartition", 4, config=configs)]).values()
    made.result(20)
    topics = f"instances/{instance['id']}/topics"
    stack.api("POST", topics, {"name": "console", "configs": configs})
    stack.api("PATCH", f"{topics}/console", {"configs": {"retention.ms": "999999999999", "flush.ms": "5"}})

    def shown(name: str) -> list[str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        (described,) = admin.describe_configs([resource]).values()
        configs = {one["name"]: one["value"] for one in stack.api("GET", f"{topics}/{name}")["configs"]}
        return [described.result(20)["retention.ms"].value, configs["retention.ms"]]

    for limit_ms in (30 * 24 * 3_600_000, 3_600_000, 7_200_000):
        stack.api("PATCH", f"instances/{instance['id']}", {"limits": {"retention_ms_max": limit_ms}})
        _eventually(lambda limit=limit_ms: {*shown("repartition"), *shown("console")} == {str(limit)})  # type: ignore[misc]


def test_a_group_with_its_members_and_lag(stack: Stack, instance: dict[str, Any]) -> None:
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "orders", "partitions": 2})
    _produce(instance, "orders", 10)
    path = f"instances/{instance['id']}/groups"
    assert stack.api("GET", path)["items"] == []
    name = "team/billing & co"
    quoted = f"{path}/team%2Fbilling%20%26%20co"
    with _consumer(instance, name, "orders") as consumer:
        messages = consumer.consume(10, timeout=20)
        assert len(messages) == 10
        consumer.commit(messages[3], asynchronous=False)
        [listed] = stack.api("GET", path)["items"]
        assert listed.pop("lag_seconds") >= 0
        assert listed == {
            "group": name,
            "state": "Stable",
            "protocol_type": "consumer",
            "members": 1,
            "topics": ["orders"],
            "lag": 6,
        }
        group = stack.api("GET", quoted)
        [member] = group["members"]
        assert (member["client_id"], member["client_host"].lstrip("/")) == ("console-test", "127.0.0.1")
        assert member["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
        committed = next(one for one in group["offsets"] if one["partition"] == 0)
        assert (committed["committed_offset"], committed["log_end_offset"], committed["lag"]) == (4, 10, 6)
        assert group["lag"] == 6
        stack.api("DELETE", quoted, expect=409)
    _eventually(lambda: stack.api("GET", quoted)["state"] == "Empty")
    stack.api("DELETE", quoted)
    stack.api("GET", quoted, expect=404)
    stack.api("DELETE", quoted, expect=404)


def test_equal_names_in_two_instances_never_meet(stack: Stack, instance: dict[str, Any]) -> None:
    other = stack.create_instance(f"console-{uuid.uuid4().hex[:8]}")
    for one in (instance, other):
        stack.api("POST", f"instances/{one['id']}/topics", {"name": "same"})
    _produce(instance, "same", 5)
    marks = [
        stack.api("GET", f"instances/{one['id']}/topics/same")["partitions"][0]["high_watermark"]
        for one in (instance, other)
    ]
    assert marks == [5, 0]
    stack.api("DELETE", f"instances/{other['id']}/topics/same")
    stack.api("GET", f"instances/{instance['id']}/topics/same")
    stack.api("DELETE", f"instances/{other['id']}")


async def _left_on_the_broker(stack: Stack, instance_id: str) -> list[str]:
    [broker] = stack.api("GET", "brokers")["items"]
    secret = (stack.data_dir / "internal.key").read_text().strip()
    connection = await KafkaConnection.open(broker["host"], broker["port"], secret=secret)
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    topics = (await connection.call(request)).topics
    groups = (await connection.call(ListGroupsRequest(states_filter=()))).groups
    connection.close()
    names = [topic.name for topic in topics] + [group.group_id for group in groups]
    return [name for name in names if name.startswith(instance_id)]


def test_a_deleted_instance_is_gone_at_once_and_leaves_nothing(stack: Stack) -> None:
    name = f"console-{uuid.uuid4().hex[:8]}"
    made = stack.create_instance(name)
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders"})
    _produce(made, "orders", 10)
    with _consumer(made, "group", "orders") as consumer:
        consumer.commit(consumer.consume(5, timeout=20)[-1], asynchronous=False)
        assert len(asyncio.run(_left_on_the_broker(stack, made["id"]))) == 2
        stack.api("DELETE", f"instances/{made['id']}")
        stack.api("GET", f"instances/{made['id']}", expect=404)
        again = stack.create_instance(name)
        assert again["id"] != made["id"]
        assert again["bootstrap_servers"] != made["bootstrap_servers"]
    _eventually(lambda: not asyncio.run(_left_on_the_broker(stack, made["id"])), within_s=30)
    stack.api("DELETE", f"instances/{again['id']}")


def test_a_live_stream_over_a_real_connection(stack: Stack, instance: dict[str, Any]) -> None:
    url = f"{stack.console_url}/v1/instances/{instance['id']}/quota/stream"
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    with httpx.stream("GET", url, headers=headers, timeout=10, trust_env=False) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = []
        for line in response.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
            if len(events) == 3:
                break
    views = [one for one in events if "instance_id" in one]
    assert views[-1]["instance_id"] == instance["id"]
    assert views[-1]["produce"]["purchased_per_s"] == 200_000_000


def test_a_port_that_another_program_listens_on_is_not_given_out(stack: Stack) -> None:
    first = stack.create_instance(f"console-{uuid.uuid4().hex[:8]}")
    port = int(first["bootstrap_servers"].rpartition(":")[2])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", port + 2))
        other.listen()
        second = stack.create_instance(f"console-{uuid.uuid4().hex[:8]}")
        assert not second["bootstrap_servers"].endswith(f":{port + 2}")
    for one in (first, second):
        stack.api("DELETE", f"instances/{one['id']}")


def test_a_topic_is_not_changed_over_what_was_not_seen(stack: Stack, instance: dict[str, Any]) -> None:
    path = f"/v1/instances/{instance['id']}/topics"
    stack.api("POST", path.removeprefix("/v1/"), {"name": "seen", "partitions": 1})
    key = {"Authorization": f"Bearer {stack.facts['api_key']}"}
    with httpx.Client(base_url=stack.console_url, headers=key, timeout=30) as client:
        first = client.get(f"{path}/seen").headers["etag"]
        assert client.get(f"{path}/seen", headers={"If-None-Match": first}).status_code == 304
        body = {"configs": {"retention.ms": "3600000"}}
        changed = client.patch(f"{path}/seen", json=body, headers={"If-Match": first})
        assert changed.status_code == 200 and changed.headers["etag"] != first
        stale = client.patch(f"{path}/seen", json={"partitions": 2}, headers={"If-Match": first})
        assert stale.status_code == 412
        now = client.get(f"{path}/seen")
        assert now.headers["etag"] == changed.headers["etag"] and len(now.json()["partitions"]) == 1
        grown = client.patch(
            f"{path}/seen", json={"partitions": 2}, headers={"If-Match": now.headers["etag"]}
        )
        assert grown.status_code == 200 and len(grown.json()["partitions"]) == 2


@pytest.fixture
def topic(stack: Stack, instance: dict[str, Any]) -> str:
    """A new one, of two partitions; its path in the API."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": name, "partitions": 2})
    return name


def _producer(instance: dict[str, Any], **more: Any) -> Producer:
    return Producer({"bootstrap.servers": instance["bootstrap_servers"], **more})


def _look(stack: Stack, instance: dict[str, Any], topic: str, **params: Any) -> Any:
    return stack.api("GET", f"instances/{instance['id']}/topics/{topic}/messages", **params)


def _places(found: Any) -> list[tuple[int, int]]:
    return [(one["partition"], one["offset"]) for one in found["messages"]]


def _told(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}000Z"


def test_what_clients_wrote_is_seen(stack: Stack, instance: dict[str, Any], topic: str) -> None:
    producer = _producer(instance, **{"compression.type": "zstd"})
    for number in range(300):
        producer.produce(
            topic,
            value=json.dumps({"number": number, "kind": "new" if number % 2 else "old"}),
            key=f"key-{number}",
            headers=[("source", b"test"), ("bytes", bytes([255, number % 256]))],
            partition=number % 2,
            timestamp=LATELY_MS + number,
        )
    assert producer.flush(20) == 0

    newest = _look(stack, instance, topic, limit=10)
    assert [json.loads(one["value"]["text"])["number"] for one in newest["messages"]] == [
        *range(299, 289, -1)
    ]
    first = newest["messages"][0]
    assert (first["key"]["text"], first["value"]["format"], first["key"]["format"]) == (
        "key-299",
        "json",
        "text",
    )
    assert first["timestamp"] == _told(LATELY_MS + 299)
    assert [(one["name"]["text"], one["value"]["text"]) for one in first["headers"]] == [
        ("source", "test"),
        ("bytes", "ff2b"),
    ]
    seen = _places(newest)
    while newest["next_cursor"]:
        newest = _look(stack, instance, topic, limit=90, cursor=newest["next_cursor"])
        seen += _places(newest)
    assert len(seen) == 300 and len(set(seen)) == 300

    begin = _look(stack, instance, topic, offset=0, partition=1, limit=3)
    assert _places(begin) == [(1, 0), (1, 1), (1, 2)]
    assert _places(_look(stack, instance, topic, cursor=begin["next_cursor"], partition=1, limit=2)) == [
        (1, 3),
        (1, 4),
    ]
    later = _look(stack, instance, topic, at=_told(LATELY_MS + 250), limit=2)
    assert [one["key"]["text"] for one in later["messages"]] == ["key-250", "key-251"]

    some = _look(stack, instance, topic, json='@.number < 4 && @.kind == "new"', offset=0)
    assert [one["key"]["text"] for one in some["messages"]] == ["key-1", "key-3"]
    assert (some["scanned_messages"], some["stopped_by"], some["next_cursor"]) == (300, "end", None)
    assert _places(_look(stack, instance, topic, key="key-7")) == [(1, 3)]
    assert len(_look(stack, instance, topic, header="source=test", text="key-29", limit=50)["messages"]) == 11

    assert _look(stack, instance, topic, cursor=some["live_cursor"])["messages"] == []
    producer.produce(topic, value=b"\xff\x00", partition=0)
    producer.produce(topic, value=None, key="gone", partition=1)
    assert producer.flush(20) == 0
    live = _look(stack, instance, topic, cursor=some["live_cursor"])
    undecoded = {"decoded_by": None, "schema_id": None, "schema_guid": None, "problem": ""}
    assert {one["key"] and one["key"]["text"]: one["value"] for one in live["messages"]} == {
        None: {"format": "hex", "text": "ff00", "size_bytes": 2, "is_cut": False, **undecoded},
        "gone": None,
    }


def test_messages_are_downloaded(stack: Stack, instance: dict[str, Any], topic: str) -> None:
    producer = _producer(instance)
    for number in range(1_200):
        producer.produce(
            topic, value=f'{{"n": {number}}}', key="=1+1", partition=number % 2, headers=[("a", b"b")]
        )
    producer.produce(topic, value=b"\xff" * 9_000, partition=0)
    assert producer.flush(20) == 0
    path = f"{stack.console_url}/v1/instances/{instance['id']}/topics/{topic}/messages/download"
    headers = {"Authorization": f"Bearer {stack.api_key}"}

    def download(**params: Any) -> httpx.Response:
        answer = httpx.get(path, params=params, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer

    first = download(limit=1000, offset=0)
    assert first.headers["content-disposition"].startswith(f'attachment; filename="{topic}-')
    rows = [json.loads(line) for line in first.text.splitlines()]
    while "portico-next-cursor" in first.headers:
        first = download(limit=1000, cursor=first.headers["portico-next-cursor"])
        rows += [json.loads(line) for line in first.text.splitlines()]
    numbers = [json.loads(one["value"])["n"] for one in rows if one["value_format"] == "json"]
    assert sorted(numbers) == [*range(1_200)]
    [odd] = [one for one in rows if one["value_format"] == "hex"]
    assert (odd["value"], odd["value_is_cut"], odd["key"]) == ("ff" * 4096, True, None)
    assert rows[0]["headers"] == [["a", "b"]]

    table = download(format="csv", limit=3, json="@.n == 7").text.splitlines()
    assert table[0].startswith("partition,offset,timestamp_ms,key_format,key,")
    assert "'=1+1" in table[1] and '"{""n"": 7}"' in table[1] and len(table) == 2  # no spreadsheet's formula
    assert httpx.get(path, params={"limit": 1000, "value_bytes": 10**6}, headers=headers).status_code == 409
    assert httpx.get(path, params={"limit": 1001}, headers=headers).status_code == 422
    log = stack.api("GET", "audit", limit=50)["items"]
    assert sum(one["action"] == "message.download" and one["detail"] == topic for one in log) >= 3


def test_only_what_was_committed_is_seen(stack: Stack, instance: dict[str, Any], topic: str) -> None:
    producer = _producer(instance, **{"transactional.id": f"x-{topic}"})
    producer.init_transactions(30)
    for outcome in ("aborted", "committed", "open"):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, value=f"{outcome}-{number}", partition=0)
        assert producer.flush(20) == 0
        if outcome == "aborted":
            producer.abort_transaction(30)
        if outcome == "committed":
            producer.commit_transaction(30)

    def values(**params: Any) -> list[str]:
        return [one["value"]["text"] for one in _look(stack, instance, topic, **params)["messages"]]

    assert values() == ["committed-2", "committed-1", "committed-0"]
    assert values(offset=0) == ["committed-0", "committed-1", "committed-2"]
    assert len(values(uncommitted=True)) == 9
    producer.abort_transaction(30)


def test_large_and_odd_messages(stack: Stack, instance: dict[str, Any], topic: str) -> None:
    producer = _producer(instance, **{"message.max.bytes": 2_000_000})
    large = b"a" * 900_000
    for _ in range(12):
        producer.produce(topic, value=large, partition=0)
    producer.produce(topic, value="ü" * 10, partition=1, headers=[(f"h{n}", b"x") for n in range(5000)])
    assert producer.flush(20) == 0
    found = _look(stack, instance, topic, partition=0, limit=20, value_bytes=9)
    assert {
        (one["value"]["text"], one["value"]["size_bytes"], one["value"]["is_cut"])
        for one in found["messages"]
    } == {("a" * 9, 900_000, True)}
    assert found["stopped_by"] == "scanned" and found["next_cursor"]
    seen = _places(found)
    while found["next_cursor"]:
        found = _look(
            stack, instance, topic, partition=0, limit=20, value_bytes=9, cursor=found["next_cursor"]
        )
        seen += _places(found)
    assert seen == [(0, offset) for offset in range(11, -1, -1)]
    whole = _look(stack, instance, topic, partition=0, offset=3, limit=1, value_bytes=1_000_000)
    assert whole["messages"][0]["value"]["text"] == large.decode()
    [odd] = _look(stack, instance, topic, partition=1, value_bytes=5)["messages"]
    assert (odd["value"]["text"], odd["header_count"], len(odd["headers"]) < 1000) == ("üü", 5000, True)


def test_deleted_ranges_and_topics(stack: Stack, instance: dict[str, Any], topic: str) -> None:
    producer = _producer(instance)
    for number in range(20):
        producer.produce(topic, value=str(number), partition=0)
    assert producer.flush(20) == 0
    path = f"instances/{instance['id']}/topics/{topic}"
    stack.api("POST", f"{path}/delete-records", {"partitions": [{"partition": 0, "before_offset": 15}]})
    assert _places(_look(stack, instance, topic, offset=0)) == [(0, n) for n in range(15, 20)]
    assert _places(_look(stack, instance, topic)) == [(0, n) for n in range(19, 14, -1)]
    stack.api("GET", f"{path}/messages", partition=2, expect=409)
    stack.api("GET", f"{path}/messages", json="$..a..b", expect=409)
    stack.api("GET", f"{path}/messages", cursor="bm9uZQ", expect=409)
    stack.api("DELETE", path)
    stack.api("GET", f"{path}/messages", expect=404)
    stack.api("POST", f"{path}/messages", {"value": "x"}, expect=404)


def test_what_is_sent_is_read_by_a_consumer(stack: Stack, instance: dict[str, Any], topic: str) -> None:
    path = f"instances/{instance['id']}/topics/{topic}/messages"
    body = {"key": "order-17", "value": '{"a": 1}', "headers": [{"name": "source", "value": "console"}]}
    sent = stack.api("POST", path, body)
    assert sent["offset"] == 0
    stack.api("POST", path, {"value": "ff00", "encoding": "hex", "partition": 1 - sent["partition"]})
    stack.api("POST", path, {"value": "xyz", "encoding": "hex"}, expect=422)
    stack.api("POST", path, {"value": "a", "partition": 2}, expect=409)
    consumer = Consumer(
        {"bootstrap.servers": instance["bootstrap_servers"], "group.id": topic, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
    read = {message.value(): message for message in consumer.consume(2, timeout=30)}
    consumer.close()
    assert set(read) == {b'{"a": 1}', b"\xff\x00"}
    message = read[b'{"a": 1}']
    assert (message.key(), message.headers()) == (b"order-17", [("source", b"console")])
    # Kafka's Java client sends this key there, too.
    producer = _producer(instance, partitioner="murmur2_random")
    placed: list[int] = []
    producer.produce(topic, key="order-17", on_delivery=lambda _, made: placed.append(made.partition()))
    assert producer.flush(20) == 0 and placed == [sent["partition"]]

    rows = [one["action"] for one in stack.api("GET", "audit")["items"] if topic in one["detail"]]
    assert rows.count("message.send") == 2
    for _ in range(2):
        _look(stack, instance, topic)
    rows = [one["action"] for one in stack.api("GET", "audit")["items"] if topic in one["detail"]]
    assert rows.count("message.read") == 1
    stack.api("POST", f"instances/{instance['id']}/suspend")
    stack.api("GET", path, expect=409)
    stack.api("POST", f"instances/{instance['id']}/resume")
