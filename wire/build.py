"""Messages of any version from what is known: fields that this version lacks are left out, and a name that
no version has is refused.

Nested messages are mappings or entities, lists any iterables. What is not given is zero or null.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

import kio.schema.response_header.v0
import kio.schema.response_header.v1
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from wire.codec import duration, payload_class, response_class
from wire.legacy.messages import LEGACY_VERSIONS
from wire.schema import Field, fields_of, payload_apis, versions_of

Message = TypeVar("Message")
_THROTTLE: Final = "throttle_time"
_RESPONSE_HEADERS: Final = (
    kio.schema.response_header.v0.ResponseHeader,
    kio.schema.response_header.v1.ResponseHeader,
)
_ZERO: Final[dict[str, object]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "float64": 0.0,
    "uuid": UUID(int=0),
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
}


class UnknownField(TypeError):  # noqa: N818 - a fact about the message, named as one
    """A field was given that no version of the message has."""


@lru_cache(maxsize=4096)
def names_of(message_class: type[Entity]) -> frozenset[str]:
    """The fields that this version of a message has."""
    return frozenset(field.name for field in fields_of(message_class))


def known_to(message_class: type[Entity], known: Mapping[str, object]) -> dict[str, object]:
    """Fields that answers of several APIs may have, as far as this one has them."""
    names = names_of(message_class)
    return {name: value for name, value in known.items() if name in names}


def entry_class(message_class: type[Entity], name: str) -> type[Entity]:
    """The class of the nested messages in one of its fields."""
    (field,) = (field for field in fields_of(message_class) if field.name == name)
    return cast(type[Entity], field.value_type)


def with_entries(message: Message, name: str, entries: Iterable[Mapping[str, object]]) -> Message:
    """The message with more entries behind those of one of its lists."""
    kind: type[Any] = type(message)
    element = entry_class(kind, name)
    added = tuple(build(element, entry) for entry in entries)
    changed: Message = dataclasses.replace(cast(Any, message), **{name: getattr(message, name) + added})
    return changed


def throttled(response: Message, throttle_time_ms: int) -> Message:
    """The response with its throttle_time_ms, where its version has one."""
    if not throttle_time_ms or not hasattr(response, _THROTTLE):
        return response
    return cast(Message, dataclasses.replace(cast(Any, response), throttle_time=duration(throttle_time_ms)))


def response(api_key: int, api_version: int, **known: object) -> Payload:
    """A response of one API and version."""
    return build(response_class(api_key, api_version), known)


def make(message_class: type[Message], /, **values: object) -> Message:
    """An entity of this class of all that its version has. Raises: UnknownField, TypeError."""
    return build(message_class, values, whole=True)


class _Plan(NamedTuple):
    """How one set of names becomes a message."""

    kept: tuple[str, ...]
    lists: tuple[Field, ...]
    """Kept fields that may hold nested messages or other iterables than tuples."""
    zeros: dict[str, object]
    """Values of what was not given and has no default."""


def build(message_class: type[Message], known: Mapping[str, object], *, whole: bool = False) -> Message:
    """An entity of this class. Raises: UnknownField; TypeError when it is to be `whole`, of entities and
    tuples, and a field of this version is not given."""
    kind: Any = message_class
    plan = _plan(kind, tuple(known))
    values = {name: known[name] for name in plan.kept}
    if not whole:
        values |= plan.zeros
        for field in plan.lists:
            values[field.name] = _nested(field, values[field.name])
    return message_class(**values)


def _nested(field: Field, given: Any) -> object:
    if not field.is_array:
        return build(field.value_type, given) if isinstance(given, dict) else given
    if given is None:
        return None
    if field.kafka_type != "entity":
        return tuple(given)
    return tuple(build(field.value_type, one) if isinstance(one, dict) else one for one in given)


@lru_cache(maxsize=4096)
def _plan(message_class: Any, names: tuple[str, ...]) -> _Plan:
    fields = {field.name: field for field in fields_of(message_class)}
    strange = [name for name in names if name not in fields]
    if strange:
        _refuse_unknown(message_class, strange)
    defaulted = {
        declared.name
        for declared in dataclasses.fields(message_class)
        if declared.default is not dataclasses.MISSING or declared.default_factory is not dataclasses.MISSING
    }
    kept = tuple(name for name in names if name in fields)
    lists = tuple(
        fields[name] for name in kept if fields[name].is_array or fields[name].kafka_type == "entity"
    )
    missing = fields.keys() - defaulted - set(kept)
    return _Plan(kept, lists, {name: _zero(fields[name]) for name in missing})


def _zero(field: Field) -> object:
    if field.nullable:
        return None
    return () if field.is_array else _ZERO.get(field.kafka_type, 0)


def _refuse_unknown(message_class: Any, names: Iterable[str]) -> None:
    """Raises: UnknownField for a name that no version has; the newest versions have nearly all that are asked
    for, so others are seldom loaded."""
    api_key = int(message_class.__api_key__)
    is_response = message_class.__header_schema__ in _RESPONSE_HEADERS
    unknown = set(names)
    versions = {*versions_of(payload_apis()[api_key]), *LEGACY_VERSIONS.get(api_key, ())}
    for version in sorted(versions, reverse=True):
        top = payload_class(api_key, version, response=is_response)
        for kind in _kinds(top):
            if kind.__name__ == message_class.__name__:
                unknown -= names_of(kind)
        if not unknown:
            return
    raise UnknownField(f"{message_class.__name__}: no version has {', '.join(sorted(unknown))}")


def _kinds(message_class: Any) -> Iterator[Any]:
    """The class and those of its nested messages."""
    yield message_class
    for field in fields_of(message_class):
        if field.kafka_type == "entity":
            yield from _kinds(field.value_type)


class ResponseShape:
    """The response classes of one API and version. Everything their version has must be given."""

    __slots__ = ("_kinds", "_message_class")

    def __init__(self, api_key: int, api_version: int) -> None:
        self._message_class = response_class(api_key, api_version)
        self._kinds = {kind.__name__: kind for kind in _kinds(self._message_class)}

    def make(self, **values: object) -> Payload:
        """The response itself."""
        return build(self._message_class, values, whole=True)

    def has(self, name: str) -> bool:
        """Whether this version has such elements."""
        return name in self._kinds

    def nested(self, name: str, /, **values: object) -> Entity:
        """One of its elements, by the name of the schema."""
        return cast(Entity, build(self._kinds[name], values, whole=True))


@lru_cache(maxsize=512)
def response_shape(api_key: int, api_version: int) -> ResponseShape:
    """The shape of one response."""
    return ResponseShape(api_key, api_version)
