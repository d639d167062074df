"""By whose tokens clients log in, in the API: what is taken of a provider, and told to the gateways."""

import base64
import json
from typing import Any

import pytest
from joserfc.jwk import OctKey, OKPKey

from contracts.oauth import KEYS_MAX, TOKEN_BYTES_MAX
from gateway.rules.token_rules import TokenRules
from tenants.console import Console
from tenants.rules.model import Instance, spec_of
from tenants.store import instances
from tests.unit.gateway.tokens import AUDIENCE, ISSUER, NOW_MS, elliptic, key_set, rsa, token

from .conftest import Caller

JWKS = json.loads(key_set(rsa(), elliptic()))
BODY: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": JWKS}


def _stored(plane: Console, instance_id: str) -> Instance:
    with plane.store.read() as connection:
        found = instances.by_id(connection, instance_id)
    assert found is not None
    return found


async def test_a_provider_is_set_told_and_taken_away(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    path = f"instances/{instance}/oauth"
    nobodys = (await operator("GET", path)).json()
    assert nobodys["issuer"] is None and nobodys["keys"] == []
    certificate = {**JWKS["keys"][0], "x5c": ["AAAA"], "use": "sig"}
    with_more = {"keys": [certificate, JWKS["keys"][1], {"kty": "AKP", "kid": "later"}, {"kty": "RSA"}]}
    made = await operator("PUT", path, json={**BODY, "jwks": with_more, "scope": "kafka"})
    assert made.status_code == 200 and made.json()["keys"] == ["one", "two"] and "etag" in made.headers
    assert (await operator("GET", path)).json()["principal_claim"] == "sub"
    spec = spec_of(_stored(plane, instance))
    assert spec.oauth is not None and "x5c" not in spec.oauth.keys
    assert TokenRules(spec.oauth).take(token(scope="kafka"), NOW_MS).user == "app"
    audit = (await operator("GET", "audit")).json()["items"]
    assert ("oauth.set", "https://id.example.com/ for kafka, 2 keys") in [
        (a["action"], a["detail"]) for a in audit
    ]
    again = await operator("PUT", path, json={**BODY, "jwks": with_more, "scope": "kafka"})
    assert again.status_code == 200 and _stored(plane, instance).revision == spec.revision
    assert (await operator("DELETE", path)).status_code == 204
    assert spec_of(_stored(plane, instance)).oauth is None


def _with_exponent(exponent: int) -> dict[str, Any]:
    """Such a key costs the worker milliseconds for each token."""
    octets = exponent.to_bytes(-(-exponent.bit_length() // 8), "big")
    return {**JWKS["keys"][0], "e": base64.urlsafe_b64encode(octets).rstrip(b"=").decode()}


async def test_an_issuer_need_not_be_an_address(operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    made = await operator("PUT", f"instances/{instance}/oauth", json={**BODY, "issuer": "http://["})
    assert made.status_code == 200 and made.json()["issuer"] == "http://["


def _many() -> dict[str, Any]:
    return {"keys": [{**JWKS["keys"][1], "kid": str(number)} for number in range(KEYS_MAX + 1)]}


@pytest.mark.parametrize(
    ("changes", "field", "status"),
    [
        ({"jwks": {}}, "jwks", 422),
        ({"jwks": {"keys": "x"}}, "jwks", 422),
        ({"jwks": {"keys": []}}, "jwks", 409),
        ({"jwks": {"keys": [7]}}, "jwks", 422),
        ({"jwks": {"keys": [rsa().as_dict(private=True)]}}, "jwks", 422),
        ({"jwks": {"keys": [OctKey.generate_key(256).as_dict(private=True)]}}, "jwks", 422),
        ({"jwks": {"keys": [OKPKey.generate_key("Ed25519").as_dict(private=False)]}}, "jwks", 409),
        ({"jwks": {"keys": [rsa("small", 1024).as_dict(private=False)]}}, "jwks", 409),
        ({"jwks": {"keys": [{**JWKS["keys"][0], "use": "enc"}]}}, "jwks", 409),
        ({"jwks": {"keys": [{**JWKS["keys"][0], "alg": "HS256"}]}}, "jwks", 409),
        ({"jwks": {"keys": [JWKS["keys"][0]] * 2}}, "jwks", 409),
        ({"jwks": _many()}, "jwks", 409),
        ({"jwks": {"keys": [JWKS["keys"][1]] * 101}}, "jwks", 422),
        ({"jwks": {"keys": [_with_exponent(2**32 + 1)]}}, "jwks", 409),
        ({"jwks": {"keys": [{**JWKS["keys"][0], "n": "A" * 2_000}]}}, "jwks", 409),
        ({"issuer": ""}, "issuer", 422),
        ({"audience": " "}, "audience", 422),
        ({"audience": "x" * 513}, "audience", 422),
        ({"principal_claim": ""}, "principal_claim", 422),
        ({"scope": "two scopes"}, "scope", 422),
        ({"clock_skew_ms": -1}, "clock_skew_ms", 422),
        ({"clock_skew_ms": 300_001}, "clock_skew_ms", 422),
    ],
    ids=lambda value: (
        next(iter(value)) if isinstance(value, dict) else str(value)
    ),  # keys are drawn anew each time
)
async def test_what_is_no_provider_is_refused_with_its_field(
    operator: Caller, changes: dict[str, Any], field: str, status: int
) -> None:
    instance = str((await operator.order())["id"])
    refused = await operator("PUT", f"instances/{instance}/oauth", json=BODY | changes)
    assert refused.status_code == status
    assert [one["field"] for one in refused.json()["errors"]] == [field]
    assert "d" not in json.dumps(refused.json()["errors"]).split() and len(refused.text) < TOKEN_BYTES_MAX
