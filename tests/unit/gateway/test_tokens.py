"""Tokens of OAUTHBEARER: which are taken, whose they are, how long they hold, and what others try."""

import base64
import hmac
import json
from typing import Any

import pytest

from contracts.oauth import PRINCIPAL_CHARS_MAX, TOKEN_BYTES_MAX
from gateway.rules.token_rules import EXPIRES_EPOCH_MS_MAX, TokenRules
from gateway.rules.tokens import TokenFault, bearer_message, counted_as
from tests.unit.gateway.tokens import AUDIENCE, ISSUER, NOW_MS, elliptic, key_set, message, oauth, rsa, token

S = NOW_MS // 1000
RULES = TokenRules(oauth())


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "app", "exp": S + 60}
    return f"{part(header)}.{part(claims)}.{signature}"


def by_secret(secret: bytes) -> str:
    """Signed with a provider's public key, as if that were a secret."""
    said = unsigned({"alg": "HS256", "kid": "one"})[:-1]
    signature = hmac.digest(secret, said.encode(), "sha256")
    return f"{said}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("key", [rsa(), elliptic()], ids=["RS256", "ES256"])
def test_a_signed_token_says_who_its_client_is_and_how_long(key: Any) -> None:
    taken = RULES.take(token(key, sub="orders-app"), NOW_MS)
    assert (taken.user, taken.expires_epoch_ms) == ("orders-app", NOW_MS + 3_600_000 + 30_000)
    assert RULES.holds(taken.terms)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["others", AUDIENCE]},
        {"nbf": S + 29},
        {"exp": S - 29},
        {"iat": S - 5, "jti": "x", "scope": "a b"},
    ],
)
def test_clocks_may_differ_a_little_and_a_token_may_be_for_several(claims: dict[str, Any]) -> None:
    assert RULES.take(token(**claims), NOW_MS).user == "app"


@pytest.mark.parametrize("exp", [10**15, 10**400, 1e300])
def test_a_token_without_an_end_has_one_that_answers_can_say(exp: float) -> None:
    assert RULES.take(token(exp=exp), NOW_MS).expires_epoch_ms == EXPIRES_EPOCH_MS_MAX


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": S - 30},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": True},
        {"nbf": S + 31},
        {"iat": S + 31},
        {"iss": "https://id.example.com"},
        {"iss": None},
        {"aud": "others"},
        {"aud": ["others"]},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "two\nlines"},
        {"sub": "x" * (PRINCIPAL_CHARS_MAX + 1)},
    ],
    ids=str,
)
def test_what_a_token_has_to_say(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenFault):
        RULES.take(token(**claims), NOW_MS)


def test_who_it_is_and_what_it_is_for_may_be_said_by_other_claims() -> None:
    rules = TokenRules(oauth(principal_claim="client_id", scope="kafka"))
    assert rules.take(token(client_id="billing", scope="openid kafka"), NOW_MS).user == "billing"
    assert rules.take(token(client_id="billing", scp=["kafka"]), NOW_MS).user == "billing"
    for claims in ({"scope": "openid"}, {"scope": "kafkaesque"}, {"scope": 7}, {}):
        with pytest.raises(TokenFault, match="scope"):
            rules.take(token(client_id="billing", **claims), NOW_MS)


def test_no_algorithm_but_those_of_key_pairs() -> None:
    for bad in (
        unsigned({"alg": "none", "kid": "one"}),
        unsigned({"alg": "None", "kid": "one"}),
        unsigned({"alg": "RS256", "kid": "one"}),
        unsigned({"alg": "ES256", "kid": "one"}, "AAAA"),
        unsigned({"kid": "one"}, "AAAA"),
        by_secret(rsa().as_pem(private=False)),
    ):
        with pytest.raises(TokenFault):
            RULES.take(bad, NOW_MS)


def test_nobody_elses_key_and_no_key_that_the_token_brings() -> None:
    stranger = rsa("stranger")
    brought = {"jwk": stranger.as_dict(private=False), "jku": "http://169.254.169.254/", "kid": "one"}
    for bad in (token(stranger), token(stranger, header={"kid": "one"}), token(stranger, header=brought)):
        with pytest.raises(TokenFault):
            RULES.take(bad, NOW_MS)
    with pytest.raises(TokenFault, match="which key"):
        RULES.take(token(header={"kid": None}), NOW_MS)
    only = TokenRules(oauth(rsa()))
    assert only.take(token(header={"kid": None}), NOW_MS).user == "app", "there is but one"


@pytest.mark.parametrize(
    "bad",
    ["", ".", "..", "a.b.c", "....", "x" * (TOKEN_BYTES_MAX + 1), "e30.e30.e30", "\N{SNOWMAN}.a.b"],
    ids=lambda text: text[:8],
)
def test_what_is_no_token(bad: str) -> None:
    with pytest.raises(TokenFault):
        RULES.take(bad, NOW_MS)


def test_deep_and_large_claims_are_refused_and_not_lived_through() -> None:
    for claims in ({"x": "y" * 20_000}, {"x": json.loads("[" * 500 + "]" * 500)}):
        bad = token(**claims)
        try:
            RULES.take(bad, NOW_MS)
        except TokenFault:
            continue
        assert len(bad) <= TOKEN_BYTES_MAX
    head = token(header={"x5c": ["A" * 6_000]})
    with pytest.raises(TokenFault):
        RULES.take(head, NOW_MS)


def test_a_login_stands_while_its_key_and_its_rules_do() -> None:
    taken = RULES.take(token(), NOW_MS)
    assert TokenRules(oauth(rsa(), rsa("new"))).holds(taken.terms), "another key beside it"
    assert not TokenRules(oauth(elliptic())).holds(taken.terms), "its key is gone"
    assert not TokenRules(oauth(audience="others")).holds(taken.terms)
    assert not TokenRules(oauth(scope="kafka")).holds(taken.terms)


def test_keys_that_this_release_does_not_know_are_passed_over() -> None:
    known = json.loads(key_set(rsa()))["keys"]
    rules = TokenRules(
        oauth(keys=json.dumps({"keys": [{"kty": "AKP", "kid": "pq"}, {"kty": "RSA"}, *known]}))
    )
    assert rules.take(token(), NOW_MS).user == "app"


def test_a_clients_message() -> None:
    assert bearer_message(message("a.b.c")) == ("", "a.b.c")
    assert bearer_message(message("a.b.c", "app")) == ("app", "a.b.c")
    assert bearer_message(b"n,a=x=2Cy=3D,\x01auth=bearer t\x01ext=1\x01\x01") == ("x,y=", "t")
    for bad in (
        b"",
        b"\xff",
        b"n,,\x01auth=Basic t\x01\x01",
        b"p=tls,,\x01auth=Bearer t\x01\x01",
        b"n,x,\x01\x01",
    ):
        with pytest.raises(TokenFault):
            bearer_message(bad)
    assert counted_as(b"one") != counted_as(b"two")
