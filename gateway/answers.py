"""Build messages of any version from what is known: fields the version does not have are left out."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from wire.codec import response_class
from wire.schema import Field, fields_of

_NO_DURATION: Final = datetime.timedelta(0)
_ZERO: Final[dict[str, Any]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "float64": 0.0,
    "uuid": UUID(int=0),
    "error_code": ErrorCode.none,
    "timedelta_i32": _NO_DURATION,
    "timedelta_i64": _NO_DURATION,
}


@lru_cache(maxsize=512)
def _defaulted(message_class: Any) -> frozenset[str]:
    return frozenset(
        declared.name
        for declared in dataclasses.fields(message_class)
        if declared.default is not dataclasses.MISSING or declared.default_factory is not dataclasses.MISSING
    )


def _zero(field: Field) -> Any:
    if field.nullable:
        return None
    return () if field.is_array else _ZERO.get(field.kafka_type, 0)


def _value(field: Field, given: Any) -> Any:
    if field.kafka_type != "entity" or given is None:
        return tuple(given) if field.is_array and given is not None else given
    if field.is_array:
        return tuple(_nested(field, one) for one in given)
    return _nested(field, given)


def _nested(field: Field, given: Any) -> Any:
    return build(field.value_type, given) if isinstance(given, Mapping) else given


def build(message_class: Any, known: Mapping[str, Any]) -> Any:
    """An entity of this class. Nested messages are mappings or entities; the unknown is zero or null."""
    values: dict[str, Any] = {}
    defaulted = _defaulted(message_class)
    for field in fields_of(message_class):
        if field.name in known:
            values[field.name] = _value(field, known[field.name])
        elif field.name not in defaulted:
            values[field.name] = _zero(field)
    return message_class(**values)


def response(api_key: int, api_version: int, **known: Any) -> Any:
    """A response of one API and version."""
    return build(response_class(api_key, api_version), known)


def with_entries(message: Any, name: str, entries: Iterable[Mapping[str, Any]]) -> Any:
    """The message with more entries behind those of one of its lists."""
    message_class: Any = type(message)
    (field,) = (field for field in fields_of(message_class) if field.name == name)
    added = tuple(build(field.value_type, entry) for entry in entries)
    return dataclasses.replace(message, **{name: getattr(message, name) + added})


def has_field(message_class: Any, name: str) -> bool:
    """Whether this version of a message has a field."""
    return any(field.name == name for field in fields_of(message_class))
