"""Keys and tokens of a provider that tests have for themselves."""

import json
from functools import cache
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

from contracts.oauth import OauthSpec

ISSUER, AUDIENCE = "https://id.example.com/", "kafka"
NOW_MS = 1_800_000_000_000


@cache
def rsa(kid: str = "one", bits: int = 2048) -> RSAKey:
    """A key pair; made once."""
    return RSAKey.generate_key(bits, {"kid": kid, "use": "sig"})


@cache
def elliptic(kid: str = "two") -> ECKey:
    """A pair on P-256; made once."""
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def key_set(*keys: Key) -> str:
    """What a provider publishes."""
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]})


def oauth(*keys: Key, **changes: Any) -> OauthSpec:
    """An instance's spec of it."""
    return OauthSpec(
        **{"issuer": ISSUER, "audience": AUDIENCE, "keys": key_set(*(keys or (rsa(), elliptic()))), **changes}
    )


def token(key: Key | None = None, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """One that is good for an hour, unless `claims` say otherwise: None leaves one out."""
    key = key or rsa()
    algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "app", "exp": NOW_MS // 1000 + 3_600, **claims}
    kept = {name: value for name, value in said.items() if value is not None}
    head = {"alg": algorithm, "kid": key.kid, **(header or {})}
    head = {name: value for name, value in head.items() if value is not None}
    return jwt.encode(head, kept, key, algorithms=[head["alg"]])


def message(value: str, user: str = "") -> bytes:
    """A client's message of OAUTHBEARER."""
    named = f"a={user}" if user else ""
    return f"n,{named},\x01auth=Bearer {value}\x01\x01".encode()
