"""People of a tenant: invited once, with roles, passwords and sessions; they see no other tenant."""

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tenants.app import create_console_app
from tenants.console import Console
from tenants.rules.permissions import OPEN, PERMISSIONS, Permission, Role, operations
from tests.openapi import document
from traffic.login_limit import FAILURES_MAX_PER_PAIR

from .conftest import ORDER, Caller

PASSWORD = "correct horse battery staple"
Browse = Callable[[], "Browser"]


class Browser:
    """A browser: a cookie, and the token that its page sends."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self._token = ""

    async def __call__(self, method: str, path: str, **more: object) -> httpx.Response:
        headers = {"X-CSRF-Token": self._token}
        answer = await self.client.request(method, f"/v1/{path}", headers=headers, **more)  # type: ignore[arg-type]
        if answer.is_success and answer.content and isinstance(answer.json(), dict):
            self._token = answer.json().get("csrf_token", self._token)
        return answer

    async def log_in(self, user: str, password: str = PASSWORD) -> httpx.Response:
        return await self("POST", "session", json={"user": user, "password": password})


@pytest.fixture
async def browse(plane: Console) -> AsyncIterator[Browse]:
    """Makes browsers, each with cookies of its own."""
    app, made = create_console_app(plane), []

    def browser() -> Browser:
        transport = httpx.ASGITransport(app=app)
        made.append(httpx.AsyncClient(transport=transport, base_url="http://console"))
        return Browser(made[-1])

    yield browser
    for one in made:
        await one.aclose()


async def invited(owner: Caller, browse: Browse, name: str, role: str = "owner", **query: str) -> Browser:
    """Somebody who has accepted an invitation."""
    made = await owner("POST", "invitations", json={"name": name, "role": role}, params=query)
    assert made.status_code == 201, made.text
    browser = browse()
    answer = await browser(
        "POST", "invitation/accept", json={"secret": made.json()["secret"], "password": PASSWORD}
    )
    assert answer.status_code == 201, answer.text
    return browser


async def test_an_invitation_is_good_once(operator: Caller, browse: Browse) -> None:
    owner = await operator.tenant("acme")
    made = (await owner("POST", "invitations", json={"name": "ann", "role": "developer"})).json()
    assert (made["user"], made["role"], made["tenant"]) == ("ann@acme", "developer", "acme")
    browser, link = browse(), {"secret": made["secret"]}
    shown = (await browser("POST", "invitation", json=link)).json()
    assert (shown["user"], shown["tenant"], shown["role"]) == ("ann@acme", "acme", "developer")
    short = await browser("POST", "invitation/accept", json={**link, "password": "short"})
    assert short.status_code == 422
    assert "10 to 256" in short.json()["errors"][0]["message"]
    joined = await browser("POST", "invitation/accept", json={**link, "password": PASSWORD})
    assert (joined.json()["user"], joined.json()["role"]) == ("ann@acme", "developer")
    assert (await browser("GET", "session")).status_code == 200
    again = await browse()("POST", "invitation/accept", json={**link, "password": PASSWORD})
    assert again.status_code == 404
    assert (await owner("GET", "invitations")).json()["items"] == []
    [member] = (await owner("GET", "members")).json()["items"]
    assert (member["user"], member["role"]) == ("ann@acme", "developer")
    assert member["last_login_at"] is not None
    assert (await owner("POST", "invitations", json={"name": "ann"})).status_code == 409


async def test_what_ends_an_invitation(operator: Caller, browse: Browse) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    first, second = [(await owner("POST", "invitations", json={"name": "ann"})).json() for _ in range(2)]
    assert (await browse()("POST", "invitation", json={"secret": first["secret"]})).status_code == 404
    [listed] = (await owner("GET", "invitations")).json()["items"]
    assert listed["id"] == second["id"]
    assert "secret" not in listed
    assert (await stranger("GET", "invitations")).json()["items"] == []
    assert (await stranger("DELETE", f"invitations/{second['id']}")).status_code == 404
    assert (await owner("DELETE", f"invitations/{second['id']}")).status_code == 204
    assert (await browse()("POST", "invitation", json={"secret": second["secret"]})).status_code == 404


async def test_links_are_not_guessed(operator: Caller, browse: Browse) -> None:
    made = (await operator("POST", "invitations", json={"name": "ann"})).json()
    browser = browse()
    for _ in range(FAILURES_MAX_PER_PAIR):
        assert (await browser("POST", "invitation", json={"secret": "guess"})).status_code == 404
    limited = await browser("POST", "invitation", json={"secret": made["secret"]})
    assert limited.status_code == 429


async def test_a_member_sees_its_own_tenant_and_no_other(operator: Caller, browse: Browse) -> None:
    owner, other = await operator.tenant("acme"), await operator.tenant("other")
    await owner.order("ours")
    await other.order("theirs")
    ann = await invited(owner, browse, "ann")
    eve = await invited(other, browse, "ann")  # the same name: nobody learns that it is taken elsewhere
    assert [one["name"] for one in (await ann("GET", "instances")).json()["items"]] == ["ours"]
    assert [one["user"] for one in (await ann("GET", "members")).json()["items"]] == ["ann@acme"]
    for path in ("instances?tenant=other", "members?tenant=other", "audit?tenant=other"):
        assert (await ann("GET", path)).status_code == 403, path
    for path in ("instances", "members", "keys", "audit", "invitations", "session"):
        text = (await eve("GET", path)).text
        assert "acme" not in text
        assert "ours" not in text
    foreign = await ann("DELETE", "members/ann@other")
    missing = await ann("DELETE", "members/bob@other")
    assert foreign.status_code == missing.status_code == 404
    assert foreign.json()["detail"].replace("ann", "bob") == missing.json()["detail"]
    assert (await eve("GET", "me")).status_code == 200


async def test_what_roles_may(operator: Caller, browse: Browse) -> None:
    owner = await operator.tenant("acme")
    shop = await owner.order()
    viewer = await invited(owner, browse, "vic", "viewer")
    developer = await invited(owner, browse, "dev", "developer")
    assert (await viewer("GET", "instances/shop")).status_code == 200
    for who, path, body in (
        (viewer, "instances/shop/topics", {"name": "t"}),
        (viewer, "keys", {"name": "k"}),
        (developer, "instances", {**ORDER, "name": "second"}),
        (developer, "keys", {"name": "k"}),
        (developer, "invitations", {"name": "x"}),
    ):
        answer = await who("POST", path, json=body)
        assert answer.status_code == 403, path
        assert "your role" in answer.json()["detail"]
    for who in (viewer, developer):
        for path in ("audit", "members", "tenants", "brokers", "quota"):
            assert (await who("GET", path)).status_code == 403, path
        assert (await who("DELETE", "instances/shop")).status_code == 403
    # Brokers are asked, and there are none here: a developer may.
    assert (await developer("POST", "instances/shop/topics", json={"name": "t"})).status_code == 503
    assert (await owner("GET", "instances/shop")).json()["revision"] == shop["revision"]


async def test_a_role_is_changed_and_holds_at_once(operator: Caller, browse: Browse) -> None:
    owner = await operator.tenant("acme")
    ann, bob = await invited(owner, browse, "ann"), await invited(owner, browse, "bob", "viewer")
    assert (await bob("POST", "instances", json=ORDER)).status_code == 403
    changed = await ann("PATCH", "members/bob", json={"role": "owner"})
    assert (changed.json()["user"], changed.json()["role"]) == ("bob@acme", "owner")
    assert (await bob("POST", "instances", json=ORDER)).status_code == 201
    own = await ann("PATCH", "members/ann", json={"role": "viewer"})
    assert own.status_code == 409
    assert (await ann("PATCH", "members/bob", json={"role": "operator"})).status_code == 403
    assert (await ann("PATCH", "members/bob", json={"role": "king"})).status_code == 422
    assert (await ann("DELETE", "members/bob")).status_code == 204
    assert (await bob("GET", "me")).status_code == 401
    assert (await browse().log_in("bob@acme")).status_code == 401


async def test_operators_are_not_for_tenants_to_see_or_change(operator: Caller, browse: Browse) -> None:
    owner = await operator.tenant("default")
    ops = await invited(operator, browse, "ops", "operator")
    assert (await ops("GET", "tenants")).status_code == 200
    assert (await owner("GET", "members")).json()["items"] == []
    assert all(one["role"] != "admin" for one in (await owner("GET", "keys")).json()["items"])
    for name in ("ops", "admin"):
        assert (await owner("DELETE", f"members/{name}")).status_code == 404
        assert (await owner("POST", f"members/{name}/reset-password")).status_code == 404
        assert (await ops("POST", f"members/{name}/reset-password")).status_code == 403
    assert (await owner("POST", "invitations", json={"name": "x", "role": "operator"})).status_code == 403
    assert (await ops("POST", "invitations", json={"name": "x", "role": "operator"})).status_code == 403
    assert (await ops("POST", "keys", json={"name": "k", "role": "operator"})).status_code == 403
    elsewhere = {"name": "x", "role": "operator"}
    assert (await operator("POST", "invitations?tenant=system", json=elsewhere)).status_code == 409
    assert (await operator("DELETE", "members/admin")).status_code == 409
    assert (await operator("DELETE", "members/ops")).status_code == 204


async def test_ones_own_password_and_sessions(operator: Caller, browse: Browse) -> None:
    owner = await operator.tenant("acme")
    here, there, elsewhere = await invited(owner, browse, "ann"), browse(), browse()
    for browser in (there, elsewhere):
        assert (await browser.log_in("ann@acme")).status_code == 201
    listed = (await here("GET", "sessions")).json()["items"]
    assert [one["current"] for one in listed].count(True) == 1
    assert len(listed) == 3
    [own] = [one for one in (await there("GET", "sessions")).json()["items"] if one["current"]]
    assert (await here("DELETE", f"sessions/{own['id']}")).status_code == 204
    assert (await there("GET", "session")).status_code == 401
    assert (await here("DELETE", "sessions/s0000")).status_code == 404
    change = {"password": "not it", "new_password": "another one, quite long"}
    wrong = await here("POST", "session/password", json=change)
    assert wrong.status_code == 409
    assert wrong.json()["errors"][0]["field"] == "password"
    assert (await elsewhere("GET", "session")).status_code == 200
    assert (await here("POST", "session/password", json={**change, "password": PASSWORD})).status_code == 204
    assert (await here("GET", "session")).status_code == 200
    assert (await elsewhere("GET", "session")).status_code == 401
    assert (await browse().log_in("ann@acme")).status_code == 401
    assert (await browse().log_in("ann@acme", change["new_password"])).status_code == 201
    assert (await here("DELETE", "sessions")).status_code == 204
    assert len((await here("GET", "sessions")).json()["items"]) == 1
    # A page of another site has the cookie, and not the token.
    forged = await here.client.post("/v1/session/password", json=change)
    assert forged.status_code == 403
    assert (await owner("GET", "sessions")).status_code == 401  # a key has none


async def test_wrong_passwords_are_in_the_members_tenants_log(operator: Caller, browse: Browse) -> None:
    owner = await operator.tenant("acme")
    await invited(owner, browse, "ann")
    for user in ("ann@acme", "nobody@acme", "admin"):
        assert (await browse().log_in(user, "wrong")).status_code == 401
    entries = (await owner("GET", "audit")).json()["items"]
    assert [one["subject"] for one in entries if one["action"] == "session.refuse"] == ["ann@acme"]
    assert "ann@acme" not in (await (await operator.tenant("other"))("GET", "audit")).text


async def test_a_tenants_audit_log_names_no_operator(operator: Caller) -> None:
    owner = await operator.tenant("acme")
    await owner.order()
    await operator("PATCH", "instances/shop?tenant=acme", json={"capacity_bytes": 2_000_000_000})
    theirs = (await owner("GET", "audit")).json()["items"]
    assert theirs[0]["action"] == "instance.change"
    assert (theirs[0]["actor"], theirs[0]["address"]) == ("operator", None)
    assert {one["tenant"] for one in theirs} == {"acme"}
    assert (await operator("POST", "invitations?tenant=acme", json={"name": "ann"})).status_code == 201
    assert (await owner("GET", "invitations")).json()["items"][0]["invited_by"] == "operator"
    await operator("PATCH", "instances/shop?tenant=acme", json={"capacity_bytes": 3_000_000_000})
    [newest] = (await operator("GET", "audit?limit=1")).json()["items"]
    assert newest["actor"] == "operator:key:local operator key"
    default = await operator.tenant("default")
    text = (await default("GET", "audit")).text
    assert "acme" not in text
    assert "local operator key" not in text


def test_every_operation_is_in_the_table_of_permissions() -> None:
    found = {
        f"{method.upper()} {path}": operation.get("x-permission")
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    served = set(found) | {"GET /v1/openapi.json"}
    table = {name: permission.value for name, permission in operations()}
    assert served - OPEN == set(table)
    assert {name: said for name, said in found.items() if name not in OPEN} == table


async def test_the_pages_are_told_what_a_role_may(operator: Caller) -> None:
    roles = (await operator("GET", "roles")).json()
    told = {one["role"]: set(one["permissions"]) for one in roles["items"]}
    assert told == {role.value: set(PERMISSIONS[role]) for role in Role}
    assert {one["permission"] for one in roles["meanings"]} == set(Permission)
    viewer = await operator.tenant("acme", "viewer")
    assert (await viewer("GET", "me")).json()["permissions"] == ["read"]
