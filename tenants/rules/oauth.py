"""By whose tokens clients log in: what may be said of a provider, and which of its keys are kept. Pure."""

import json
from collections.abc import Mapping
from typing import Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, RSAKey

from contracts.oauth import (
    ALGORITHMS,
    KEYS_BYTES_MAX,
    KEYS_MAX,
    RSA_BITS_MAX,
    RSA_BITS_MIN,
    SKEW_MS_MAX,
    OauthSpec,
)
from contracts.shapes import LETTER, WORD_LETTER, matching
from tenants.rules.lifecycle import Fault

TEXT_CHARS_MAX: Final = 512
"""Of an issuer, an audience, a claim's name and a scope."""
TEXT_SHAPE: Final = f"^ *{WORD_LETTER}{LETTER}*$"
"""What an issuer, an audience and a claim's name look like."""
SCOPE_SHAPE: Final = f"^{WORD_LETTER}*$"
"""What one scope or none looks like."""
PRIVATE: Final = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")
"""Members of keys that are nobody's but the provider's."""
LISTED_MAX: Final = 100
"""Keys that a document may list, those that are of no use here among them."""
_TEXT_CHARS_MAX: Final = 1_024
"""Of a part of a key: 4,096 bits are 683 characters."""
_EXPONENT_MAX: Final = 2**32
"""Of a key of RSA; all in use have 65537 or 3. Checking a signature takes as long as it is large."""
_KEPT: Final = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
"""Of a key. Certificates, dates and whatever else a provider tells are of no use here."""
_TEXT: Final = matching(TEXT_SHAPE)
_SCOPE: Final = matching(SCOPE_SHAPE)
_CURVES: Final = ("P-256", "P-384", "P-521")


class KeysFault(Exception):  # noqa: N818 - an answer
    """Why a document is no set of keys to go by, in a sentence; whether the API's document says it."""

    def __init__(self, sentence: str, *, is_said: bool) -> None:
        super().__init__(sentence)
        self.is_said = is_said


def kept_keys(document: object) -> str:
    """The keys of a JWK set (RFC 7517) that can check a token's signature, and of each what that takes.

    Raises: KeysFault.
    """
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise KeysFault("is no JWK set: it needs a list 'keys' of objects", is_said=True)
    if len(listed) > LISTED_MAX:
        raise KeysFault(f"lists {len(listed)} keys, at most {LISTED_MAX} are looked at", is_said=True)
    if any(each.keys() & set(PRIVATE) for each in listed):
        raise KeysFault(
            "has a secret or private key, which is known now: only public ones belong here", is_said=True
        )
    kept = [found for each in listed if (found := _kept(each)) is not None]
    if not kept:
        raise KeysFault(
            f"has no key that checks {', '.join(ALGORITHMS)}: RSA of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, "
            f"or one of {', '.join(_CURVES)}",
            is_said=False,
        )
    if len(kept) > KEYS_MAX:
        raise KeysFault(f"has {len(kept)} keys, at most {KEYS_MAX} are kept", is_said=False)
    named = [each.get("kid") for each in kept]
    if len(named) != len(set(named)):
        raise KeysFault("has several keys of one 'kid', or without", is_said=False)
    text = json.dumps({"keys": kept}, separators=(",", ":"), sort_keys=True)
    if len(text) > KEYS_BYTES_MAX:
        raise KeysFault(f"is larger than {KEYS_BYTES_MAX} bytes", is_said=False)
    return text


def _kept(said: Mapping[str, object]) -> dict[str, str | list[str]] | None:
    if said.get("use", "sig") != "sig" or said.get("alg", ALGORITHMS[0]) not in ALGORITHMS:
        return None
    if said.get("kty") not in ("RSA", "EC"):
        return None
    found: dict[str, str | list[str]] = {
        name: value for name in _KEPT if isinstance(value := said.get(name), str)
    }
    if any(len(value) > _TEXT_CHARS_MAX for value in found.values()):
        return None
    try:
        key = JWKRegistry.import_key(found)
        fits = (
            RSA_BITS_MIN <= key.public_key.key_size <= RSA_BITS_MAX
            and key.public_key.public_numbers().e < _EXPONENT_MAX
            if isinstance(key, RSAKey)
            else isinstance(key, ECKey) and key.curve_name in _CURVES
        )
    except (JoseError, ValueError, TypeError):
        return None
    return found if fits else None


def faults_of(oauth: OauthSpec) -> list[Fault]:
    """What is wrong with what was said of a provider, but for its keys."""
    said = {
        "issuer": (oauth.issuer, True),
        "audience": (oauth.audience, True),
        "principal_claim": (oauth.principal_claim, True),
        "scope": (oauth.scope, False),
    }
    faults = []
    for name, (text, is_needed) in said.items():
        if len(text) > TEXT_CHARS_MAX or not (_TEXT if is_needed else _SCOPE).match(text):
            least = 1 if is_needed else 0
            what = "can be printed, not spaces alone" if is_needed else "can be printed, no spaces"
            faults.append(Fault(name, f"{least} to {TEXT_CHARS_MAX} characters that {what}"))
    if not 0 <= oauth.clock_skew_ms <= SKEW_MS_MAX:
        faults.append(Fault("clock_skew_ms", f"0 to {SKEW_MS_MAX} ms"))
    return faults


def described(oauth: OauthSpec) -> str:
    """For the audit log."""
    return f"{oauth.issuer[:80]} for {oauth.audience[:80]}, {len(json.loads(oauth.keys)['keys'])} keys"
