"""Messages with something in every field, so that a walk over the table meets each name."""

import datetime
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from wire.build import build
from wire.classify import FieldClass, classify, needs_class
from wire.schema import Field, MessageKind, fields_of, kind_of

Namer = Callable[[FieldClass], str]
"""What stands in a field of a class."""

NUMBERS = {
    "replica_id": -1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "acks": -1,
    "replication_factor": -1,
}
NUMBERS |= {"resource_pattern_type": 3, "pattern_type_filter": 3, "node_id": 1, "broker_id": 1, "port": 9092}
NUMBERS |= {"num_partitions": 1, "session_epoch": 0, "controller_id": 1, "replica_epoch": -1}


class Filling(NamedTuple):
    """What stands in an entry: a name of each class, and the id of its topic."""

    namer: Namer
    topic_id: UUID = UUID(int=7)
    by_id: bool = False
    """Whether a topic has its id alone, where a name may be absent beside it."""


def filled(message_class: Any, namers: Sequence[Namer | Filling], **numbers: int) -> Any:
    """A message whose lists have one entry per namer. Fields outside lists use the first."""
    kind = kind_of(message_class)
    fillings = [one if isinstance(one, Filling) else Filling(one) for one in namers]
    return build(message_class, _values(message_class, kind, "", fillings, numbers))


def has_topic_ids(message_class: Any) -> bool:
    """Whether a message names topics by their ids."""
    return any(
        has_topic_ids(field.value_type) if field.kafka_type == "entity" else field.name == "topic_id"
        for field in fields_of(message_class)
    )


def has_bare_topic_ids(message_class: Any) -> bool:
    """Whether some of these ids have no name beside them."""
    fields = fields_of(message_class)
    names = {field.name for field in fields}
    bare = "topic_id" in names and not names & {"name", "topic_name"}
    return bare or any(
        has_bare_topic_ids(field.value_type) for field in fields if field.kafka_type == "entity"
    )


def _values(
    message_class: Any, kind: MessageKind, path: str, fillings: list[Filling], numbers: Any
) -> dict[str, Any]:
    values = {}
    fields = fields_of(message_class)
    beside_id = any(field.name == "topic_id" for field in fields)
    for field in fields:
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        each = [_value(field, kind, at, filling, numbers) for filling in fillings]
        values[field.name] = each if field.is_array else each[0]
        if beside_id and field.name == "name" and field.nullable and fillings[0].by_id:
            values[field.name] = None
    return values


def _value(field: Field, kind: MessageKind, at: str, filling: Filling, numbers: dict[str, int]) -> Any:
    namer = filling.namer
    if field.kafka_type == "entity":
        return _values(field.value_type, kind, at, [filling], numbers)
    if field.name in numbers or field.name in NUMBERS:
        return (NUMBERS | numbers)[field.name]
    if needs_class(field) and field.kafka_type == "string":
        return "consumer" if field.name == "protocol_type" else namer(classify(kind, at, field))
    if field.kafka_type in ("bytes", "records"):
        if needs_class(field) and classify(kind, at, field) is FieldClass.CONSUMER_METADATA:
            return subscription(namer(FieldClass.CONSUMER_METADATA))
        return b"opaque"
    zero: dict[str, Any] = {
        "bool": False,
        "error_code": ErrorCode.none,
        "float64": 0.0,
        "uuid": filling.topic_id,
    }
    if field.kafka_type.startswith("timedelta"):
        return datetime.timedelta(0)
    if field.kafka_type.startswith("datetime"):
        return None
    return zero.get(field.kafka_type, 0)


def subscription(topic: str) -> bytes:
    """A consumer's metadata, version 1."""
    name = topic.encode()
    return b"\0\1\0\0\0\1" + len(name).to_bytes(2, "big") + name + bytes(8)
