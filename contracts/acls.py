"""What users of an instance may do: Kafka's ACLs by Kafka's numbers, and which of them a filter means."""

import ipaddress
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import msgspec

from contracts.shapes import ADDRESS, LETTER, matching

ANY: Final = 1
"""In a filter: whatever stands there."""
MATCH: Final = 2
"""In a filter, as its pattern type: every ACL that decides about this name."""
EVERYTHING: Final = "*"
"""As a literal name: every resource of the type; as a host: from everywhere."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The one name of a resource of type CLUSTER, which is the instance."""
USER_PREFIX: Final = "User:"
ANONYMOUS: Final = "User:ANONYMOUS"
"""Who comes in without a login or a certificate."""
EVERYBODY: Final = "User:*"
ACLS_MAX: Final = 1_000
"""ACLs of one instance."""
ACL_NAME_SHAPE: Final = f"^{LETTER}{{1,249}}$"
ACL_PRINCIPAL_SHAPE: Final = f"^{USER_PREFIX}{LETTER}{{1,128}}$"
ACL_HOST_SHAPE: Final = rf"^(\*|{ADDRESS})$"
_NAME: Final = matching(ACL_NAME_SHAPE)
_PRINCIPAL: Final = matching(ACL_PRINCIPAL_SHAPE)
_HOST: Final = matching(ACL_HOST_SHAPE)


class ResourceType(IntEnum):
    """What an ACL is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    """The instance as a whole."""
    TRANSACTIONAL_ID = 5


class PatternType(IntEnum):
    """How a name is meant."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What somebody wants to do."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    @property
    def bit(self) -> int:
        """Its place in a set of operations, as Kafka tells them (KIP-430)."""
        return 1 << self.value


class Permission(IntEnum):
    """What an ACL says."""

    DENY = 2
    ALLOW = 3


class Acl(msgspec.Struct, frozen=True, array_like=True):
    """One rule. An instance may have a thousand, so they are written as arrays."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which ACLs are meant. None, and `ANY` of a number: all."""

    resource_type: int = ANY
    pattern_type: int = ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def means(self, acl: Acl) -> bool:
        """Whether an ACL is one of them."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type != MATCH:
            return False
        if acl.pattern_type is PatternType.LITERAL:
            return acl.name == EVERYTHING
        return self.name.startswith(acl.name)


class AclFault(ValueError):  # noqa: N818 - of who asks
    """An ACL that cannot be; `field` says where."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


def checked(acl: Acl) -> Acl:
    """The ACL as it is kept: hosts have one spelling. Raises: AclFault."""
    if _NAME.match(acl.name) is None:
        raise AclFault("name", "a resource's name has 1 to 249 characters, none of them a control character")
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise AclFault("name", f"the only resource of type cluster is {CLUSTER_NAME}")
    if acl.pattern_type is PatternType.PREFIXED and acl.name == EVERYTHING:
        raise AclFault("name", "every name is the literal '*': as a prefix it means names that begin with it")
    if _PRINCIPAL.match(acl.principal) is None:
        raise AclFault(
            "principal",
            f"a principal is {USER_PREFIX} and a name of up to 128 characters, {EVERYBODY} or {ANONYMOUS}",
        )
    return msgspec.structs.replace(acl, host=_host(acl.host))


def _host(host: str) -> str:
    if _HOST.match(host) is None:
        raise AclFault("host", "a host is an address, not a network or a name, or '*'")
    if host == EVERYTHING:
        return host
    address = ipaddress.ip_address(host)
    return str(getattr(address, "ipv4_mapped", None) or address)


def with_acls(present: tuple[Acl, ...], added: Iterable[Acl]) -> tuple[Acl, ...]:
    """Each once, in an order of their own."""
    return tuple(sorted({*present, *added}, key=msgspec.structs.astuple))
