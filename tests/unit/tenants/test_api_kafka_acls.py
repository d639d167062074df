"""ACLs of an instance: in the API, and as its users order them at a gateway; one store for both."""

from typing import Any

import httpx
import pytest

from contracts.access_orders import AccessOrder, UserCredential, UserMechanism
from contracts.acls import ACLS_MAX, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from contracts.users import Mechanism, credential
from tenants.console import Console
from tenants.rules.kafka_users import USERS_MAX
from tenants.rules.model import Instance, spec_of
from tenants.store import instances

from .conftest import OPERATOR_KEY, Caller

READ: dict[str, Any] = {
    "resource_type": "topic",
    "pattern_type": "literal",
    "resource_name": "orders",
    "principal": "User:app",
    "host": "*",
    "operation": "read",
    "permission": "allow",
}
STORED = Acl(
    ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:app", "*", Operation.READ, Permission.ALLOW
)


def _stored(plane: Console, instance_id: str) -> Instance:
    with plane.store.read() as connection:
        found = instances.by_id(connection, instance_id)
    assert found is not None
    return found


async def test_acls_are_added_listed_and_deleted(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/acls"
    short = {
        "resource_type": "topic",
        "resource_name": "orders",
        "principal": "User:app",
        "operation": "read",
    }
    made = await operator("POST", path, json={"items": [short, READ]})
    assert made.status_code == 200 and made.json()["items"] == [READ] and not made.json()["enforced"]
    assert spec_of(_stored(plane, instance)).acls == (STORED,)
    before = _stored(plane, instance).revision
    assert (await operator("POST", path, json={"items": [READ]})).status_code == 200
    assert _stored(plane, instance).revision == before, "what is there already changes nothing"
    deny = {**READ, "operation": "all", "permission": "deny", "pattern_type": "prefixed", "host": "192.0.2.1"}
    assert (await operator("POST", path, json={"items": [deny]})).status_code == 200
    for query, count in (
        ("", 2),
        ("?permission=deny", 1),
        ("?principal=User:other", 0),
        ("?pattern_type=match&resource_name=orders-eu", 1),
        ("?host=192.0.2.1&operation=all&resource_type=topic", 1),
    ):
        assert len((await operator("GET", path + query)).json()["items"]) == count, query
    refused = await operator("DELETE", path)
    assert refused.status_code == 409 and len(_stored(plane, instance).acls) == 2
    gone = await operator("DELETE", f"{path}?permission=deny")
    assert gone.status_code == 200 and gone.json()["items"] == [deny]
    assert _stored(plane, instance).acls == (STORED,)
    assert (await operator("DELETE", f"{path}?permission=deny")).json()["items"] == []
    entries = (await operator("GET", "audit")).json()["items"]
    told = {one["action"]: one["detail"] for one in entries if one["subject"] == instance}
    assert "User:app READ" in told["acl.create"] or "User:app ALL" in told["acl.create"]
    assert "acl.delete" in told


async def test_what_is_no_acl_is_refused_by_its_field(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    for field, value in (
        ("resource_name", ""),
        ("resource_name", "a\0b"),
        ("principal", "app"),
        ("host", "10.0.0.0/8"),
        ("operation", "fly"),
        ("resource_type", "user"),
        ("pattern_type", "match"),
        ("more", 1),
    ):
        body = {"items": [READ, {**READ, field: value}]}
        refused = await operator("POST", f"instances/{instance}/acls", json=body)
        assert refused.status_code == 422, field
        wanted = {"resource_name": "name"}.get(field, field)
        assert any(wanted in one["field"] for one in refused.json()["errors"]), refused.json()
    assert _stored(plane, instance).acls == ()


async def test_acls_are_enforced_when_a_superuser_is_there_and_the_owner_says_so(
    plane: Console, operator: Caller
) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}"
    await operator("POST", f"{path}/users", json={"name": "app"})
    await operator("POST", f"{path}/acls", json={"items": [READ]})
    assert not spec_of(_stored(plane, instance)).acls_enforced, "the first ACL cuts nobody"
    refused = await operator("PATCH", f"{path}/acls", json={"enforced": True})
    assert refused.status_code == 409 and "superuser" in refused.json()["detail"]
    made = await operator("PATCH", f"{path}/users/app", json={"superuser": True})
    assert made.status_code == 200 and made.json()["superuser"]
    enforced = await operator("PATCH", f"{path}/acls", json={"enforced": True})
    assert enforced.status_code == 200 and enforced.json()["enforced"]
    told = spec_of(_stored(plane, instance))
    assert told.acls_enforced and told.users[0].superuser
    assert (await operator("POST", f"{path}/users/app/password", json={})).json()["superuser"]
    assert (await operator("DELETE", f"{path}/users/app")).status_code == 204
    assert spec_of(_stored(plane, instance)).acls_enforced, "a user that goes opens nothing"
    relaxed = await operator("PATCH", f"{path}/acls", json={"enforced": False})
    assert relaxed.status_code == 200 and not relaxed.json()["enforced"]


async def test_acls_are_bounded(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/acls"
    items = [{**READ, "resource_name": f"t{number}"} for number in range(ACLS_MAX)]
    assert (await operator("POST", path, json={"items": items})).status_code == 200
    full = await operator("POST", path, json={"items": [READ]})
    assert full.status_code == 409 and str(ACLS_MAX) in full.json()["detail"]
    order = AccessOrder(instance_id=instance, principal="User:root", address="192.0.2.7", acls=(STORED,))
    assert str(ACLS_MAX) in plane.user_orders.carry_out(order).refusal
    assert len(_stored(plane, instance).acls) == ACLS_MAX


async def test_acls_are_the_tenants_own_and_viewers_change_none(operator: Caller) -> None:
    owner, viewer = await operator.tenant("acme"), await operator.tenant("acme", "viewer")
    theirs = (await operator.order())["id"]
    own = (await owner.order(name="own"))["id"]
    body = {"items": [READ]}
    for method, query, given in (
        ("GET", "", None),
        ("POST", "", body),
        ("PATCH", "", {"enforced": True}),
        ("DELETE", "?principal=User:app", None),
    ):
        more = {} if given is None else {"json": given}
        assert (await owner(method, f"instances/{theirs}/acls{query}", **more)).status_code == 404
        if method != "GET":
            assert (await viewer(method, f"instances/{own}/acls{query}", **more)).status_code == 403
    assert (await owner("POST", f"instances/{own}/acls", json=body)).status_code == 200
    assert len((await viewer("GET", f"instances/{own}/acls")).json()["items"]) == 1


async def test_whoever_has_seen_an_older_state_deletes_nothing(
    plane: Console, client: httpx.AsyncClient, operator: Caller
) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/acls"
    seen = (await operator("GET", path)).headers["etag"]
    await operator("POST", path, json={"items": [READ]})
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "If-Match": seen}
    stale = await client.delete(f"/v1/{path}?principal=User:app", headers=headers)
    assert stale.status_code == 412 and _stored(plane, instance).acls == (STORED,)


async def test_what_a_user_orders_at_a_gateway_is_in_the_same_store(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    other = str((await operator.order(name="other"))["id"])
    await operator("POST", f"instances/{other}/acls", json={"items": [READ]})
    who = {"instance_id": instance, "principal": "User:root", "address": "192.0.2.7"}
    made = plane.user_orders.carry_out(AccessOrder(**who, acls=(STORED,)))
    assert not made.refusal and made.revision == _stored(plane, instance).revision
    assert (await operator("GET", f"instances/{instance}/acls")).json()["items"] == [READ]
    meant = (AclFilter(principal="User:app"), AclFilter())
    gone = plane.user_orders.carry_out(AccessOrder(**who, filters=meant))
    assert gone.deleted == ((STORED,), ()), "each is told with the first filter that means it"
    assert _stored(plane, instance).acls == () and _stored(plane, other).acls == (STORED,)
    audited = (await operator("GET", "audit")).json()["items"]
    assert any(one["actor"] == "kafka:User:root" and one["action"] == "acl.create" for one in audited)


@pytest.mark.parametrize("gone", ["unknown", "deleted"])
async def test_an_order_for_what_is_not_there_is_refused(plane: Console, operator: Caller, gone: str) -> None:
    instance = str((await operator.order())["id"])
    if gone == "deleted":
        await operator("DELETE", f"instances/{instance}")
    else:
        instance = "izzzzzzzzzzz"
    order = AccessOrder(instance_id=instance, principal="User:root", address="192.0.2.7", acls=(STORED,))
    assert "no instance" in plane.user_orders.carry_out(order).refusal


async def test_passwords_by_kafkas_own_tools_are_the_users_of_the_api(
    plane: Console, operator: Caller
) -> None:
    instance = str((await operator.order())["id"])
    await operator("POST", f"instances/{instance}/users", json={"name": "app", "superuser": True})
    who = {"instance_id": instance, "principal": "User:app", "address": "192.0.2.7"}
    sha_256, sha_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
    kept = credential(sha_512, "chosen", b"salt", 8192)
    given = (UserCredential("app", kept), UserCredential("new", kept))
    assert not plane.user_orders.carry_out(AccessOrder(**who, credentials=given)).refusal
    app, new = _stored(plane, instance).users
    assert app.superuser and app.credentials[1] == kept and app.credentials[0].mechanism is sha_256
    assert not new.superuser and new.credentials == (kept,)
    listed = (await operator("GET", f"instances/{instance}/users")).json()["items"]
    assert [one["mechanisms"] for one in listed] == [
        ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        ["SCRAM-SHA-512"],
    ]
    gone = AccessOrder(**who, forgotten=(UserMechanism("new", sha_512), UserMechanism("app", sha_512)))
    assert not plane.user_orders.carry_out(gone).refusal
    (app,) = _stored(plane, instance).users
    assert [one.mechanism for one in app.credentials] == [sha_256]
    assert (
        "no SCRAM-SHA-512"
        in plane.user_orders.carry_out(AccessOrder(**who, forgotten=(UserMechanism("app", sha_512),))).refusal
    )
    wrong = AccessOrder(**who, credentials=(given[1], UserCredential("a b", kept)))
    assert "name" in plane.user_orders.carry_out(wrong).refusal
    assert len(_stored(plane, instance).users) == 1, "all of it, or nothing"
    many = tuple(UserCredential(f"u{number}", kept) for number in range(USERS_MAX))
    assert str(USERS_MAX) in plane.user_orders.carry_out(AccessOrder(**who, credentials=many)).refusal
