"""Rules that need more than one field: names by resource type, addresses by node id and the like.

A rule gets a message (or nested message) whose plain fields are rewritten already, and answers it, a
changed copy, or `DROP`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode

from wire.classify import FieldClass
from wire.faults import EmptyName, NotMappable
from wire.request_bounds import SUBSCRIBED_NAMES_MAX
from wire.rewrite_values import DROP
from wire.schema import MessageKind
from wire.scope import Scope, View
from wire.subscription import CONSUMER, physical_subscription

Rule: TypeAlias = Callable[[Any, Scope, View], Any]

_UNSCOPED_CONFIGS: Final = frozenset({4, 8})
"""Config resource types BROKER and BROKER_LOGGER: their names are node ids."""

_COORDINATOR_KEY_KINDS: Final = {0: "group_id", 1: "transactional_id", 2: "group_id"}

_ACL_SCOPED: Final = frozenset({2, 3, 5})
"""ACL resource types TOPIC, GROUP and TRANSACTIONAL_ID; the others belong to the whole cluster."""
_ACL_LITERAL: Final = 3
_ACL_PREFIXED: Final = 4
_ACL_ANY_NAME: Final = "*"


def _config_up(entity: Any, scope: Scope, _: View) -> Any:
    if entity.resource_type in _UNSCOPED_CONFIGS:
        return entity
    return replace(entity, resource_name=scope.physical(entity.resource_name))


def _config_down(entity: Any, scope: Scope, _: View) -> Any:
    if getattr(entity, "resource_type", None) in _UNSCOPED_CONFIGS:
        return entity
    name = scope.tenant(entity.resource_name)
    return DROP if name is None else replace(entity, resource_name=name)


def _coordinator_keys_up(entity: Any, scope: Scope, _: View) -> Any:
    kind = _COORDINATOR_KEY_KINDS.get(getattr(entity, "key_type", 0))
    if kind is None:
        raise NotMappable(f"coordinator key type {entity.key_type}")
    several = hasattr(entity, "coordinator_keys")
    keys = entity.coordinator_keys if several else (entity.key,)
    if "" in (keys or ()):
        raise EmptyName(kind)
    if not several:
        return replace(entity, key=scope.physical(entity.key))
    return entity if not keys else replace(entity, coordinator_keys=tuple(map(scope.physical, keys)))


def _coordinator_down(entity: Any, _: Scope, view: View) -> Any:
    address = view.brokers.get(entity.node_id)
    if address is not None:
        return replace(entity, host=address[0], port=address[1])
    if entity.node_id == -1 and entity.error_code is not ErrorCode.none:
        return replace(entity, host="", port=-1)
    # A node the instance does not know yet: the client asks again.
    gone = ErrorCode.coordinator_not_available
    return replace(entity, error_code=gone, node_id=-1, host="", port=-1)


def _node_down(entity: Any, _: Scope, view: View) -> Any:
    node_id = entity.broker_id if hasattr(entity, "broker_id") else entity.node_id
    address = view.brokers.get(node_id)
    return DROP if address is None else replace(entity, host=address[0], port=address[1])


def _join_group_up(entity: Any, scope: Scope, _: View) -> Any:
    if entity.protocol_type != CONSUMER or not entity.protocols:
        return entity
    budget = [SUBSCRIBED_NAMES_MAX]
    protocols = tuple(
        replace(protocol, metadata=physical_subscription(protocol.metadata, scope, budget))
        for protocol in entity.protocols
    )
    return replace(entity, protocols=protocols)


def _acl_up(entity: Any, scope: Scope, _: View) -> Any:
    """'*' means any name, which inside an instance is every name with its scope: a prefixed pattern."""
    is_filter = hasattr(entity, "resource_type_filter")
    resource_type = entity.resource_type_filter if is_filter else entity.resource_type
    name = entity.resource_name_filter if is_filter else entity.resource_name
    if resource_type not in _ACL_SCOPED or name is None:
        raise NotMappable("an ACL that reaches beyond named topics, groups and transactional ids")
    pattern_field = "pattern_type_filter" if is_filter else "resource_pattern_type"
    name_field = "resource_name_filter" if is_filter else "resource_name"
    if name == _ACL_ANY_NAME:
        if getattr(entity, pattern_field) != _ACL_LITERAL:
            raise NotMappable("'*' with another pattern type than literal")
        return replace(entity, **{name_field: scope.prefix, pattern_field: _ACL_PREFIXED})
    return replace(entity, **{name_field: scope.physical(name)})


def _acl_down(entity: Any, scope: Scope, _: View) -> Any:
    pattern_field = "pattern_type" if hasattr(entity, "pattern_type") else "resource_pattern_type"
    if entity.resource_type not in _ACL_SCOPED:
        return DROP
    if entity.resource_name == scope.prefix and getattr(entity, pattern_field) == _ACL_PREFIXED:
        return replace(entity, **{"resource_name": _ACL_ANY_NAME, pattern_field: _ACL_LITERAL})
    name = scope.tenant(entity.resource_name)
    return DROP if name is None else replace(entity, resource_name=name)


def _one_log_dir(entity: Any, _: Scope, __: View) -> Any:
    """All log dirs have one name now, and clients keep one entry per name."""
    if len(entity.results) < 2:
        return entity
    first = next(
        (result for result in entity.results if result.error_code is ErrorCode.none), entity.results[0]
    )
    topics = tuple(topic for result in entity.results for topic in result.topics)
    return replace(entity, results=(replace(first, topics=topics),))


_BY_CLASS: Final[dict[tuple[FieldClass, bool], Rule]] = {
    (FieldClass.CONFIG_RESOURCE, False): _config_up,
    (FieldClass.CONFIG_RESOURCE, True): _config_down,
    (FieldClass.ACL_RESOURCE, False): _acl_up,
    (FieldClass.ACL_RESOURCE, True): _acl_down,
    (FieldClass.COORDINATOR_KEY, False): _coordinator_keys_up,
}

_BY_MESSAGE: Final[dict[str, Rule]] = {
    "join_group.request": _join_group_up,
    "describe_log_dirs.response": _one_log_dir,
}


def rule_of(kind: MessageKind, path: str, found: frozenset[FieldClass]) -> Rule | None:
    """The rule of a (nested) message with fields of these classes; `path` is empty for the message itself."""
    if FieldClass.BROKER_ADDRESS in found:
        return _coordinator_down if kind.api == "find_coordinator" else _node_down
    for field_class in found:
        rule = _BY_CLASS.get((field_class, kind.response))
        if rule is not None:
            return rule
    return _BY_MESSAGE.get(str(kind)) if path == "" else None
