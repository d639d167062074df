"""Sign-in by an identity provider (OpenID Connect, authorization code with PKCE). No clock, no network.

What binds an answer to the browser that asked is one random cookie: state, nonce and verifier follow from it,
so nothing of an attempt is stored here, and strangers who begin thousands of them fill nothing.

Source: OpenID Connect Core 1.0 and Discovery 1.0; RFC 7636 (PKCE), 9207 (`iss`), 9700 (what to beware of).
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import GuestProtocol, Key
from joserfc.jws import JWSRegistry

from contracts.oauth import ALGORITHMS, TOKEN_BYTES_MAX
from tenants.rules.lifecycle import name_fault
from tenants.rules.oidc_settings import IS_GROUP, OidcSettings, url_fault
from tenants.rules.permissions import Role

ATTEMPT_MS_MAX: Final = 600_000
"""A person has so long to sign in at the provider, from pressing the button."""
SKEW_S: Final = 60
"""How far the provider's clock may be from ours."""
GROUPS_MAX: Final = 500
"""Groups of one person that are looked at."""
SUBJECT_CHARS_MAX: Final = 255
"""OpenID Connect Core, section 2."""
_HINT: Final = re.compile(r"[^A-Za-z0-9._-]+")
_HINT_CHARS_MAX: Final = 48
_HINTS: Final = ("preferred_username", "nickname", "name")
"""Claims that a member may be called by. None of them says who somebody is."""


class ProviderFault(Exception):  # noqa: N818 - an answer
    """Why a provider's answer is not gone by, for the log: what it says is never shown as it is."""


class NotSignedIn(Exception):  # noqa: N818 - an answer
    """Why an answer signs nobody in, in words for who tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What is used of a provider's description of itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    scopes: tuple[str, ...]
    tells_issuer: bool
    """Whether its answers carry `iss` (RFC 9207): then they must."""
    posts_secret: bool
    """Whether the client's secret goes into the body, where it is not taken in a header."""


class Attempt(NamedTuple):
    """What follows from the cookie of one attempt."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """PKCE's S256."""
        return _b64(hashlib.sha256(self.verifier.encode()).digest())


@dataclass(frozen=True, slots=True)
class Person:
    """Whom a provider has signed in. Who it is, is `issuer` and `subject`, and nothing else."""

    issuer: str
    subject: str
    hint: str
    """What one may be called."""
    groups: tuple[str, ...] | None
    """None: the claim is not there."""


class Place(NamedTuple):
    """Where a group leads."""

    tenant: str
    role: Role


def metadata_of(document: object, settings: OidcSettings) -> Metadata:
    """What a provider says of itself. Raises: ProviderFault."""
    if not isinstance(document, Mapping):
        raise ProviderFault("its description is no object")
    if document.get("issuer") != settings.issuer:
        raise ProviderFault(f"it calls itself {str(document.get('issuer'))[:200]!r}, not {settings.issuer}")
    methods = _texts(document.get("token_endpoint_auth_methods_supported"))
    return Metadata(
        authorization_endpoint=_endpoint(document, "authorization_endpoint")
        or _lacks("authorization_endpoint"),
        token_endpoint=_endpoint(document, "token_endpoint") or _lacks("token_endpoint"),
        jwks_uri=_endpoint(document, "jwks_uri") or _lacks("jwks_uri"),
        userinfo_endpoint=_endpoint(document, "userinfo_endpoint"),
        end_session_endpoint=_endpoint(document, "end_session_endpoint"),
        scopes=_texts(document.get("scopes_supported")),
        tells_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        posts_secret="client_secret_post" in methods and "client_secret_basic" not in methods,
    )


def _lacks(name: str) -> str:
    raise ProviderFault(f"it has no {name}")


def _endpoint(document: Mapping[str, object], name: str) -> str | None:
    url = document.get(name)
    if url is None:
        return None
    fault = url_fault(url) if isinstance(url, str) else "is no text"
    if fault is not None:
        raise ProviderFault(f"its {name} {fault}")
    return str(url)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def new_cookie(drawn: str, now_ms: int) -> str:
    """The cookie of an attempt that begins: when, and what was drawn, at least 256 bits."""
    return f"{now_ms}.{drawn}"


def attempt_of(cookie: str) -> Attempt:
    """What the provider is told, of a cookie that it never sees."""
    return Attempt(*(_b64(_derived(cookie, what)) for what in ("state", "nonce", "verifier")))


def attempt_that_returns(cookie: str | None, state: str, now_ms: int) -> Attempt:
    """The attempt of this browser that a provider's answer belongs to. Raises: NotSignedIn."""
    began, dot, drawn = (cookie or "").partition(".")
    if not dot or not began.isascii() or not began.isdigit() or len(began) > 15 or len(drawn) < 43:
        raise NotSignedIn("this sign-in was not begun in this browser, or its cookie is gone: begin again")
    if not -1000 * SKEW_S <= now_ms - int(began) <= ATTEMPT_MS_MAX:
        raise NotSignedIn("this took longer than ten minutes: begin again")
    attempt = attempt_of(cookie or "")
    if not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise NotSignedIn(
            "this answer belongs to another sign-in than the one this browser began: begin again"
        )
    return attempt


def _derived(cookie: str, what: str) -> bytes:
    return hmac.new(cookie.encode(), f"portico/oidc/1/{what}".encode(), hashlib.sha256).digest()


def _b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def check_issuer(said: str | None, metadata: Metadata, settings: OidcSettings) -> None:
    """Whose answer it is (RFC 9207). Raises: NotSignedIn."""
    if said is None and not metadata.tells_issuer:
        return
    if said != settings.issuer:
        raise NotSignedIn("this answer is not from the identity provider that was asked")


def authorization_url(metadata: Metadata, settings: OidcSettings, attempt: Attempt) -> str:
    """Where the browser goes to sign in."""
    scopes = ["openid", *(one for one in ("profile", "groups") if one in metadata.scopes)]
    asked = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": settings.redirect_uri,
        "scope": " ".join(scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": attempt.challenge,
        "code_challenge_method": "S256",
    }
    return _with_query(metadata.authorization_endpoint, asked)


def end_session_url(metadata: Metadata, settings: OidcSettings) -> str | None:
    """Where a person ends the session at the provider, too (RP-Initiated Logout 1.0)."""
    if metadata.end_session_endpoint is None:
        return None
    asked = {"client_id": settings.client_id, "post_logout_redirect_uri": settings.redirect_uri}
    return _with_query(metadata.end_session_endpoint, asked)


def _with_query(url: str, asked: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(asked)}"


def chosen_key(keys: Iterable[Key], header: Mapping[str, object]) -> Key | None:
    """The one key that a token can be checked by; nothing that a token says leads anywhere else."""
    kid, algorithm = header.get("kid"), header.get("alg")
    fitting = [key for key in keys if (kid is None or key.kid == kid) and key.alg in (None, algorithm)]
    if kid is None:  # of several kinds of keys without names, the algorithm says which
        kind = "EC" if str(algorithm).startswith("ES") else "RSA"
        fitting = [key for key in fitting if key.key_type == kind]
    return fitting[0] if len(fitting) == 1 else None


class UnknownKey(ProviderFault):
    """A token of a key that is not among the provider's as they are known: they may have changed."""


def claims_of(
    token: str, keys: Iterable[Key], settings: OidcSettings, nonce: str, now_ms: int
) -> dict[str, object]:
    """What an ID token says: it has to be for us and for this attempt. Raises: UnknownKey, ProviderFault."""
    if len(token) > TOKEN_BYTES_MAX:
        raise ProviderFault(f"an ID token of {len(token)} characters")
    known = list(keys)

    def signed_by(signature: GuestProtocol) -> Key:
        key = chosen_key(known, signature.headers())
        if key is None:
            raise UnknownKey(f"an ID token of key {str(signature.headers().get('kid'))[:80]!r}")
        return key

    registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
    registry.max_payload_length = TOKEN_BYTES_MAX
    rules = jwt.JWTClaimsRegistry(
        now=now_ms // 1000,
        leeway=SKEW_S,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        claims = jwt.decode(token, signed_by, registry=registry).claims
        rules.validate(claims)
    except (JoseError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ProviderFault(f"its ID token: {type(error).__name__}: {error}"[:300]) from error
    _check_for_us(claims, settings)
    return dict(claims)


def _check_for_us(claims: Mapping[str, object], settings: OidcSettings) -> None:
    """Raises: ProviderFault."""
    audience = claims.get("aud")
    if isinstance(audience, list) and len(audience) > 1 and "azp" not in claims:
        raise ProviderFault("its ID token is for several, and does not say who asked (azp)")
    if claims.get("azp", settings.client_id) != settings.client_id:
        raise ProviderFault("its ID token was asked for by somebody else (azp)")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_CHARS_MAX or not subject.isprintable():
        raise ProviderFault("its ID token names nobody (sub)")


def person_of(claims: Mapping[str, object], more: Mapping[str, object], settings: OidcSettings) -> Person:
    """Whom the claims mean; `more` is what `userinfo` said, empty where it was not asked.

    Raises: ProviderFault.
    """
    if more and more.get("sub") != claims["sub"]:
        raise ProviderFault("its userinfo is about somebody else than its ID token")
    said = {**more, **claims}
    groups = _groups(said.get(settings.groups_claim))
    return Person(settings.issuer, str(claims["sub"]), _hint(said), groups)


def _groups(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return None
    named = (one for one in value if isinstance(one, str) and IS_GROUP(one))
    return tuple(dict.fromkeys(named))[:GROUPS_MAX]


def _hint(claims: Mapping[str, object]) -> str:
    for name in _HINTS:
        said = claims.get(name)
        if isinstance(said, str):
            short = _HINT.sub("-", said[:200].partition("@")[0]).strip("-._")[:_HINT_CHARS_MAX]
            if short and name_fault(short) is None:
                return short
    return "member"


def names_for(hint: str, drawn: str) -> list[str]:
    """What a new member may be called, the first that is free: nobody is taken for whoever has the name."""
    return [hint, *(f"{hint}-{number}" for number in range(2, 20)), f"{hint}-{drawn}"]


def place_of(places: Iterable[Place], home: str | None) -> Place | None:
    """Where a person belongs whose groups lead there: at most one tenant, its home if it still may be there.

    Operators and admins before all; then the strongest role, then the tenant by name.
    """
    ranked = sorted(places, key=lambda one: (list(Role).index(one.role), one.tenant))
    staff = next((one for one in ranked if one.role in (Role.ADMIN, Role.OPERATOR)), None)
    at_home = next((one for one in ranked if one.tenant == home), None)
    return staff or at_home or next(iter(ranked), None)
