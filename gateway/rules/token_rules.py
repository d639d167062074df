"""Tokens of OAUTHBEARER: JSON Web Tokens, signed by a key of the instance's provider. No clock, no network.

The keys are in the spec. Nothing that a token says leads anywhere: not `jku`, `jwk` or `x5u`, and a `kid`
only chooses among the keys that are known. A worker where no instance takes tokens does not import this, for
what reads them takes 12 MB.
"""

import json
from collections.abc import Mapping
from typing import Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import GuestProtocol, JWKRegistry, Key
from joserfc.jws import JWSRegistry

from contracts.oauth import ALGORITHMS, PRINCIPAL_CHARS_MAX, TOKEN_BYTES_MAX, OauthSpec
from gateway.rules.tokens import Taken, Terms, TokenFault

HEADER_BYTES_MAX: Final = 4 * 1024
"""Of a token: certificates may be in it, which are not looked at."""
EXPIRES_EPOCH_MS_MAX: Final = 253_402_300_799_000
"""The end of the year 9999: no login holds for longer."""


class TokenRules:
    """Of one instance."""

    def __init__(self, spec: OauthSpec) -> None:
        self.spec = spec
        self._registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        self._registry.max_header_length = HEADER_BYTES_MAX
        self._registry.max_payload_length = TOKEN_BYTES_MAX
        self._keys = _usable(spec.keys)
        self._terms = {key.thumbprint(): self._terms_of(key) for key in self._keys}

    def _terms_of(self, key: Key) -> Terms:
        spec = self.spec
        return Terms(spec.issuer, spec.audience, spec.principal_claim, spec.scope, key.thumbprint())

    def holds(self, terms: Terms) -> bool:
        """Whether a token that was taken by these would be today."""
        return self._terms.get(terms.key) == terms

    def take(self, token: str, now_epoch_ms: int) -> Taken:
        """Who brings it, and how long that holds. Raises: TokenFault."""
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenFault(f"a token of {len(token)} characters")
        spec, used = self.spec, list[Key]()

        def signed_by(signature: GuestProtocol) -> Key:
            used.append(self._key_for(signature.headers()))
            return used[0]

        registry = jwt.JWTClaimsRegistry(
            now=now_epoch_ms // 1000,
            leeway=spec.clock_skew_ms // 1000,
            iss={"essential": True, "value": spec.issuer},
            aud={"essential": True, "value": spec.audience},
            exp={"essential": True},
        )
        try:
            claims = jwt.decode(token, signed_by, registry=self._registry).claims
            registry.validate(claims)
            expires_epoch_ms = min(int(claims["exp"]) * 1000 + spec.clock_skew_ms, EXPIRES_EPOCH_MS_MAX)
        except (JoseError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise TokenFault(f"{type(error).__name__}: {error}"[:200]) from error
        self._check_scope(claims)
        return Taken(self._user(claims), expires_epoch_ms, self._terms_of(used[0]))

    def _key_for(self, header: Mapping[str, object]) -> Key:
        """Raises: TokenFault."""
        kid, algorithm = header.get("kid"), header.get("alg")
        fitting = [
            key for key in self._keys if (kid is None or key.kid == kid) and key.alg in (None, algorithm)
        ]
        if len(fitting) != 1:
            raise TokenFault("a key that is not known" if kid is not None else "it does not say which key")
        return fitting[0]

    def _check_scope(self, claims: Mapping[str, object]) -> None:
        """Raises: TokenFault."""
        said = claims.get("scope", claims.get("scp", ""))
        scopes = said.split() if isinstance(said, str) else said
        if self.spec.scope and (not isinstance(scopes, list) or self.spec.scope not in scopes):
            raise TokenFault("without the scope")

    def _user(self, claims: Mapping[str, object]) -> str:
        """Raises: TokenFault."""
        user = claims.get(self.spec.principal_claim)
        if not isinstance(user, str) or not 0 < len(user) <= PRINCIPAL_CHARS_MAX or not user.isprintable():
            raise TokenFault(f"no name in '{self.spec.principal_claim}'")
        return user


def _usable(keys: str) -> list[Key]:
    """Those of a JWK set that this release can use; the control plane may be a newer one."""
    usable = []
    for each in json.loads(keys)["keys"]:
        try:
            usable.append(JWKRegistry.import_key(each))
        except (JoseError, ValueError):
            continue
    return usable
