"""The schema of every Kafka message as kio's classes carry it, in the form our compilers need."""

import dataclasses
import struct
import types
import typing
from functools import lru_cache
from typing import Any, Final, NamedTuple

import kio.schema.index
from kio.static.constants import EntityType

FORMATS: Final = {
    "bool": "b",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "error_code": "h",
    "int32": "i",
    "uint32": "I",
    "timedelta_i32": "i",
    "int64": "q",
    "uint64": "Q",
    "float64": "d",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
"""`struct` codes of the types of fixed size; the others are string, bytes, records and entity."""

SIZES: Final = {kafka_type: struct.calcsize(f">{code}") for kafka_type, code in FORMATS.items()}

VARIABLE: Final = frozenset({"string", "bytes", "records"})


class Field(NamedTuple):
    """One field of a message class."""

    name: str
    kafka_type: str
    """`entity` for nested messages."""
    value_type: Any
    """The type of the value, or of one element of an array; kio's class for nested messages."""
    is_array: bool
    nullable: bool
    tag: int | None


def _without_none(declared: Any) -> tuple[Any, bool]:
    if typing.get_origin(declared) not in (types.UnionType, typing.Union):
        return declared, False
    (inner,) = (part for part in typing.get_args(declared) if part is not types.NoneType)
    return inner, True


def _field(declared: Any) -> Field:
    value_type, nullable = _without_none(declared.type)
    is_array = typing.get_origin(value_type) is tuple
    if is_array:
        value_type, _ = _without_none(typing.get_args(value_type)[0])
    nested = dataclasses.is_dataclass(value_type)
    kafka_type = "entity" if nested else str(declared.metadata["kafka_type"])
    assert nested or kafka_type in SIZES or kafka_type in VARIABLE, kafka_type
    return Field(declared.name, kafka_type, value_type, is_array, nullable, declared.metadata.get("tag"))


@lru_cache(maxsize=8192)
def fields_of(message_class: Any) -> tuple[Field, ...]:
    """The fields of a message class in the order they stand on the wire, tagged ones included."""
    return tuple(_field(declared) for declared in dataclasses.fields(message_class))


class MessageKind(NamedTuple):
    """One message of Kafka's protocol: an API's name in kio and whether it is the response."""

    api: str
    response: bool

    def __str__(self) -> str:
        return f"{self.api}.{'response' if self.response else 'request'}"


def kind_of(message_class: Any) -> MessageKind:
    """Which message a top-level class is."""
    api = kio.schema.index.api_key_map[message_class.__api_key__]
    return MessageKind(api, message_class.__type__ is EntityType.response)


def versions_of(api: str) -> tuple[int, ...]:
    """The versions of an API that kio has."""
    return tuple(sorted(int(version) for version in kio.schema.index.schema_name_map[api]))


def payload_apis() -> dict[int, str]:
    """Every API that has requests and responses: key -> kio's name."""
    return {int(key): api for key, api in kio.schema.index.api_key_map.items()}
