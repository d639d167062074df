"""The whole table at a real vip:vport, before real brokers: what a tenant reads there is of its own instance.

Each API and version is asked about a neighbour's names, ids, patterns and cursors, and about nobody's of the
same length: the answers are the same but for what was asked. And each is asked for all there is. All bytes
that come down are searched.
"""

import asyncio
import datetime
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from gateway.apis import SERVED
from tests.integration.gateway.filling import Filling, filled
from tests.integration.stack import Stack
from tests.scenarios.harness import FrameClient
from wire.api_table import ApiKey
from wire.build import build
from wire.classify import FieldClass
from wire.codec import decode_response, request_class
from wire.schema import fields_of

TOPIC: Final = "walked.secrets"
GROUP: Final = "walked-group"
TRANSACTIONAL_ID: Final = "walked-transaction"
RECORD: Final = b"nobody else reads this record"
WALK: Final = sorted(SERVED)
NOBODY: Final = f"i{'z' * 11}"
"""An instance that is not there."""
UNLIKE: Final = {
    *("throttle_time_ms", "member_id", "producer_id", "session_id", "timestamp", "auth_bytes"),
    "subscription_id",
}
"""Fields of answers that differ from call to call, whoever is asked about; the last by the id of a client."""
ASKED_FOR_ALL: Final = {
    ApiKey.PRODUCE: {"acks": 1},
    ApiKey.LIST_OFFSETS: {"replica_id": -1},
    ApiKey.METADATA: {"topics": None},
    ApiKey.OFFSET_FETCH: {"group_id": GROUP, "topics": None, "groups": [{"group_id": GROUP, "topics": None}]},
    ApiKey.DESCRIBE_LOG_DIRS: {"topics": None},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": None},
    ApiKey.ELECT_LEADERS: {"topic_partitions": None},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": None},
    ApiKey.DESCRIBE_ACLS: {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    },
    ApiKey.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 4, "resource_name": "1"}]},
}
"""How some APIs are asked for everything; the others with nothing in their fields."""


class Secrets(NamedTuple):
    """What is the neighbour's, and the cluster's own."""

    instance_id: str
    topic_id: UUID
    own_instance_id: str
    broker_port: int

    def found_in(self, frame: bytes, *, asked: bytes) -> Iterator[str]:
        """Which of them a frame has that were not in the question."""
        texts = (
            self.instance_id,
            f"{self.own_instance_id}.",
            str(self.topic_id),
            TOPIC,
            GROUP,
            TRANSACTIONAL_ID,
        )
        marks = [text.encode() for text in texts]
        marks += [self.topic_id.bytes, RECORD, struct.pack(">i", self.broker_port)]
        for mark in marks:
            if mark in frame and mark not in asked:
                yield repr(mark)


def _named(name: Callable[[str], str]) -> Callable[[FieldClass], str]:
    named = {
        FieldClass.TOPIC_NAME: name(TOPIC),
        FieldClass.GROUP_ID: name(GROUP),
        FieldClass.TRANSACTIONAL_ID: name(TRANSACTIONAL_ID),
        FieldClass.COORDINATOR_KEY: name(GROUP),
        FieldClass.CONFIG_RESOURCE: name(TOPIC),
        FieldClass.ACL_RESOURCE: name(TOPIC),
        FieldClass.CONSUMER_METADATA: name(TOPIC),
        FieldClass.TOPIC_REGEX: name(f"{TOPIC}|.*{TOPIC}.*"),
        FieldClass.TRANSACTIONAL_ID_REGEX: name(f"{TRANSACTIONAL_ID}|.*{TRANSACTIONAL_ID}"),
    }
    return lambda field_class: named.get(field_class, "plain")


def _question(api_key: int, version: int, asking: list[Filling]) -> Any:
    """Something in every field, and nothing that makes a topic."""
    numbers = {"validate_only": 1, "session_epoch": -1, "key_type": version % 2}
    return filled(request_class(api_key, version), asking, **numbers)


def _asking(instance_id: str, topic_id: UUID, word: str) -> list[Filling]:
    """By names as tenants have them, and as brokers have them."""
    return [
        Filling(_named(lambda name: name.replace("walked", word)), topic_id, by_id=True),
        Filling(_named(lambda name: f"{instance_id}.{name.replace('walked', word)}"), topic_id, by_id=True),
    ]


async def _ask(port: int, request: Any) -> tuple[bytes, Any]:
    """(the bytes that come, the message): both empty when the connection is closed instead."""
    client = await FrameClient.connect(port)
    try:
        client.send(request)
        frame = await client.frame(60)
    except asyncio.IncompleteReadError as end:
        return end.partial, None
    finally:
        client.close()
    return frame, decode_response(frame, request.__api_key__, request.__version__)[1]


def _alike(message: Any) -> Any:
    """As plain values, without what differs from call to call."""
    if not hasattr(message, "__dataclass_fields__"):
        return [_alike(one) for one in message] if isinstance(message, tuple) else message
    return {
        field.name: _alike(getattr(message, field.name))
        for field in fields_of(type(message))
        if field.name not in UNLIKE and not isinstance(getattr(message, field.name), datetime.datetime)
    }


def _as_nobodys(text: str, secrets: Secrets, nobody: UUID) -> str:
    """What is said of the neighbour, as it would be of nobody."""
    text = text.replace(repr(secrets.topic_id), repr(nobody)).replace(secrets.instance_id, NOBODY)
    return text.replace("walked", "wander")


@pytest.fixture(scope="module")
def walked(stack: Stack) -> tuple[dict[str, Any], dict[str, Any], Secrets]:
    """(the curious instance, its neighbour, what the neighbour has)."""
    curious, neighbour = stack.create_instance("walk-curious"), stack.create_instance("walk-neighbour")
    admin = AdminClient({"bootstrap.servers": neighbour["bootstrap_servers"]})
    admin.create_topics([NewTopic(TOPIC, 3)])[TOPIC].result(30)
    producer = Producer(
        {"bootstrap.servers": neighbour["bootstrap_servers"], "transactional.id": TRANSACTIONAL_ID}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(TOPIC, RECORD, partition=0)
    producer.commit_transaction(30)
    for protocol, group in (("classic", GROUP), ("consumer", f"{GROUP}-new")):
        consumer = Consumer(
            {
                "bootstrap.servers": neighbour["bootstrap_servers"],
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([TOPIC])
        assert consumer.poll(60) is not None
        consumer.commit(asynchronous=False)
        consumer.close()
    described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(30)
    topic_id = UUID(bytes=_uuid_bytes(described.topic_id))
    (broker,) = stack.facts["brokers"]
    return curious, neighbour, Secrets(neighbour["id"], topic_id, curious["id"], int(broker["port"]))


def _uuid_bytes(topic_id: Any) -> bytes:
    most, least = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return struct.pack(">qq", most, least)


async def test_a_neighbour_is_nobody(walked: Any) -> None:
    curious, _, secrets = walked
    port = int(curious["bootstrap_servers"].rpartition(":")[2])
    nobody = UUID(int=secrets.topic_id.int ^ 0xFFFF)
    theirs = _asking(secrets.instance_id, secrets.topic_id, "walked")
    nobodys = _asking(NOBODY, nobody, "wander")
    for api_key, version in WALK:
        case = f"{ApiKey(api_key).name} {version}"
        question = _question(api_key, version, theirs)
        frame, of_theirs = await _ask(port, question)
        _, of_nobodys = await _ask(port, _question(api_key, version, nobodys))
        assert of_theirs is not None, case
        said = _as_nobodys(repr(_alike(of_theirs)), secrets, nobody)
        assert said == repr(_alike(of_nobodys)), case
        asked = repr(question).encode() + secrets.topic_id.bytes
        assert not (found := [*secrets.found_in(frame, asked=asked)]), f"{case}: {found}"


async def test_all_there_is_is_its_own(walked: Any) -> None:
    curious, _, secrets = walked
    port = int(curious["bootstrap_servers"].rpartition(":")[2])
    for api_key, version in WALK:
        shape = request_class(api_key, version)
        fields = {field.name: field for field in fields_of(shape)}
        wanted = {
            name: value
            for name, value in ASKED_FOR_ALL.get(ApiKey(api_key), {}).items()
            if name in fields and (value is not None or fields[name].nullable)
        }
        frame, answer = await _ask(port, build(shape, wanted))
        assert answer is not None, f"{ApiKey(api_key).name} {version}"
        found = [*secrets.found_in(frame, asked=repr(wanted).encode())]
        assert not found, f"{ApiKey(api_key).name} {version}: {found}"


def test_the_neighbour_has_noticed_nothing(walked: Any) -> None:
    """After the walk: what it has is what it had."""
    _, neighbour, secrets = walked
    admin = AdminClient({"bootstrap.servers": neighbour["bootstrap_servers"]})
    assert set(admin.list_topics(timeout=30).topics) == {TOPIC}
    groups = {one.group_id for one in admin.list_consumer_groups().result(30).valid}
    assert groups == {GROUP, f"{GROUP}-new"}
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0)])
    (committed,) = admin.list_consumer_group_offsets([asked])[GROUP].result(30).topic_partitions
    assert committed.offset == 1
    described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(30)
    assert UUID(bytes=_uuid_bytes(described.topic_id)) == secrets.topic_id
