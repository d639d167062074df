"""People sign in by an identity provider: as who they are there, in the browser that began."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from tenants import oidc_provider
from tenants.app import create_console_app
from tenants.console import Console
from tenants.rules.oidc import attempt_of
from tenants.rules.oidc_settings import OidcSettings
from tests.unit.gateway.tokens import elliptic, rsa
from traffic.login_limit import FAILURES_MAX_PER_PAIR

from .conftest import Caller
from .provider import CLIENT, CONSOLE, ISSUER, SECRET, Provider
from .test_api_members import Browser, invited

SETTINGS = OidcSettings(issuer=ISSUER, client_id=CLIENT, client_secret=SECRET, console_url=CONSOLE)
Browse = Callable[[], Browser]
pytestmark = pytest.mark.parametrize("redis_url", ["alone"], indirect=True)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def plane(make_console: Callable[..., Console], provider: Provider) -> AsyncIterator[Console]:
    console = make_console(oidc=SETTINGS, to_provider=httpx.ASGITransport(app=provider.app))
    yield console
    console.close()


@pytest.fixture
async def browse(plane: Console) -> AsyncIterator[Browse]:
    app, made = create_console_app(plane), []

    def browser() -> Browser:
        made.append(httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=CONSOLE))
        return Browser(made[-1])

    yield browser
    for one in made:
        await one.aclose()


@pytest.fixture
async def acme(operator: Caller) -> Caller:
    """The owner of a tenant into which a group leads."""
    owner = await operator.tenant("acme")
    await let_in(operator, "kafka-acme", "acme", "developer")
    return owner


async def let_in(operator: Caller, group: str, tenant: str, role: str) -> str:
    made = await operator("POST", "group-roles", json={"group": group, "tenant": tenant, "role": role})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def begin(browser: Browser) -> str:
    begun = await browser("POST", "sign-in")
    assert begun.status_code == 201, begun.text
    return str(begun.json()["url"])


async def sign_in(browser: Browser, provider: Provider, **claims: Any) -> httpx.Response:
    answer = provider.sign_in(await begin(browser), **claims)
    return await browser("POST", "sign-in/answer", json=answer)


async def test_who_is_of_a_group_is_a_member(
    acme: Caller, browse: Browse, provider: Provider, operator: Caller
) -> None:
    bob = browse()
    offered = (await bob("GET", "sign-in")).json()
    assert (offered["provider"], offered["trouble"]) == ("id.example.com", None)
    assert offered["end_session_url"].startswith(f"{ISSUER}/logout?client_id=portico&")
    entered = await sign_in(bob, provider)
    assert entered.status_code == 201, entered.text
    assert (entered.json()["user"], entered.json()["role"]) == ("bob@acme", "developer")
    assert "httponly" in entered.headers["set-cookie"].lower()
    assert (await bob("GET", "instances")).status_code == 200
    [member] = (await acme("GET", "members")).json()["items"]
    assert (member["user"], member["by_groups"]) == ("bob@acme", True)
    log = (await acme("GET", "audit")).json()["items"]
    assert {"member.join", "session.create"} <= {one["action"] for one in log}
    again = await sign_in(browse(), provider, preferred_username="somebody else")
    assert again.json()["user"] == "bob@acme"
    # By no password, not even one that an owner would give.
    assert (await browse().log_in("bob@acme", "!")).status_code == 401
    assert (await acme("POST", "members/bob/reset-password")).status_code == 409
    assert (await acme("PATCH", "members/bob", json={"role": "owner"})).status_code == 409
    changed = await bob("POST", "session/password", json={"password": "x", "new_password": "y" * 12})
    assert changed.status_code in (409, 422)
    assert (await bob("DELETE", "session")).status_code == 204
    assert (await bob("GET", "session")).status_code == 401


async def test_a_name_or_mail_of_a_provider_is_nobodys_proof(
    acme: Caller, browse: Browse, provider: Provider
) -> None:
    """Whoever may choose names there would be whom they like here."""
    await invited(acme, browse, "bob")
    await acme("POST", "invitations", json={"name": "bob-2"})
    for claims in ({"sub": "u-9"}, {"sub": "u-9", "email": "bob@acme", "email_verified": True}):
        entered = await sign_in(browse(), provider, **claims)
        assert entered.json()["user"] == "bob-3@acme"
    odd = await sign_in(browse(), provider, sub="u-10", preferred_username="../é\0 x@y")
    assert odd.json()["user"] == "x@acme"
    admin = await sign_in(browse(), provider, sub="u-11", preferred_username="admin")
    assert (admin.json()["user"], admin.json()["role"]) == ("admin@acme", "developer")


async def test_groups_say_the_role_and_tenant(
    acme: Caller, operator: Caller, browse: Browse, provider: Provider
) -> None:
    nobody = await sign_in(browse(), provider, groups=["strangers"])
    assert nobody.status_code == 403
    assert "no group of yours" in nobody.json()["detail"]
    assert "tells none" in (await sign_in(browse(), provider, groups=None)).json()["detail"]
    provider.userinfo = {"groups": ["kafka-acme"]}
    bob = browse()
    assert (await sign_in(bob, provider, groups=None)).status_code == 201
    provider.userinfo = {"sub": "u-2", "groups": ["kafka-acme"]}
    assert (await sign_in(browse(), provider, groups=None)).status_code == 401
    owners = await let_in(operator, "kafka-owners", "acme", "owner")
    both = ["kafka-acme", "kafka-owners"]
    entered = await sign_in(bob, provider, groups=both)
    assert (entered.json()["user"], entered.json()["role"]) == ("bob@acme", "owner")
    # What is taken away is taken away at once.
    assert (await operator("DELETE", f"group-roles/{owners}")).status_code == 204
    assert (await bob("GET", "me")).json()["role"] == "developer"
    [left] = (await operator("GET", "group-roles")).json()["items"]
    assert (left["group"], left["tenant"], left["role"]) == ("kafka-acme", "acme", "developer")
    assert (await operator("DELETE", f"group-roles/{left['id']}")).status_code == 204
    assert (await bob("GET", "me")).status_code == 401
    assert (await sign_in(bob, provider, groups=both)).status_code == 403
    assert (await acme("GET", "members")).json()["items"] == []
    await operator.tenant("other")
    await let_in(operator, "kafka-acme", "other", "viewer")
    assert (await sign_in(bob, provider)).json()["user"] == "bob@other"
    await let_in(operator, "ops", "default", "operator")
    moved = await sign_in(bob, provider, groups=["kafka-acme", "ops"])
    assert (moved.json()["user"], moved.json()["role"]) == ("bob", "operator")
    assert all(
        one["user"] != "bob@other" for one in (await operator("GET", "members?tenant=other")).json()["items"]
    )


async def test_who_may_let_groups_in(
    acme: Caller, operator: Caller, browse: Browse, provider: Provider
) -> None:
    mine = {"group": "g", "tenant": "acme", "role": "owner"}
    assert (await acme("POST", "group-roles", json=mine)).status_code == 403
    assert (await acme("GET", "group-roles")).status_code == 403
    ops = await operator.tenant("default", "operator")
    wrong = (
        ({"group": "g", "tenant": "default", "role": "admin"}, ops, 403),
        ({"group": "g", "tenant": "acme", "role": "operator"}, operator, 409),
        ({"group": "g", "tenant": "system", "role": "owner"}, operator, 409),
        ({"group": "g\n", "tenant": "acme", "role": "owner"}, operator, 422),
        ({"group": "g", "tenant": "nowhere", "role": "owner"}, operator, 404),
        ({"group": "kafka-acme", "tenant": "acme", "role": "owner"}, ops, 409),
    )
    for body, who, status in wrong:
        assert (await who("POST", "group-roles", json=body)).status_code == status, body
    admins = await let_in(operator, "admins", "default", "admin")
    assert (await ops("DELETE", f"group-roles/{admins}")).status_code == 403
    assert (await ops("DELETE", "group-roles/gnone")).status_code == 404


async def test_the_browser_that_began_and_no_other(acme: Caller, browse: Browse, provider: Provider) -> None:
    bob, eve = browse(), browse()
    answer = provider.sign_in(await begin(bob))
    # Eve has what came back to Bob, and Bob is made to open what came back to Eve.
    no_cookie = await eve("POST", "sign-in/answer", json=answer)
    assert no_cookie.status_code == 401
    assert "not begun in this browser" in no_cookie.json()["detail"]
    hers = provider.sign_in(await begin(eve), sub="u-eve")
    assert "another sign-in" in (await bob("POST", "sign-in/answer", json=hers)).json()["detail"]
    mixed = {**answer, "state": hers["state"]}
    assert (await eve("POST", "sign-in/answer", json=mixed)).status_code == 401  # Bob's verifier is not hers
    entered = await bob("POST", "sign-in/answer", json=provider.sign_in(await begin(bob)))
    assert entered.status_code == 201
    assert (await bob("POST", "sign-in/answer", json=answer)).status_code == 401  # the cookie is gone


async def test_a_session_before_ends_and_none_is_fixed(
    acme: Caller, browse: Browse, provider: Provider
) -> None:
    bob, other = browse(), browse()
    assert (await sign_in(bob, provider)).status_code == 201
    before = dict(bob.client.cookies)
    assert (await sign_in(bob, provider)).status_code == 201
    assert bob.client.cookies["portico_session"] != before["portico_session"]
    other.client.cookies.set("portico_session", before["portico_session"])
    assert (await other("GET", "session")).status_code == 401


HOSTILE: dict[str, dict[str, Any]] = {
    "another issuer": {"claims": {"iss": "https://id.example.com.evil.example"}},
    "no issuer": {"claims": {"iss": None}},
    "for another client": {"claims": {"aud": "somebody"}},
    "for several": {"claims": {"aud": [CLIENT, "somebody"]}},
    "asked for by another": {"claims": {"azp": "somebody"}},
    "of another attempt": {"claims": {"nonce": "replayed"}},
    "of no attempt": {"claims": {"nonce": None}},
    "expired": {"claims": {"exp": 1}},
    "for ever": {"claims": {"exp": None}},
    "of tomorrow": {"claims": {"iat": 10**11}},
    "not a number": {"claims": {"exp": "soon"}},
    "nobody": {"claims": {"sub": None}},
    "a number": {"claims": {"sub": 7}},
    "too long a subject": {"claims": {"sub": "x" * 300}},
    "a subject with a NUL": {"claims": {"sub": "a\0b"}},
    "signed by nobody's key": {"signs_with": rsa("one", 3072)},
    "of an unknown key": {"signs_with": elliptic("unknown")},
    "not signed": {"token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTEifQ."},
    "garbage": {"token": "a.b.c"},
    "huge": {"token": "a" * 100_000},
    "with a key of its own": {
        "header": {"jwk": {"kty": "oct", "k": "AA"}},
        "signs_with": elliptic("unknown"),
    },
}


@pytest.mark.parametrize("lie", HOSTILE)
@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
async def test_hostile_tokens(acme: Caller, browse: Browse, provider: Provider, lie: str) -> None:
    for name, value in HOSTILE[lie].items():
        setattr(provider, name, value)
    refused = await sign_in(browse(), provider)
    assert refused.status_code == 401, refused.text
    assert "was not taken" in refused.json()["detail"]
    assert "set-cookie" not in refused.headers
    assert (await acme("GET", "members")).json()["items"] == []


async def test_a_public_key_is_nobodys_secret(acme: Caller, browse: Browse, provider: Provider) -> None:
    """A token by HMAC with the public key as its secret."""
    public = provider.keys[0].as_pem(private=False)
    head, body = ({"alg": "HS256", "kid": "one"}, {"iss": ISSUER, "aud": CLIENT, "sub": "u-1"})
    said = ".".join(
        base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in (head, body)
    )
    mac = (
        base64.urlsafe_b64encode(hmac.new(public, said.encode(), hashlib.sha256).digest())
        .decode()
        .rstrip("=")
    )
    provider.token = f"{said}.{mac}"
    assert (await sign_in(browse(), provider)).status_code == 401


async def test_keys_change_and_clocks_differ(
    acme: Caller, browse: Browse, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await sign_in(browse(), provider)).status_code == 201
    provider.keys, provider.signs_with = [rsa(), elliptic("next")], elliptic("next")
    # Not asked again at once: strangers could make us ask for ever.
    assert (await sign_in(browse(), provider)).status_code == 401
    assert provider.asked.count("/jwks") == 1
    monkeypatch.setattr(oidc_provider, "_AGAIN_MS", -1)
    assert (await sign_in(browse(), provider)).status_code == 201
    assert provider.asked.count("/jwks") == 2
    provider.claims = {"iat": int(time.time()) + 30, "exp": int(time.time()) - 30}
    assert (await sign_in(browse(), provider)).status_code == 201
    provider.claims = {"exp": int(time.time()) - 90}
    assert (await sign_in(browse(), provider)).status_code == 401


async def test_whose_answer_it_is(acme: Caller, browse: Browse, provider: Provider) -> None:
    provider.told = {"authorization_response_iss_parameter_supported": True}
    for said, status in ((None, 401), ("https://evil.example", 401), (ISSUER, 201)):
        browser = browse()
        answer = {**provider.sign_in(await begin(browser)), "iss": said}
        assert (await browser("POST", "sign-in/answer", json=answer)).status_code == status, said
    browser = browse()
    await begin(browser)
    state = attempt_of(browser.client.cookies["portico_sign_in"]).state
    for error, words in (("access_denied", "did not let you in"), ("<script>", "was not taken")):
        refused = await browser(
            "POST", "sign-in/answer", json={"state": state, "error": error, "iss": ISSUER}
        )
        assert refused.status_code == 401
        assert words in refused.json()["detail"]
        assert "script" not in refused.text


LIES: dict[str, Response] = {
    "down": Response(status_code=503),
    "no JSON": PlainTextResponse("<html>"),
    "deep": PlainTextResponse("[" * 100_000),
    "huge": PlainTextResponse("[" + "1," * 200_000 + "1]"),
    "elsewhere": RedirectResponse("https://evil.example/"),
    "a list": JSONResponse([1]),
    "another issuer": JSONResponse({"issuer": "https://evil.example"}),
    "without TLS": JSONResponse({"issuer": ISSUER, "authorization_endpoint": "http://id.example.com/a"}),
    "a script": JSONResponse({"issuer": ISSUER, "authorization_endpoint": "javascript:alert(1)"}),
    "a bomb": Response(b"x", headers={"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
async def test_a_provider_that_is_down_or_lies(browse: Browse, provider: Provider, lie: str) -> None:
    provider.lies["/.well-known/openid-configuration"] = LIES[lie]
    browser = browse()
    for _ in range(3):
        refused = await browser("POST", "sign-in")
        assert refused.status_code == 503
        assert "identity provider cannot be used now" in refused.json()["detail"]
        offered = (await browser("GET", "sign-in")).json()
        assert "cannot be used now" in offered["trouble"]
    assert len(provider.asked) == 1  # nobody makes us ask for ever
    assert "evil" not in (await browser("GET", "sign-in")).text


async def test_a_provider_that_is_slow_holds_nothing_up(
    acme: Caller, browse: Browse, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_provider, "CALL_MS_MAX", 300)
    browser = browse()
    answer = provider.sign_in(await begin(browser))
    provider.holds.clear()
    slow = await browser("POST", "sign-in/answer", json=answer)
    assert slow.status_code == 503
    assert (await browse()("GET", "health")).status_code == 200
    provider.holds.set()
    for path, told in (("/token", JSONResponse({"id_token": 7})), ("/jwks", JSONResponse({"keys": []}))):
        provider.lies = {path: told}
        assert (await sign_in(browse(), provider)).status_code == 401, path
    provider.lies = {"/token": Response(status_code=502)}
    assert (await sign_in(browse(), provider)).status_code == 503
    provider.lies = {}
    assert (await sign_in(browse(), provider)).status_code in (201, 503)  # its keys failed just now


async def test_guesses_are_slowed(acme: Caller, browse: Browse, provider: Provider) -> None:
    browser = browse()
    await begin(browser)
    for _ in range(FAILURES_MAX_PER_PAIR):
        assert (await browser("POST", "sign-in/answer", json={"state": "x", "code": "y"})).status_code == 401
    limited = await browser("POST", "sign-in/answer", json={"state": "x", "code": "y"})
    assert limited.status_code == 429
    assert "retry-after" in limited.headers


async def test_a_member_links_itself(acme: Caller, browse: Browse, provider: Provider) -> None:
    ann = await invited(acme, browse, "ann", "owner")
    answer = provider.sign_in(await begin(ann), sub="u-ann", groups=[])
    assert (await ann("POST", "session/links", json=answer)).status_code == 204
    [link] = (await ann("GET", "session/links")).json()["items"]
    assert link["issuer"] == ISSUER
    entered = await sign_in(browse(), provider, sub="u-ann", groups=["kafka-acme"])
    assert (entered.json()["user"], entered.json()["role"]) == ("ann@acme", "owner")
    assert (await browse().log_in("ann@acme")).status_code == 201  # the password stays
    cat = await invited(acme, browse, "cat")
    taken = provider.sign_in(await begin(cat), sub="u-ann")
    assert (await cat("POST", "session/links", json=taken)).status_code == 409
    assert (await ann("DELETE", "session/links")).status_code == 204
    assert (await ann("DELETE", "session/links")).status_code == 404
    assert (await sign_in(browse(), provider, sub="u-ann")).json()["user"] == "bob@acme"


async def test_who_is_removed_comes_in_anew(acme: Caller, browse: Browse, provider: Provider) -> None:
    bob = browse()
    assert (await sign_in(bob, provider)).status_code == 201
    assert (await acme("DELETE", "members/bob")).status_code == 204
    assert (await bob("GET", "session")).status_code == 401
    assert (await sign_in(bob, provider)).json()["user"] == "bob@acme"


async def test_without_a_provider(make_console: Callable[..., Console]) -> None:
    console = make_console()
    app = create_console_app(console)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=CONSOLE) as client:
        assert (await client.get("/v1/sign-in")).json()["provider"] is None
        assert (await client.post("/v1/sign-in")).status_code == 404
        assert (await client.post("/v1/sign-in/answer", json={"state": "x"})).status_code == 404
    console.close()
