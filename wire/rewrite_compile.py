"""Puts a rewriter together for one message class from the classes of its fields; made once and kept."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from wire.classify import CLUSTER_APIS, FieldClass, classify, needs_class
from wire.faults import ForeignName, NotMappable
from wire.rewrite_entities import rule_of
from wire.rewrite_values import DROP, NO_VIEW, Mapper, replica_mapper, request_mapper, response_mapper
from wire.schema import Field, MessageKind, fields_of, kind_of
from wire.scope import Scope, View

_READS_AS_REPLICA: Final = frozenset({"fetch", "list_offsets", "offset_for_leader_epoch"})


def _each(mapper: Mapper) -> Mapper:
    """The mapper of a list; entries that map to `DROP` are left out."""

    def rewrite_all(values: tuple[Any, ...], scope: Scope, view: View) -> tuple[Any, ...]:
        mapped = [value if value is None else mapper(value, scope, view) for value in values]
        if all(new is old for new, old in zip(mapped, values, strict=True)):
            return values
        return tuple(value for value in mapped if value is not DROP)

    return rewrite_all


def _or_null(mapper: Mapper) -> Mapper:
    """The mapper of a nullable struct: what would be dropped becomes null."""

    def rewrite_or_null(value: Any, scope: Scope, view: View) -> Any:
        mapped = mapper(value, scope, view)
        return None if mapped is DROP else mapped

    return rewrite_or_null


def _value_mapper(kind: MessageKind, path: str, field: Field, found: set[FieldClass]) -> Mapper | None:
    if field.name == "replica_id" and kind.api in _READS_AS_REPLICA and not kind.response:
        return replica_mapper()
    if not needs_class(field):
        return None
    field_class = classify(kind, path, field)
    found.add(field_class)
    return (response_mapper if kind.response else request_mapper)(field_class, field)


def _entity_mapper(message_class: Any, kind: MessageKind, path: str) -> Mapper | None:
    """The mapper of a message or nested message, None when nothing in it ever changes."""
    found: set[FieldClass] = set()
    mappers: list[tuple[str, Mapper]] = []
    for field in fields_of(message_class):
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        if field.kafka_type == "entity":
            mapper = _entity_mapper(field.value_type, kind, at)
            if mapper is not None and not field.is_array and field.nullable:
                mapper = _or_null(mapper)
        else:
            mapper = _value_mapper(kind, at, field, found)
        if mapper is not None:
            mappers.append((field.name, _each(mapper) if field.is_array else mapper))
    rule = rule_of(kind, path, frozenset(found))
    if not mappers:
        return rule

    def rewrite_entity(entity: Any, scope: Scope, view: View) -> Any:
        changes = {}
        for name, mapper in mappers:
            value = getattr(entity, name)
            if value is None:
                continue
            mapped = mapper(value, scope, view)
            if mapped is DROP:
                return DROP
            if mapped is not value:
                changes[name] = mapped
        if changes:
            entity = replace(entity, **changes)
        return entity if rule is None else rule(entity, scope, view)

    return rewrite_entity


def _refused(kind: MessageKind) -> Mapper:
    def refuse(_: Any, __: Scope, ___: View) -> Any:
        raise NotMappable(f"{kind} speaks about the whole cluster")

    return refuse


@lru_cache(maxsize=2048)
def _message_mapper(message_class: Any) -> Mapper | None:
    kind = kind_of(message_class)
    return _refused(kind) if kind.api in CLUSTER_APIS else _entity_mapper(message_class, kind, "")


def rewrite_up(entity: Any, scope: Scope) -> Any:
    """See `wire.rewrite.rewrite_request`."""
    message_class: Any = type(entity)
    mapper = _message_mapper(message_class)
    mapped = entity if mapper is None else mapper(entity, scope, NO_VIEW)
    assert mapped is not DROP, "requests are mapped or refused, never thinned out"
    return mapped


def rewrite_down(entity: Any, scope: Scope, view: View) -> Any:
    """See `wire.rewrite.rewrite_response`."""
    message_class: Any = type(entity)
    mapper = _message_mapper(message_class)
    mapped = entity if mapper is None else mapper(entity, scope, view)
    if mapped is DROP:
        raise ForeignName(f"{type(entity).__name__} is about somebody else's name")
    return mapped
