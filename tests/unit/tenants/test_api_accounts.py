"""Logins, keys, tenants, roles."""

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import ColumnElement

from tenants import credentials
from tenants.console import Console
from tenants.store import schema
from traffic.login_limit import FAILURES_MAX_PER_PAIR

from .conftest import OPERATOR_KEY, ORDER, Caller


@pytest.fixture
async def password(plane: Console) -> str:
    return plane.accounts.reset_password("test", "admin")


def _is(key_id: str) -> ColumnElement[bool]:
    return schema.api_keys.c.id == key_id


async def _log_in(client: httpx.AsyncClient, password: str) -> dict[str, str]:
    answer = await client.post("/v1/session", json={"user": "admin", "password": password})
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


def test_only_the_first_start_draws_a_password(
    make_console: Callable[..., Console], database_url: str
) -> None:
    first = make_console(url=database_url)
    made = first.bootstrap(OPERATOR_KEY)
    assert made.admin_password is not None
    assert len(made.admin_password) == 16
    assert first.bootstrap("another key").admin_password is None
    assert first.accounts.caller_of_key("another key", None) is not None
    # where other control processes may share the database, theirs stays
    assert (first.accounts.caller_of_key(OPERATOR_KEY, None) is not None) == first.store.is_shared
    first.close()


def test_secrets_are_stored_hashed(plane: Console) -> None:
    password = plane.accounts.reset_password("test", "admin")
    with plane.store.read() as connection:
        everything = str(
            [list(connection.execute(table.select())) for table in (schema.users, schema.api_keys)]
        )
    assert password not in everything
    assert OPERATOR_KEY not in everything
    assert "$argon2id$" in everything
    assert credentials.sha256(OPERATOR_KEY) in everything


async def test_a_session_reads_with_its_cookie_and_writes_with_the_csrf_token(
    client: httpx.AsyncClient, password: str
) -> None:
    made = await _log_in(client, password)
    assert (made["user"], made["role"], made["tenant"]) == ("admin", "admin", "default")
    assert (await client.get("/v1/session")).json() == made
    assert (await client.get("/v1/me")).json()["kind"] == "session"
    refused = await client.post("/v1/instances", json=ORDER)
    assert refused.status_code == 403
    assert "X-CSRF-Token" in refused.json()["detail"]
    wrong = await client.post("/v1/instances", json=ORDER, headers={"X-CSRF-Token": "e" * 64})
    assert wrong.status_code == 403
    headers = {"X-CSRF-Token": made["csrf_token"]}
    assert (await client.post("/v1/instances", json=ORDER, headers=headers)).status_code == 201
    assert (await client.delete("/v1/session", headers=headers)).status_code == 204
    assert (await client.get("/v1/session")).status_code == 401


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(
    client: httpx.AsyncClient, password: str
) -> None:
    answer = await client.post("/v1/session", json={"user": "admin", "password": password})
    cookie = answer.headers["set-cookie"]
    assert "portico_session=" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie


async def test_the_cookie_is_secure_over_https(
    plane: Console, client: httpx.AsyncClient, password: str
) -> None:
    answer = await client.post("https://console/v1/session", json={"user": "admin", "password": password})
    assert "Secure" in answer.headers["set-cookie"]


async def test_wrong_user_and_wrong_password_look_the_same_and_are_limited(
    client: httpx.AsyncClient, password: str
) -> None:
    bodies = []
    for user in ("admin", "nobody"):
        answer = await client.post("/v1/session", json={"user": user, "password": "wrong"})
        assert answer.status_code == 401
        bodies.append(answer.json() | {"request_id": None})
    assert bodies[0] == bodies[1]
    for _ in range(FAILURES_MAX_PER_PAIR - 1):
        await client.post("/v1/session", json={"user": "admin", "password": "wrong"})
    limited = await client.post("/v1/session", json={"user": "admin", "password": password})
    assert limited.status_code == 429
    assert 0 < int(limited.headers["retry-after"]) <= 61


async def test_a_reset_password_ends_sessions(
    client: httpx.AsyncClient, operator: Caller, password: str
) -> None:
    await _log_in(client, password)
    answer = await operator("POST", "members/admin/reset-password")
    assert answer.status_code == 200
    assert (await client.get("/v1/session")).status_code == 401
    await _log_in(client, answer.json()["password"])
    assert (await operator("POST", "members/nobody/reset-password")).status_code == 404


async def test_a_wrong_key_is_not_made_up_for_by_a_cookie(client: httpx.AsyncClient, password: str) -> None:
    await _log_in(client, password)
    for header in ("Bearer wrong", "Bearer", "Basic YTpi", ""):
        answer = await client.get("/v1/me", headers={"Authorization": header})
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_keys_secret_is_shown_once(operator: Caller) -> None:
    made = (await operator("POST", "keys", json={"name": "deploy", "role": "viewer"})).json()
    assert made["secret"].startswith("portico_")
    listed = (await operator("GET", "keys")).json()["items"]
    mine = next(one for one in listed if one["id"] == made["id"])
    assert "secret" not in mine
    assert (mine["name"], mine["role"], mine["last_used_at"]) == ("deploy", "viewer", None)


async def test_a_keys_time_ends(client: httpx.AsyncClient, operator: Caller, plane: Console) -> None:
    made = (await operator("POST", "keys", json={"name": "ci", "valid_hours": 1})).json()
    program = Caller(client, made["secret"])
    assert (await program("GET", "me")).status_code == 200
    with plane.store.write() as connection:
        connection.execute(schema.api_keys.update().values(expires_at_ms=1).where(_is(made["id"])))
    plane.accounts._memory.end([credentials.sha256(made["secret"])])
    assert (await program("GET", "me")).status_code == 401


async def test_a_rotated_key_is_good_with_either_secret_for_a_while(
    client: httpx.AsyncClient, operator: Caller
) -> None:
    made = (await operator("POST", "keys", json={"name": "ci"})).json()
    rotate = f"keys/{made['id']}/rotate"
    second = (await operator("POST", rotate, json={"overlap_hours": 1})).json()
    assert second["id"] == made["id"]
    for secret in (made["secret"], second["secret"]):
        assert (await Caller(client, secret)("GET", "me")).json()["name"] == "ci"
    third = (await operator("POST", rotate, json={"overlap_hours": 0})).json()
    answers = [await Caller(client, one["secret"])("GET", "me") for one in (made, second, third)]
    assert [one.status_code for one in answers] == [401, 401, 200]
    assert (await operator("DELETE", f"keys/{made['id']}")).status_code == 204
    assert (await Caller(client, third["secret"])("GET", "me")).status_code == 401
    assert (await operator("POST", rotate, json={})).status_code == 404


async def test_the_machines_own_key_is_not_revoked(operator: Caller) -> None:
    keys = (await operator("GET", "keys")).json()["items"]
    [local] = [one for one in keys if one["id"].startswith("local")]
    assert (await operator("DELETE", f"keys/{local['id']}")).status_code == 409
    assert (await operator("POST", f"keys/{local['id']}/rotate", json={})).status_code == 409
    assert (await operator("GET", "me")).json()["role"] == "admin"


async def test_a_revoked_key_is_dead_at_once(client: httpx.AsyncClient, operator: Caller) -> None:
    owner = await operator.tenant("acme")
    [key] = (await owner("GET", "keys")).json()["items"]
    assert key["last_used_at"] is not None
    assert (await owner("DELETE", f"keys/{key['id']}")).status_code == 204
    assert (await owner("GET", "me")).status_code == 401


async def test_roles(operator: Caller) -> None:
    owner = await operator.tenant("acme")
    viewer = await operator.tenant("acme", "viewer")
    await owner.order()
    assert (await viewer("GET", "instances/shop")).status_code == 200
    for method, path in (("DELETE", "instances/shop"), ("POST", "instances"), ("POST", "keys")):
        answer = await viewer(method, path, content=b"not even JSON")
        assert answer.status_code == 403, path
    for method, path, body in (
        ("GET", "tenants", None),
        ("POST", "tenants", {"name": "x"}),
        ("GET", "quota", None),
        ("GET", "fleet/stream", None),
        ("GET", "brokers", None),
        ("POST", "keys", {"name": "k", "role": "operator"}),
    ):
        assert (await owner(method, path, json=body)).status_code == 403, path


async def test_only_operators_name_a_tenant(operator: Caller) -> None:
    owner = await operator.tenant("acme")
    await operator.tenant("other")
    assert (await owner("GET", "instances?tenant=acme")).status_code == 200
    there = await owner("GET", "instances?tenant=other")
    absent = await owner("GET", "instances?tenant=absent")
    everyone = await owner("GET", "instances?tenant=*")
    assert [one.status_code for one in (there, absent, everyone)] == [403, 403, 403]
    assert there.json() | {"request_id": None} == absent.json() | {"request_id": None}
    assert (await operator("GET", "instances?tenant=absent")).status_code == 404


async def test_tenants_and_their_instances(operator: Caller) -> None:
    await operator("POST", "tenants", json={"name": "acme"})
    assert (await operator("POST", "tenants", json={"name": "acme"})).status_code == 409
    assert (await operator("POST", "tenants", json={"name": "not a name"})).status_code == 422
    made = await operator("POST", "instances?tenant=acme", json=ORDER)
    assert made.json()["tenant"] == "acme"
    await operator.order("mine")
    everyone = (await operator("GET", "instances?tenant=*")).json()["items"]
    assert [(one["tenant"], one["name"]) for one in everyone] == [("acme", "shop"), ("default", "mine")]
    assert [one["name"] for one in (await operator("GET", "instances")).json()["items"]] == ["mine"]
    assert (await operator("GET", "instances/shop")).status_code == 404
    assert (await operator("GET", "instances/shop?tenant=acme")).status_code == 200
    assert (await operator("GET", f"instances/{made.json()['id']}")).status_code == 200
    listed = {one["name"]: one["instances"] for one in (await operator("GET", "tenants")).json()["items"]}
    assert listed == {"acme": 1, "default": 1, "system": 1}


async def test_every_write_is_in_the_audit_log(operator: Caller) -> None:
    owner = await operator.tenant("acme")
    await owner.order()
    await owner("PATCH", "instances/shop", json={"capacity_bytes": 2_000_000_000})
    await owner("PUT", "instances/shop/whitelist", json={"allow_all": True})
    await owner("DELETE", "instances/shop")
    page = (await operator("GET", "audit?limit=3")).json()
    assert [one["action"] for one in page["items"]] == ["instance.delete", "whitelist.set", "instance.change"]
    assert page["items"][2]["detail"] == "capacity_bytes: 1000000000 -> 2000000000"
    assert {one["actor"] for one in page["items"]} == {"key:owner-key"}
    rest = (await operator("GET", f"audit?tenant=acme&cursor={page['next_cursor']}")).json()
    actions = [one["action"] for one in rest["items"]]
    assert actions == ["instance.create", "key.create", "tenant.create"]
    assert [one["instance_name"] for one in rest["items"]] == ["shop", None, None]
    assert {one["instance_name"] for one in page["items"]} == {"shop"}
    assert rest["next_cursor"] is None


async def test_the_audit_log_names_nobody_elses_instance(operator: Caller) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    made = await owner.order(name="secret-plans")
    role = {"group": made["id"], "tenant": "other", "role": "developer"}
    assert (await operator("POST", "group-roles", json=role)).is_success
    for who in (stranger, operator):
        entry = (await who("GET", "audit?tenant=other&limit=1")).json()["items"][0]
        assert (entry["subject"], entry["instance_name"]) == (made["id"], None)
