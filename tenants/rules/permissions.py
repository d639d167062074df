"""Who may do what: roles, permissions, and which one each operation of the API needs. Pure.

The one table of it. The API refuses by it, the pages show by it (`GET /v1/session` and `/v1/roles` tell it),
actions of CKafka need what the operations do that they stand for, and the OpenAPI document says it.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple


class Role(StrEnum):
    """What a member or key is in its tenant; of operators and admins the tenant is `default`."""

    ADMIN = "admin"
    OPERATOR = "operator"
    OWNER = "owner"
    DEVELOPER = "developer"
    VIEWER = "viewer"


class Permission(StrEnum):
    """What a role may do."""

    READ = "read"
    READ_MESSAGES = "read_messages"
    READ_MASKED = "read_masked"
    SEND_MESSAGES = "send_messages"
    TOPICS = "topics"
    ALARMS = "alarms"
    INSTANCES = "instances"
    KEYS = "keys"
    MEMBERS = "members"
    AUDIT = "audit"
    EVERY_TENANT = "every_tenant"
    STAFF = "staff"


MEANINGS: Final = {
    Permission.READ: "see instances, topics, groups, quota, usage and bills",
    Permission.READ_MESSAGES: "see what is in topics: keys, values and headers of messages",
    Permission.READ_MASKED: "see what an owner has masked in messages",
    Permission.SEND_MESSAGES: "write messages to topics from the console",
    Permission.TOPICS: "create, change and delete topics, and reset groups' offsets",
    Permission.ALARMS: "acknowledge and silence alarms",
    Permission.INSTANCES: "order, change, delete instances; whitelists, users, ACLs, alarms' rules and sinks",
    Permission.KEYS: "make and revoke keys",
    Permission.MEMBERS: "invite people, change their roles, reset their passwords",
    Permission.AUDIT: "read the audit log",
    Permission.EVERY_TENANT: "act for every tenant; ceilings, clusters, purges, jobs",
    Permission.STAFF: "make operators and admins, of people and of keys",
}
_VIEWER: Final = frozenset({Permission.READ})
_DEVELOPER: Final = _VIEWER | {
    *(Permission.READ_MESSAGES, Permission.SEND_MESSAGES, Permission.TOPICS, Permission.ALARMS)
}
_OWNER: Final = _DEVELOPER | {
    Permission.READ_MASKED,
    Permission.INSTANCES,
    Permission.KEYS,
    Permission.MEMBERS,
    Permission.AUDIT,
}
PERMISSIONS: Final = {
    Role.VIEWER: _VIEWER,
    Role.DEVELOPER: _DEVELOPER,
    Role.OWNER: _OWNER,
    Role.OPERATOR: _OWNER - {Permission.READ_MASKED} | {Permission.EVERY_TENANT},
    Role.ADMIN: frozenset(Permission),
}
STAFF: Final = frozenset({Role.OPERATOR, Role.ADMIN})
"""Roles that are nobody's but the operators' own: a tenant neither sees nor changes who has them."""

_INSTANCE: Final = "/v1/instances/{instance}"
_TOPIC: Final = f"{_INSTANCE}/topics/{{topic}}"
_GROUP: Final = f"{_INSTANCE}/groups/{{group}}"
NEEDED: Final[dict[Permission, tuple[str, ...]]] = {
    Permission.READ: (
        # what concerns only who asks
        "GET /v1/me",
        "GET /v1/roles",
        "GET /v1/session",
        "DELETE /v1/session",
        "POST /v1/session/password",
        "GET /v1/sessions",
        "DELETE /v1/sessions",
        "DELETE /v1/sessions/{session}",
        "GET /v1/session/links",
        "POST /v1/session/links",
        "DELETE /v1/session/links",
        # what belongs to the tenant
        "GET /v1/keys",
        "GET /v1/access-keys",
        "GET /v1/tenants/{name}/ceilings",
        "GET /v1/instances",
        f"GET {_INSTANCE}",
        f"GET {_INSTANCE}/whitelist",
        f"GET {_INSTANCE}/refusals",
        f"GET {_INSTANCE}/users",
        f"GET {_INSTANCE}/oauth",
        f"GET {_INSTANCE}/acls",
        f"GET {_INSTANCE}/clients",
        f"GET {_INSTANCE}/connections",
        f"GET {_INSTANCE}/faults",
        f"GET {_INSTANCE}/alarms",
        f"GET {_INSTANCE}/alarms/history",
        "GET /v1/alarms",
        "GET /v1/alarms/history",
        f"GET {_INSTANCE}/quota",
        f"GET {_INSTANCE}/quota/stream",
        f"GET {_INSTANCE}/slowness",
        f"GET {_INSTANCE}/series",
        f"GET {_INSTANCE}/series/names",
        f"GET {_INSTANCE}/marks",
        f"GET {_INSTANCE}/usage",
        f"GET {_INSTANCE}/costs",
        f"GET {_INSTANCE}/costs/limits",
        f"GET {_INSTANCE}/bills",
        f"GET {_INSTANCE}/bills/{{month}}",
        f"GET {_INSTANCE}/advice",
        f"GET {_INSTANCE}/topics",
        f"GET {_TOPIC}",
        f"GET {_TOPIC}/whitelist",
        f"GET {_TOPIC}/decoding",
        f"GET {_INSTANCE}/schema-registry",
        f"GET {_INSTANCE}/groups",
        f"GET {_GROUP}",
        "GET /v1/deleted-instances",
        "GET /v1/operations",
        "GET /v1/operations/{operation}",
        "GET /v1/faults",
        "GET /v1/bills",
    ),
    Permission.READ_MESSAGES: (f"GET {_TOPIC}/messages", f"GET {_TOPIC}/messages/download"),
    Permission.SEND_MESSAGES: (f"POST {_TOPIC}/messages",),
    Permission.TOPICS: (
        f"POST {_INSTANCE}/topics",
        f"PATCH {_TOPIC}",
        f"DELETE {_TOPIC}",
        f"POST {_TOPIC}/delete-records",
        f"POST {_GROUP}/reset-offsets",
        f"DELETE {_GROUP}",
    ),
    Permission.ALARMS: (
        f"POST {_INSTANCE}/alarms/{{kind}}/acknowledge",
        f"PUT {_INSTANCE}/alarms/{{kind}}/silence",
        f"DELETE {_INSTANCE}/alarms/{{kind}}/silence",
    ),
    Permission.INSTANCES: (
        "POST /v1/instances",
        f"PATCH {_INSTANCE}",
        f"DELETE {_INSTANCE}",
        f"POST {_INSTANCE}/suspend",
        f"POST {_INSTANCE}/resume",
        f"PUT {_INSTANCE}/whitelist",
        f"PATCH {_INSTANCE}/whitelist",
        f"PUT {_TOPIC}/whitelist",
        f"DELETE {_TOPIC}/whitelist",
        f"PUT {_TOPIC}/decoding",
        f"DELETE {_TOPIC}/decoding",
        f"PUT {_INSTANCE}/schema-registry",
        f"DELETE {_INSTANCE}/schema-registry",
        f"POST {_INSTANCE}/users",
        f"POST {_INSTANCE}/users/{{user}}/password",
        f"PATCH {_INSTANCE}/users/{{user}}",
        f"DELETE {_INSTANCE}/users/{{user}}",
        f"PUT {_INSTANCE}/oauth",
        f"DELETE {_INSTANCE}/oauth",
        f"POST {_INSTANCE}/acls",
        f"PATCH {_INSTANCE}/acls",
        f"DELETE {_INSTANCE}/acls",
        "GET /v1/webhooks",
        "POST /v1/webhooks",
        "PATCH /v1/webhooks/{webhook}",
        "DELETE /v1/webhooks/{webhook}",
        "POST /v1/webhooks/{webhook}/test",
        "GET /v1/webhooks/{webhook}/deliveries",
        "GET /v1/emails",
        "POST /v1/emails",
        "PATCH /v1/emails/{email}",
        "DELETE /v1/emails/{email}",
        "POST /v1/emails/{email}/test",
        "GET /v1/emails/{email}/deliveries",
        f"PUT {_INSTANCE}/alarms/{{kind}}/rule",
        f"DELETE {_INSTANCE}/alarms/{{kind}}/rule",
        f"POST {_INSTANCE}/faults",
        f"DELETE {_INSTANCE}/faults",
        f"DELETE {_INSTANCE}/faults/{{fault}}",
        "POST /v1/deleted-instances/{instance}/undelete",
    ),
    Permission.KEYS: (
        "POST /v1/keys",
        "POST /v1/keys/{key}/rotate",
        "DELETE /v1/keys/{key}",
        "POST /v1/access-keys",
        "DELETE /v1/access-keys/{secret_id}",
    ),
    Permission.MEMBERS: (
        "GET /v1/members",
        "PATCH /v1/members/{member}",
        "DELETE /v1/members/{member}",
        "POST /v1/members/{member}/reset-password",
        "GET /v1/invitations",
        "POST /v1/invitations",
        "DELETE /v1/invitations/{invitation}",
    ),
    Permission.AUDIT: ("GET /v1/audit",),
    Permission.EVERY_TENANT: (
        "GET /v1/group-roles",
        "POST /v1/group-roles",
        "DELETE /v1/group-roles/{group_role}",
        "GET /v1/tenants",
        "POST /v1/tenants",
        "PATCH /v1/tenants/{name}/ceilings",
        "GET /v1/clusters",
        "PUT /v1/clusters/{name}",
        "PATCH /v1/clusters/{name}",
        "DELETE /v1/clusters/{name}",
        "PATCH /v1/clusters/{name}/ceilings",
        "GET /v1/brokers",
        "GET /v1/cluster/partitions",
        "GET /v1/moves",
        f"GET {_INSTANCE}/move",
        f"POST {_INSTANCE}/move",
        f"DELETE {_INSTANCE}/move",
        f"DELETE {_INSTANCE}/move/old-copy",
        "GET /v1/alarms/deployment",
        "POST /v1/alarms/{kind}/acknowledge",
        "PUT /v1/alarms/{kind}/silence",
        "DELETE /v1/alarms/{kind}/silence",
        "GET /v1/alarms/rules",
        "PUT /v1/alarms/{kind}/rule",
        "DELETE /v1/alarms/{kind}/rule",
        "GET /v1/quota",
        "GET /v1/fleet/stream",
        "GET /v1/series",
        "GET /v1/series/names",
        "GET /v1/marks",
        "GET /v1/advice",
        "POST /v1/deleted-instances/{instance}/purge",
        "GET /v1/absent-instances",
        "POST /v1/absent-instances/{instance}/adopt",
        "POST /v1/absent-instances/{instance}/discard",
        "GET /v1/pipeline/jobs",
        "GET /v1/pipeline/jobs/{run}",
        "PUT /v1/pipeline/jobs/{run}",
        "GET /v1/pipeline/schedules",
        "PUT /v1/pipeline/schedules/{name}",
        "DELETE /v1/pipeline/schedules/{name}",
        "POST /v1/pipeline/schedules/{name}/runs",
        "PUT /v1/pipeline/schedules/{name}/last",
    ),
}
"""Operations by what they need: all but those of `OPEN`. What is not here is not served."""
OPEN: Final = frozenset(
    {
        "GET /v1/health",
        "GET /v1/openapi.json",
        "POST /v1/session",
        "POST /v1/invitation",
        "POST /v1/invitation/accept",
        "POST /v1/email-links",
        "GET /v1/sign-in",
        "POST /v1/sign-in",
        "POST /v1/sign-in/answer",
    }
)
"""What is asked without credentials; health then tells its status only."""
READS: Final = ("GET", "HEAD", "OPTIONS")
_PARAMETER: Final = re.compile(r"\\\{(\w+)\\\}")


def grants(role: Role) -> frozenset[Role]:
    """The roles that one may give to others, and take from them."""
    held = PERMISSIONS[role]
    if Permission.STAFF in held:
        return frozenset(Role)
    is_manager = Permission.MEMBERS in held or Permission.KEYS in held
    return frozenset(Role) - STAFF if is_manager else frozenset()


def needed(method: str, path: str) -> Permission | None:
    """What a request needs, by its path; None where there is no such operation."""
    asked = "GET" if method in READS else method
    return next((one.permission for one in _rows() if one.method == asked and one.path.match(path)), None)


def methods(path: str) -> list[str]:
    """What may be done with a path."""
    open_methods = {one.partition(" ")[0] for one in OPEN if one.partition(" ")[2] == path}
    # Of the longest path alone: names of groups have slashes, so what is done to one may look like one.
    longest = next((one.path for one in _rows() if one.path.match(path)), None)
    found = open_methods | {one.method for one in _rows() if one.path == longest}
    return sorted(found | {"HEAD"} if "GET" in found else found)


def refusal(role: Role, permission: Permission) -> str:
    """What is told to who may not."""
    able = ", ".join(each for each in Role if permission in PERMISSIONS[each])
    return f"your role, {role}, may not do this: it needs '{permission}', which these have: {able}"


def operations() -> Iterator[tuple[str, Permission]]:
    """Each operation of the table, with what it needs."""
    for permission, named in NEEDED.items():
        for operation in named:
            yield operation, permission


class _Row(NamedTuple):
    method: str
    path: re.Pattern[str]
    permission: Permission


@cache
def _rows() -> list[_Row]:
    """The longer paths first: groups' names have slashes."""
    found = []
    for operation, permission in sorted(operations(), key=lambda one: -len(one[0])):
        method, _, path = operation.partition(" ")
        pattern = _PARAMETER.sub(_matching, re.escape(path))
        found.append(_Row(method, re.compile(rf"{pattern}\Z"), permission))
    return found


def _matching(parameter: re.Match[str]) -> str:
    return ".+" if parameter[1] == "group" else "[^/]+"
