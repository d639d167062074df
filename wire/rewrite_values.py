"""How one value of each class is rewritten: the leaves of a rewriter.

`Mapper(value, scope, view)` answers the new value, the same one when nothing changes, or `DROP` when the
list entry that holds it belongs to somebody else. Null values never reach a mapper.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from wire.classify import FieldClass
from wire.faults import EmptyName, NotMappable
from wire.patterns import physical_pattern, tenant_pattern
from wire.schema import Field
from wire.scope import Scope, View
from wire.subscription import tenant_subscription
from wire.texts import tenant_text

Mapper: TypeAlias = Callable[[Any, Scope, View], Any]

DROP: Final = object()
"""Leave the nearest list entry (or nullable struct) out."""

LOG_DIR: Final = "/kafka"
"""What every log dir is called for tenants."""

NO_VIEW: Final = View({})


def _physical(value: str, scope: Scope, _: View) -> str:
    return scope.physical(value)


def _never_empty(kind: str) -> Mapper:
    def physical(value: str, scope: Scope, _: View) -> str:
        if value == "":
            raise EmptyName(kind)
        return scope.physical(value)

    return physical


def _replica_id(value: int, _: Scope, __: View) -> int:
    if value >= 0:
        raise NotMappable("a request in the name of a replica")
    return value


def _tenant(value: str, scope: Scope, _: View) -> Any:
    name = scope.tenant(value)
    return DROP if name is None else name


def _total_bytes(_: int, __: Scope, view: View) -> int:
    return view.total_bytes


def _usable_bytes(_: int, __: Scope, view: View) -> int:
    return view.usable_bytes


_UP: Final[dict[FieldClass, Mapper]] = {
    FieldClass.TOPIC_NAME: _physical,
    FieldClass.GROUP_ID: _never_empty("group_id"),
    FieldClass.TRANSACTIONAL_ID: _never_empty("transactional_id"),
    FieldClass.TOPIC_REGEX: lambda value, scope, _: physical_pattern(value, scope),
    FieldClass.TRANSACTIONAL_ID_REGEX: lambda value, scope, _: physical_pattern(value, scope),
    FieldClass.CLUSTER_ID: lambda _, __, ___: None,
}

_DOWN: Final[dict[FieldClass, Mapper]] = {
    FieldClass.TOPIC_NAME: _tenant,
    FieldClass.GROUP_ID: _tenant,
    FieldClass.TRANSACTIONAL_ID: _tenant,
    FieldClass.COORDINATOR_KEY: _tenant,
    FieldClass.TOPIC_REGEX: lambda value, scope, _: tenant_pattern(value, scope),
    FieldClass.ERROR_TEXT: lambda value, scope, _: tenant_text(value, scope),
    FieldClass.CLUSTER_ID: lambda _, scope, __: scope.instance_id,
    FieldClass.LOG_DIR: lambda _, __, ___: LOG_DIR,
    FieldClass.CONSUMER_METADATA: lambda value, scope, _: tenant_subscription(value, scope),
}

PASSING: Final = frozenset(
    {
        FieldClass.TOPIC_ID,
        FieldClass.MEMBER_HOST,
        FieldClass.FREE_TEXT,
        FieldClass.OPAQUE,
        FieldClass.RECORDS,
    }
)
"""Classes that are the same on both sides."""

BY_ENTITY: Final = frozenset(
    {
        FieldClass.BROKER_ADDRESS,
        FieldClass.CONFIG_RESOURCE,
        FieldClass.ACL_RESOURCE,
    }
)
"""Classes whose rule needs the fields beside them: see `wire.rewrite_entities`."""


def request_mapper(found: FieldClass, field: Field) -> Mapper | None:
    """How a value of a request is rewritten; None when it passes."""
    if found in (FieldClass.COORDINATOR_KEY, FieldClass.CONSUMER_METADATA):
        return None  # needs the key type or protocol type beside it
    assert found in _UP or found in PASSING or found in BY_ENTITY, (found, field)
    return _UP.get(found)


def response_mapper(found: FieldClass, field: Field) -> Mapper | None:
    """How a value of a response is rewritten; None when it passes."""
    if found is FieldClass.RACK:
        hidden = None if field.nullable else ""
        return lambda _, __, ___: hidden
    if found is FieldClass.DISK_BYTES:
        return _total_bytes if field.name == "total_bytes" else _usable_bytes
    assert found in _DOWN or found in PASSING or found in BY_ENTITY, (found, field)
    return _DOWN.get(found)


def replica_mapper() -> Mapper:
    """Only brokers read as replicas; -1 and -2 are what consumers send."""
    return _replica_id
