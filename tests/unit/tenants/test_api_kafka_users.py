"""Users of an instance in the API: secrets are shown once, kept as verifiers, and told to the gateways."""

import json
from typing import Any

import httpx

from contracts.server_names import NamedPort
from contracts.specs import Listener
from contracts.users import ITERATIONS, Mechanism, SecurityProtocol, credential
from tenants.api.views import by_name
from tenants.console import Console
from tenants.rules.kafka_users import USERS_MAX
from tenants.rules.model import Instance, spec_of
from tenants.store import instances

from .conftest import OPERATOR_KEY, ORDER, Caller


def _stored(plane: Console, instance_id: str) -> Instance:
    with plane.store.read() as connection:
        found = instances.by_id(connection, instance_id)
    assert found is not None
    return found


async def _audited(operator: Caller, instance_id: str) -> list[tuple[str, str]]:
    entries = (await operator("GET", "audit")).json()["items"]
    return [(one["action"], one["detail"]) for one in entries if one["subject"] == instance_id]


async def test_a_password_that_was_drawn_is_shown_once_and_is_what_the_gateways_check(
    plane: Console, operator: Caller
) -> None:
    instance = str((await operator.order())["id"])
    made = await operator("POST", f"instances/{instance}/users", json={"name": "app"})
    assert made.status_code == 201 and "etag" in made.headers
    password = made.json()["password"]
    assert len(password) >= 16
    assert made.json()["mechanisms"] == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    listed = await operator("GET", f"instances/{instance}/users")
    assert [one["name"] for one in listed.json()["items"]] == ["app"] and password not in listed.text
    (user,) = spec_of(_stored(plane, instance)).users
    assert [one.mechanism for one in user.credentials] == [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512]
    for kept in user.credentials:
        assert kept == credential(kept.mechanism, password, kept.salt) and kept.iterations == ITERATIONS
    assert user.credentials[0].salt != user.credentials[1].salt
    assert ("user.create", "app") in await _audited(operator, instance)
    assert password not in json.dumps((await operator("GET", "audit")).json())


async def test_a_password_is_changed_and_a_user_deleted(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/users"
    chosen = await operator("POST", path, json={"name": "app", "password": "chosen password"})
    assert chosen.status_code == 201 and chosen.json()["password"] is None
    before = _stored(plane, instance)
    again = await operator("POST", f"{path}/app/password", json={})
    assert again.status_code == 200 and again.json()["password"]
    after = _stored(plane, instance)
    assert after.users != before.users and after.revision > before.revision
    assert (await operator("POST", f"{path}/other/password", json={})).status_code == 404
    assert (await operator("DELETE", f"{path}/app")).status_code == 204
    assert (await operator("DELETE", f"{path}/app")).status_code == 404
    assert _stored(plane, instance).users == ()
    actions = [action for action, _ in await _audited(operator, instance)]
    assert actions[:3] == ["user.delete", "user.password", "user.create"]


async def test_what_is_no_user_is_refused_by_its_field(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "ä"}, "name"),
        ({"name": "app", "password": "short"}, "password"),
        ({"name": "app", "password": "p" * 257}, "password"),
        ({"name": "app", "password": "with\nnewline"}, "password"),
        ({"name": "app", "password": "wörter sind lang"}, "password"),
        ({"name": "app", "mechanism": "PLAIN"}, "mechanism"),
    ]
    for body, field in wrong:
        refused = await operator("POST", f"instances/{instance}/users", json=body)
        assert refused.status_code == 422, body
        assert field in [one["field"] for one in refused.json()["errors"]]
    assert _stored(plane, instance).users == ()


async def test_names_are_taken_once_and_users_are_bounded(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/users"
    assert (await operator("POST", path, json={"name": "app"})).status_code == 201
    assert (await operator("POST", path, json={"name": "app"})).status_code == 409
    with plane.store.write() as connection:
        (user,) = _stored(plane, instance).users
        many = tuple(type(user)(name=f"u{n:03}", credentials=user.credentials) for n in range(USERS_MAX))
        instances.save(connection, _stored(plane, instance).with_(users=many), 1)
    full = await operator("POST", path, json={"name": "app"})
    assert full.status_code == 409 and str(USERS_MAX) in full.json()["detail"]


async def test_users_are_the_tenants_own_and_viewers_change_none(operator: Caller) -> None:
    owner, viewer = await operator.tenant("acme"), await operator.tenant("acme", "viewer")
    theirs = (await operator.order())["id"]
    for method, path in (("GET", ""), ("POST", ""), ("POST", "/app/password"), ("DELETE", "/app")):
        body = {"json": {"name": "app"} if path == "" else {}} if method == "POST" else {}
        assert (await owner(method, f"instances/{theirs}/users{path}", **body)).status_code == 404
    own = (await owner.order(name="own"))["id"]
    assert (await owner("POST", f"instances/{own}/users", json={"name": "app"})).status_code == 201
    assert (await viewer("GET", f"instances/{own}/users")).status_code == 200
    assert (await viewer("POST", f"instances/{own}/users", json={"name": "b"})).status_code == 403


async def test_whoever_has_seen_an_older_state_changes_nothing(
    client: httpx.AsyncClient, operator: Caller
) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/users"
    seen = (await operator("GET", path)).headers["etag"]
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "If-Match": seen}
    told = [
        (await client.post(f"/v1/{path}", json={"name": name}, headers=headers)).status_code for name in "ab"
    ]
    assert told == [201, 412]


async def test_ways_of_coming_in_have_vports_of_their_own(plane: Console, operator: Caller) -> None:
    made: dict[str, Any] = await operator.order()
    assert made["security_protocols"] == ["plain"] and len(made["endpoints"]) == 1
    path = f"instances/{made['id']}"
    both = {"security_protocols": ["sasl_plaintext", "plain", "plain"]}
    changed = (await operator("PATCH", path, json=both)).json()
    assert changed["security_protocols"] == ["plain", "sasl_plaintext"]
    plain, sasl = changed["endpoints"]
    assert plain["bootstrap_servers"] == made["bootstrap_servers"] == changed["bootstrap_servers"]
    assert sasl["security_protocol"] == "sasl_plaintext"
    assert sasl["bootstrap_servers"] != plain["bootstrap_servers"]
    told = spec_of(_stored(plane, made["id"]))
    ports = [one.port for one in told.listeners]
    assert len(set(ports)) == len(ports) and told.security_protocols == (
        SecurityProtocol.PLAIN,
        SecurityProtocol.SASL_PLAINTEXT,
    )
    only = {"security_protocols": ["sasl_plaintext"]}
    changed = (await operator("PATCH", path, json=only)).json()
    assert changed["endpoints"] == [sasl] and changed["bootstrap_servers"] == sasl["bootstrap_servers"]
    left = spec_of(_stored(plane, made["id"])).listeners
    assert {one.security_protocol for one in left} == {SecurityProtocol.SASL_PLAINTEXT}
    for wrong in ([], ["ssl"], ["plain"] * 9):
        refused = await operator("PATCH", path, json={"security_protocols": wrong})
        assert refused.status_code == 422


def test_who_speaks_tls_is_told_a_name_where_one_port_serves_by_names() -> None:
    listeners = [
        Listener(
            node_id=None, bind_host="::1", advertised_host="::1", port=20_000 + number, security_protocol=one
        )
        for number, one in enumerate(SecurityProtocol)
    ]
    place = NamedPort("kafka.example.com", 9093)
    told = {one.security_protocol: by_name(place, "iabcdefghijk", one) for one in listeners}
    name = "iabcdefghijk.kafka.example.com:9093"
    assert told == {
        SecurityProtocol.PLAIN: None,
        SecurityProtocol.SASL_PLAINTEXT: None,
        SecurityProtocol.TLS: f"tls-{name}",
        SecurityProtocol.SASL_SSL: name,
    }
    assert {by_name(None, "iabcdefghijk", one) for one in listeners} == {None}


async def test_tls_is_not_sold_where_gateways_have_no_certificate(operator: Caller) -> None:
    made = await operator.order()
    for protocol in ("tls", "sasl_ssl"):
        body = {"security_protocols": ["plain", protocol]}
        refused = await operator("PATCH", f"instances/{made['id']}", json=body)
        assert refused.status_code == 409
        (fault,) = refused.json()["errors"]
        assert fault["field"] == "security_protocols" and "--tls-cert" in fault["message"]
        ordered = await operator("POST", "instances", json={**ORDER, "name": protocol, **body})
        assert ordered.status_code == 409
