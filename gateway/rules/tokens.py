"""What clients say with OAUTHBEARER, and what a token of theirs comes to (RFC 7628). Pure."""

from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from contracts.oauth import OauthSpec

_BEARER: Final = "bearer "
_SEPARATOR: Final = "\x01"


class TokenFault(Exception):  # noqa: N818 - the client's doing
    """A token is not taken; the text is for our log."""


class Terms(NamedTuple):
    """By what a token was taken: while this stands, so does the login."""

    issuer: str
    audience: str
    principal_claim: str
    scope: str
    key: str
    """The thumbprint of the key that has signed it."""


class Taken(NamedTuple):
    """What a token says."""

    user: str
    expires_epoch_ms: int
    terms: Terms


class Bearer(NamedTuple):
    """A client's message (RFC 7628, 3.1)."""

    user: str
    """Whom it wants to be; empty: whom the token names."""
    token: str


def bearer_message(message: bytes) -> Bearer:
    """What a client says. Raises: TokenFault."""
    try:
        head, *pairs = message.decode().split(_SEPARATOR)
    except ValueError as error:
        raise TokenFault("no message of OAUTHBEARER") from error
    binding, _, rest = head.partition(",")
    user, _, end = rest.partition(",")
    values = dict(pair.partition("=")[::2] for pair in pairs if pair)
    authorization = values.get("auth", "")
    is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
    if binding not in ("n", "y") or end or not is_bearer or (user and not user.startswith("a=")):
        raise TokenFault("no message of OAUTHBEARER")
    named = user.removeprefix("a=").replace("=2C", ",").replace("=3D", "=")
    return Bearer(named, authorization[len(_BEARER) :])


def counted_as(message: bytes) -> str:
    """What wrong tokens are counted by: the same one again and again is not its neighbours' doing."""
    return f"token {sha256(message).hexdigest()[:32]}"


class Tokens(Protocol):
    """By which tokens clients of one instance log in."""

    spec: OauthSpec

    def holds(self, terms: Terms) -> bool:
        """Whether a token that was taken by these would be today."""
        ...

    def take(self, token: str, now_epoch_ms: int) -> Taken:
        """Who brings it, and how long that holds. Raises: TokenFault."""
        ...
