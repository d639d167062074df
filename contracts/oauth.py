"""How clients of an instance log in by tokens (SASL OAUTHBEARER): whose, for whom, and by which keys."""

from typing import Final

import msgspec

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
)
"""Signatures that are taken: of key pairs alone, so that no public key is anybody's secret."""
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 4096
"""Of a key of RSA: checking a signature takes four times as long with twice the bits."""
KEYS_MAX: Final = 20
"""Keys of one instance's provider."""
KEYS_BYTES_MAX: Final = 64 * 1024
"""The document they come in."""
TOKEN_BYTES_MAX: Final = 16 * 1024
"""A longer token is not looked at."""
PRINCIPAL_CHARS_MAX: Final = 128
"""Of the name that a token gives its client."""
SKEW_MS_MAX: Final = 300_000
"""How far a provider's clock may be from ours."""


class OauthSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Of one instance."""

    issuer: str
    """Who has made the token: `iss`."""
    audience: str
    """For whom: one of `aud`."""
    keys: str
    """Public keys, a JWK set (RFC 7517)."""
    principal_claim: str = "sub"
    """The claim that says who the client is."""
    scope: str = ""
    """Which the token has to have, among others; empty: none."""
    clock_skew_ms: int = 30_000
