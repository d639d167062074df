"""Messages with something in every field, so that a walk over the table meets each name."""

import datetime
from collections.abc import Callable
from typing import Any
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


def filled(message_class: Any, namers: list[Namer], **numbers: int) -> Any:
    """A message whose lists have one entry per namer. Fields outside lists use the first."""
    kind = kind_of(message_class)
    return build(message_class, _values(message_class, kind, "", namers, numbers))


def _values(
    message_class: Any, kind: MessageKind, path: str, namers: list[Namer], numbers: Any
) -> dict[str, Any]:
    values = {}
    for field in fields_of(message_class):
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        each = [_value(field, kind, at, namer, numbers) for namer in namers]
        values[field.name] = each if field.is_array else each[0]
    return values


def _value(field: Field, kind: MessageKind, at: str, namer: Namer, numbers: dict[str, int]) -> Any:
    if field.kafka_type == "entity":
        return _values(field.value_type, kind, at, [namer], numbers)
    if field.name in numbers or field.name in NUMBERS:
        return (NUMBERS | numbers)[field.name]
    if needs_class(field) and field.kafka_type == "string":
        return "consumer" if field.name == "protocol_type" else namer(classify(kind, at, field))
    if field.kafka_type in ("bytes", "records"):
        if needs_class(field) and classify(kind, at, field) is FieldClass.CONSUMER_METADATA:
            return subscription(namer(FieldClass.CONSUMER_METADATA))
        return b"opaque"
    zero: dict[str, Any] = {"bool": False, "error_code": ErrorCode.none, "float64": 0.0, "uuid": UUID(int=7)}
    if field.kafka_type.startswith("timedelta"):
        return datetime.timedelta(0)
    if field.kafka_type.startswith("datetime"):
        return None
    return zero.get(field.kafka_type, 0)


def subscription(topic: str) -> bytes:
    """A consumer's metadata, version 1."""
    name = topic.encode()
    return b"\0\1\0\0\0\1" + len(name).to_bytes(2, "big") + name + bytes(8)
