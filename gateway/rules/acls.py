"""What clients of one instance may do by its ACLs, compiled: a decision costs a few look-ups in dicts.

As in Kafka: what no ACL allows is refused, a DENY goes before every ALLOW. READ, WRITE, DELETE and ALTER
allow DESCRIBE, ALTER_CONFIGS allows DESCRIBE_CONFIGS, and superusers may do everything.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Final

from kio.static.primitive import i32

from contracts.acls import (
    CLUSTER_NAME,
    EVERYBODY,
    EVERYTHING,
    USER_PREFIX,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from contracts.users import KafkaUser

RIGHTS_KEPT: Final = 64
"""Sets of rules that are kept compiled for an instance on a worker, one for each user (and address, where a
rule names it) that has asked lately."""
_ALL: Final = sum(one.bit for one in Operation if one is not Operation.ALL)
_IMPLIED: Final = {
    **dict.fromkeys(
        (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER), Operation.DESCRIBE.bit
    ),
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS.bit,
}
_SUPPORTED: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}
NOT_ASKED: Final = -(2**31)
"""In place of operations: the client has not asked for them."""
SUPPORTED: Final = {kind: sum(1 << each for each in each_of) for kind, each_of in _SUPPORTED.items()}
"""The operations that Kafka tells of a resource of each type (KIP-430)."""


class _Patterns:
    """The rules about resources of one type for one client: operations allowed and denied, by name."""

    __slots__ = ("_lengths", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[str, tuple[int, int]] = {}
        self._prefixed: dict[str, tuple[int, int]] = {}
        self._lengths: tuple[int, ...] = ()

    def add(self, acl: Acl) -> None:
        rules = self._literal if acl.pattern_type is PatternType.LITERAL else self._prefixed
        allowed, denied = rules.get(acl.name, (0, 0))
        bits = _ALL if acl.operation is Operation.ALL else acl.operation.bit
        if acl.permission is Permission.DENY:
            rules[acl.name] = allowed, denied | bits
        else:
            rules[acl.name] = allowed | bits | _IMPLIED.get(acl.operation, 0), denied
        self._lengths = tuple({len(name) for name in self._prefixed})

    def operations(self, name: str) -> int:
        allowed, denied = self._literal.get(EVERYTHING, (0, 0))
        if name in self._literal:
            more_allowed, more_denied = self._literal[name]
            allowed, denied = allowed | more_allowed, denied | more_denied
        for length in self._lengths:
            rule = self._prefixed.get(name[:length])
            if rule is not None:
                allowed, denied = allowed | rule[0], denied | rule[1]
        return allowed & ~denied

    def allows_some(self, bit: int) -> bool:
        return any(self.operations(name) & bit for name in (*self._literal, *self._prefixed))


class Rights:
    """Of one client."""

    def __init__(self, rules: Iterable[Acl], *, superuser: bool = False) -> None:
        self._superuser = superuser
        self._patterns: defaultdict[ResourceType, _Patterns] = defaultdict(_Patterns)
        for acl in rules:
            self._patterns[acl.resource_type].add(acl)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """What the client may do with a resource, as a set of bits."""
        if self._superuser:
            return _ALL
        patterns = self._patterns.get(resource_type)
        return 0 if patterns is None else patterns.operations(name)

    def told(self, resource_type: ResourceType, name: str) -> i32:
        """The same of those that Kafka tells of."""
        return i32(self.operations(resource_type, name) & SUPPORTED[resource_type])

    def told_of_cluster(self) -> i32:
        """Of the instance as a whole; 0 for who may not describe it, as in Kafka."""
        operations = self.told(ResourceType.CLUSTER, CLUSTER_NAME)
        return operations if operations & Operation.DESCRIBE.bit else i32(0)

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do this."""
        return bool(self.operations(resource_type, name) & operation.bit)

    def allows_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of a type that the client may do this with."""
        patterns = self._patterns.get(resource_type)
        return self._superuser or (patterns is not None and patterns.allows_some(operation.bit))


class Authority:
    """All ACLs of an instance that enforces them."""

    def __init__(self, acls: Iterable[Acl], users: Iterable[KafkaUser]) -> None:
        self._superusers = {USER_PREFIX + user.name for user in users if user.superuser}
        self._rules: defaultdict[tuple[str, str], list[Acl]] = defaultdict(list)
        """By principal and host."""
        for acl in acls:
            self._rules[acl.principal, acl.host].append(acl)
        self._principals = {principal for principal, _ in self._rules} | self._superusers
        self._hosts = {host for _, host in self._rules}
        self._kept: OrderedDict[tuple[str, str], Rights] = OrderedDict()

    def rights(self, principal: str, address: str) -> Rights:
        """Of a client. Those whom no rule names have the same."""
        who = principal if principal in self._principals else EVERYBODY
        where = address if address in self._hosts else EVERYTHING
        rights = self._kept.get((who, where))
        if rights is None:
            rights = self._kept[who, where] = self._compiled(who, where)
            if len(self._kept) > RIGHTS_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end((who, where))
        return rights

    def _compiled(self, who: str, where: str) -> Rights:
        named = {(one, host) for one in (who, EVERYBODY) for host in (where, EVERYTHING)}
        rules = [acl for each in named for acl in self._rules.get(each, ())]
        return Rights(rules, superuser=who in self._superusers)
