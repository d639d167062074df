"""Requests made to cost much: every API and version, filled in several shapes from the schema itself.

A request of a new API or version is made without a line here, because fields are found in kio's classes; only
values that let a request get past its first checks are named (`_USUAL`).
"""

import dataclasses
import datetime
import struct
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.api_table import ApiKey
from wire.codec import encode, request_class
from wire.request_bounds import SUBSCRIBED_NAMES_MAX, bound_of
from wire.schema import Field, fields_of


class Shape(Enum):
    """What a request is full of."""

    MANY = "many different names"
    NESTED = "one name, many entries below it"
    PRESENT = "names of topics that are there, over and over"
    SAME = "one name, over and over"
    NULLS = "entries with everything null or empty that may be"
    LONG = "names of 32,000 bytes"
    BROKERS = "resources of type broker, over and over"


LONG_NAME_BYTES: Final = 32_000
_FRAME_BYTES: Final = 4 * 1024 * 1024
"""Size of a frame of an API without a bound of its own."""
_SECOND: Final = datetime.timedelta(seconds=1)
_USUAL: Final[dict[str, object]] = {
    "acks": -1,
    "coordinator_type": 0,
    "count": 2,
    "current_leader_epoch": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "group_instance_id": None,
    "key_type": 0,
    "leader_epoch": -1,
    "max_bytes": 1 << 20,
    "max_wait": datetime.timedelta(0),
    "member_id": "",
    "num_partitions": 1,
    "partition_max_bytes": 1024,
    "producer_epoch": -1,
    "producer_id": -1,
    "protocol_type": "consumer",
    "replica_id": -1,
    "replication_factor": -1,
    "resource_type": 2,
    "session_epoch": -1,
    "transactional_id": None,
    "value": "-1",
}
"""Values by field, where it has that name and can hold them: what a right client sends."""
_CONFIG: Final = "retention.ms"
_UNLISTED: Final = frozenset({"assignments", "broker_ids", "forgotten_topics_data"})
"""Lists that would only get the request refused at once, unless they are what the shape is about."""


class Filling(NamedTuple):
    """How a request is filled."""

    shape: Shape
    entries: int
    present: Sequence[str] = ("topic",)


def hostile_request(api_key: int, api_version: int, filling: Filling) -> Any:
    """A request of this shape with so many entries in its lists, or None where the shape changes nothing."""
    message_class = request_class(api_key, api_version)
    if not _applies(message_class, filling.shape):
        return None
    return _Maker(ApiKey(api_key), filling).message(message_class, 0)


def _applies(message_class: Any, shape: Shape) -> bool:
    lists = [field for field in fields_of(message_class) if field.is_array]
    match shape:
        case Shape.LONG:
            return True
        case Shape.NESTED:
            return any(_has_list(field) for field in fields_of(message_class)) or _holds_subscription(lists)
        case Shape.BROKERS:
            return any(
                inner.name == "resource_type"
                for field in lists
                if field.kafka_type == "entity"
                for inner in fields_of(field.value_type)
            )
        case Shape.PRESENT:
            return bool(lists)
    return bool(lists)


def _has_list(field: Field) -> bool:
    return field.kafka_type == "entity" and any(
        inner.is_array or _has_list(inner) for inner in fields_of(field.value_type)
    )


def _holds_subscription(lists: Sequence[Field]) -> bool:
    return any(field.name == "protocols" for field in lists)


class _Maker:
    """Makes the messages of one request."""

    def __init__(self, api_key: ApiKey, filling: Filling) -> None:
        self._api_key = api_key
        self._filling = filling

    def message(self, message_class: Any, depth: int, number: int = 0) -> Any:
        fields = [field for field in fields_of(message_class) if field.name in _required(message_class)]
        values = {field.name: self._field(field, depth, number) for field in fields}
        if values.keys() >= {"name", "value"}:
            values["name"] = _CONFIG
        return message_class(**values)

    def _field(self, field: Field, depth: int, number: int) -> Any:
        if field.is_array:
            return self._list(field, depth)
        if field.kafka_type == "entity":
            return self.message(field.value_type, depth + 1, number)
        return self._value(field, number)

    def _list(self, field: Field, depth: int) -> Any:
        shape, entries = self._filling.shape, self._filling.entries
        if depth == 0 and shape is not Shape.NESTED:
            count = entries
        elif depth == 0:
            # Below this list stands the long one, or there is none below and it is short.
            count = 1 if _has_list(field) or field.kafka_type == "entity" else 0
        elif shape is Shape.NESTED:
            count = entries
        elif shape is Shape.NULLS or field.name in _UNLISTED:
            return None if field.nullable else ()
        else:
            count = 1
        if depth and shape is not Shape.NESTED and field.nullable and field.name == "assignments":
            return None
        if field.kafka_type == "entity":
            return tuple(self.message(field.value_type, depth + 1, each) for each in range(count))
        return tuple(self._value(field, each) for each in range(count))

    def _value(self, field: Field, number: int) -> Any:
        shape = self._filling.shape
        if field.name == "resource_type" and shape is Shape.BROKERS:
            return 4
        if field.nullable and shape is Shape.NULLS:
            return None
        if field.name in _USUAL and _can_hold(field, _USUAL[field.name]):
            return _USUAL[field.name]
        match field.kafka_type:
            case "string":
                return self._name(number)
            case "bytes" | "records":
                return self._bytes(field)
            case "bool":
                return False
            case "timedelta_i32" | "timedelta_i64":
                return _SECOND
            case "error_code":
                return ErrorCode.none
            case "uuid":
                return None
            case "float64":
                return 0.0
            case "datetime_i64":
                return None
        return number if field.is_array or "partition" in field.name or field.name == "index" else 0

    def _bytes(self, field: Field) -> bytes:
        if field.name == "metadata" and self._api_key is ApiKey.JOIN_GROUP:
            topics = self._filling.entries if self._filling.shape is Shape.NESTED else 1
            present = self._filling.present
            return subscription(present[each % len(present)] for each in range(topics))
        return b""

    def _name(self, number: int) -> str:
        filling = self._filling
        match filling.shape:
            case Shape.LONG:
                return f"{number:08}".ljust(LONG_NAME_BYTES, "x")
            case Shape.PRESENT | Shape.NESTED:
                return filling.present[number % len(filling.present)]
            case Shape.SAME:
                return "same"
            case Shape.BROKERS:
                return "1"
        return f"n{number}"


def subscription(topics: Any) -> bytes:
    """Consumer protocol metadata that names these topics."""
    names = [topic.encode() for topic in topics]
    packed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + packed + struct.pack(">i", -1)


@lru_cache(maxsize=4096)
def _required(message_class: Any) -> frozenset[str]:
    return frozenset(
        declared.name
        for declared in dataclasses.fields(message_class)
        if declared.default is dataclasses.MISSING and declared.default_factory is dataclasses.MISSING
    )


def _can_hold(field: Field, value: Any) -> bool:
    if value is None:
        return field.nullable
    if isinstance(value, str):
        return field.kafka_type == "string"
    if isinstance(value, datetime.timedelta):
        return field.kafka_type.startswith("timedelta")
    return field.kafka_type.startswith(("int", "uint"))


def largest_request(api_key: int, api_version: int, shape: Shape, present: Sequence[str]) -> Any:
    """The largest request of a shape that its API's bounds let in, None where the shape changes nothing."""
    few, more = (hostile_request(api_key, api_version, Filling(shape, each, present)) for each in (10, 20))
    if few is None:
        return None
    bound = bound_of(api_key)
    sizes, counts = [len(encode(each)) for each in (few, more)], [_entries(each) for each in (few, more)]
    each_bytes, each_entries = (sizes[1] - sizes[0]) / 10, (counts[1] - counts[0]) / 10
    if not each_bytes:
        return few
    entries = int(((bound.frame_bytes_max or _FRAME_BYTES) - sizes[0] - 100) / each_bytes) + 10
    if each_entries:
        entries = min(entries, int((bound.tenant_entries_max - counts[0]) / each_entries) + 10)
    if api_key == ApiKey.JOIN_GROUP and shape is Shape.NESTED:
        entries = min(entries, SUBSCRIBED_NAMES_MAX)
    return hostile_request(api_key, api_version, Filling(shape, entries, present))


def _entries(message: Any) -> int:
    """The list entries of a message as `wire.walk` counts them, or a few more."""
    total = 0
    message_class: Any = type(message)
    for field in fields_of(message_class):
        value = getattr(message, field.name)
        if value is None:
            continue
        if field.is_array:
            total += len(value)
        if field.kafka_type == "entity":
            total += sum(map(_entries, value)) if field.is_array else _entries(value)
    return total
