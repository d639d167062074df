"""The identity provider, asked over HTTPS: what it says of itself, its keys, a code for tokens, `userinfo`.

Whatever it does is bounded in time and bytes, no redirect is followed and no proxy asked. What it said is
kept: strangers who press the button do not make us ask it, and one that is down is not asked all the time.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from runtime.trusted import authorities
from tenants.rules.errors import TooMany, Unavailable
from tenants.rules.oauth import KeysFault, kept_keys
from tenants.rules.oidc import (
    Attempt,
    Metadata,
    Person,
    ProviderFault,
    UnknownKey,
    claims_of,
    metadata_of,
    person_of,
)
from tenants.rules.oidc_settings import OidcSettings

T = TypeVar("T")
_log = get_logger(__name__)
CALL_MS_MAX: Final = 10_000
"""One call of the identity provider, whatever it does meanwhile."""
ANSWER_BYTES_MAX: Final = 256 * 1024
"""Of an answer of the identity provider."""
KEPT_MS: Final = 3_600_000
"""How long its description and keys are gone by without asking again."""
_AGAIN_MS: Final = 60_000
"""Keys are asked for again for a token of an unknown one, but not more often than this."""
_FAILED_MS: Final = 5_000
"""After a failed call, so long nobody asks again."""
EXCHANGES_MAX: Final = 16
"""Sign-ins that wait for the identity provider at once; more are sent away."""
_DOWN: Final = "the identity provider cannot be used now: try again in a moment, or log in with a password"


class _Kept(NamedTuple, Generic[T]):
    value: T
    at_ms: int


class OidcProvider:
    """One provider. Used on one loop."""

    def __init__(self, settings: OidcSettings, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport` stands in for the network."""
        self.settings = settings
        self._transport = transport
        self._turn = asyncio.Lock()
        self._metadata: _Kept[Metadata] | None = None
        self._keys: _Kept[list[Key]] | None = None
        self._failed_ms: int | None = None
        self._exchanges = 0

    async def metadata(self) -> Metadata:
        """What it says of itself. Raises: Unavailable."""
        kept = self._metadata
        if kept is not None and monotonic_ms() - kept.at_ms < KEPT_MS:
            return kept.value
        async with self._turn:
            kept = self._metadata
            if kept is not None and monotonic_ms() - kept.at_ms < KEPT_MS:
                return kept.value
            url = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            try:
                found = await self._told(
                    "its description", url, lambda said: metadata_of(said, self.settings)
                )
            except (ProviderFault, Unavailable) as fault:
                if kept is not None:  # what it said an hour ago is better than nobody signing in
                    return kept.value
                raise self._unusable(fault) from fault
            self._metadata = _Kept(found, monotonic_ms())
            return found

    async def person(self, code: str, attempt: Attempt) -> Person:
        """Who has signed in there, for a code that the browser brought back. Raises: Unavailable, TooMany,
        ProviderFault when the code is not good, or what comes for it."""
        async with self._exchange():
            metadata = await self.metadata()
            body = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.settings.redirect_uri,
                "code_verifier": attempt.verifier,
            }
            headers = self._client_headers(metadata, body)
            tokens = await self._asked("tokens", "POST", metadata.token_endpoint, headers=headers, body=body)
            said = tokens if isinstance(tokens, Mapping) else {}
            token = said.get("id_token")
            if not isinstance(token, str):
                raise ProviderFault("it gave no ID token")
            claims = await self._claims(metadata, token, attempt.nonce)
            more = await self._userinfo(metadata, claims, said.get("access_token"))
            return person_of(claims, more, self.settings)

    async def _claims(self, metadata: Metadata, token: str, nonce: str) -> dict[str, object]:
        keys = await self._keys_of(metadata, older_than_ms=KEPT_MS)
        try:
            return claims_of(token, keys, self.settings, nonce, epoch_ms())
        except UnknownKey:
            keys = await self._keys_of(metadata, older_than_ms=_AGAIN_MS)
            return claims_of(token, keys, self.settings, nonce, epoch_ms())

    async def _keys_of(self, metadata: Metadata, *, older_than_ms: int) -> list[Key]:
        async with self._turn:
            kept = self._keys
            if kept is not None and monotonic_ms() - kept.at_ms < older_than_ms:
                return kept.value
            found = await self._told("its keys", metadata.jwks_uri, _usable)
            self._keys = _Kept(found, monotonic_ms())
            return found

    async def _userinfo(
        self, metadata: Metadata, claims: Mapping[str, object], access_token: object
    ) -> Mapping[str, object]:
        """Asked where the ID token does not say the groups: many providers keep it small."""
        url = metadata.userinfo_endpoint
        if self.settings.groups_claim in claims or url is None or not isinstance(access_token, str):
            return {}
        if not access_token.isascii() or not access_token.isprintable():
            raise ProviderFault("its access token is no text")
        headers = {"Authorization": f"Bearer {access_token}"}
        found = await self._asked("userinfo", "GET", url, headers=headers)
        if not isinstance(found, Mapping):
            raise ProviderFault("its userinfo is no object")
        return found

    def _client_headers(self, metadata: Metadata, body: dict[str, str]) -> dict[str, str]:
        """How the client proves itself: RFC 6749, section 2.3.1."""
        settings = self.settings
        if settings.client_secret is None or metadata.posts_secret:
            body["client_id"] = settings.client_id
            if settings.client_secret is not None:
                body["client_secret"] = settings.client_secret
            return {}
        pair = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}

    @asynccontextmanager
    async def _exchange(self) -> AsyncIterator[None]:
        if self._exchanges >= EXCHANGES_MAX:
            raise TooMany("too many sign-ins at once: try again in a moment", 2)
        self._exchanges += 1
        try:
            yield
        finally:
            self._exchanges -= 1

    async def _told(self, what: str, url: str, read: Callable[[object], T]) -> T:
        """What it tells everybody, which nobody asks for again just after it failed. Raises: Unavailable,
        ProviderFault."""
        if self._failed_ms is not None and monotonic_ms() - self._failed_ms < _FAILED_MS:
            raise Unavailable(_DOWN)
        try:
            return read(await self._asked(what, "GET", url))
        except (Unavailable, ProviderFault):
            self._failed_ms = monotonic_ms()
            raise

    async def _asked(
        self,
        what: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, str] | None = None,
    ) -> object:
        """A JSON answer. Raises: Unavailable, ProviderFault for what is no answer to go by."""
        try:
            async with asyncio.timeout(CALL_MS_MAX / 1000):
                status, told = await self._call(method, url, headers or {}, body)
        except (TimeoutError, httpx.HTTPError, OSError) as error:
            raise self._unusable(f"{what}: {type(error).__name__}: {error}") from error
        if status >= 500:
            raise self._unusable(f"{what}: answered {status}")
        if status != 200:
            raise ProviderFault(f"{what}: answered {status}: {_error_of(told)}")
        try:
            return json.loads(told)
        except (ValueError, RecursionError) as error:
            raise ProviderFault(f"{what}: no JSON") from error

    async def _call(
        self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, str] | None
    ) -> tuple[int, bytes]:
        """Raises: ProviderFault, httpx.HTTPError."""
        client = httpx.AsyncClient(
            verify=authorities(), trust_env=False, timeout=CALL_MS_MAX / 1000, transport=self._transport
        )
        asked = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        async with client, client.stream(method, url, headers=asked, data=body) as answer:
            if "content-encoding" in answer.headers:
                raise ProviderFault(f"{urlsplit(url).hostname} compresses though it was not asked to")
            told = b""
            async for chunk in answer.aiter_raw():
                told += chunk
                if len(told) > ANSWER_BYTES_MAX:
                    raise ProviderFault(
                        f"{urlsplit(url).hostname} answers more than {ANSWER_BYTES_MAX} bytes"
                    )
            return answer.status_code, told

    def _unusable(self, why: object) -> Unavailable:
        """What strangers are told has no word of the provider's; operators find the reason in the log."""
        if isinstance(why, Unavailable):
            return why
        _log.warning("the identity provider cannot be used", issuer=self.settings.issuer, why=str(why)[:500])
        return Unavailable(_DOWN)


def _usable(document: object) -> list[Key]:
    """Raises: ProviderFault."""
    try:
        return [JWKRegistry.import_key(each) for each in json.loads(kept_keys(document))["keys"]]
    except KeysFault as fault:
        raise ProviderFault(f"its set of keys {fault}") from fault
    except (JoseError, ValueError) as error:
        raise ProviderFault(f"its set of keys: {error}"[:200]) from error


def _error_of(told: bytes) -> str:
    """Its own word for what is wrong (RFC 6749, section 5.2)."""
    try:
        said = json.loads(told)
    except (ValueError, RecursionError):
        return ""
    word = said.get("error") if isinstance(said, Mapping) else None
    return repr(word)[:100] if isinstance(word, str) else ""
