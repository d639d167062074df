"""ACLs of one instance: how many, which go, and when they may be enforced. Pure."""

from collections.abc import Iterable, Sequence

from contracts.acls import ACLS_MAX, Acl, AclFault, AclFilter, checked, with_acls
from contracts.users import KafkaUser
from tenants.rules.errors import Conflict
from tenants.rules.lifecycle import Fault


def all_checked(acls: Sequence[Acl], field: str) -> tuple[list[Acl], list[Fault]]:
    """ACLs as they are kept, and what is wrong with the others."""
    kept, faults = [], []
    for index, acl in enumerate(acls):
        try:
            kept.append(checked(acl))
        except AclFault as fault:
            faults.append(Fault(f"{field}.{index}.{fault.field}", str(fault)))
    return kept, faults


def with_added(present: tuple[Acl, ...], added: Iterable[Acl]) -> tuple[Acl, ...]:
    """Raises: Conflict where there are too many."""
    acls = with_acls(present, added)
    if len(acls) > max(ACLS_MAX, len(present)):
        raise Conflict(f"an instance has at most {ACLS_MAX} ACLs, not {len(acls)}: delete some first")
    return acls


def without(
    present: tuple[Acl, ...], filters: Sequence[AclFilter]
) -> tuple[tuple[Acl, ...], tuple[tuple[Acl, ...], ...]]:
    """(what is left, what each filter means that none before it does)."""
    meant = []
    for one in filters:
        meant.append(tuple(filter(one.means, present)))
        present = tuple(acl for acl in present if not one.means(acl))
    return present, tuple(meant)


def enforcement_fault(users: Iterable[KafkaUser]) -> str | None:
    """Why ACLs may not be enforced yet."""
    if any(user.superuser for user in users):
        return None
    return "make a user a superuser first: somebody must be able to do what no ACL allows"


def described(acl: Acl) -> str:
    """For the audit log."""
    return (
        f"{acl.permission.name} {acl.principal} {acl.operation.name} from {acl.host} on "
        f"{acl.resource_type.name} {acl.pattern_type.name} '{acl.name}'"
    )
