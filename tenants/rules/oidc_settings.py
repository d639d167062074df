"""What operators say of the identity provider by which people sign in. Pure; loads no cryptography."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from contracts.shapes import LETTER, matching

GROUP_CHARS_MAX: Final = 256
GROUP_SHAPE: Final = f"^{LETTER}{{1,{GROUP_CHARS_MAX}}}$"
"""What a group of the identity provider may be called to be let in."""
IS_GROUP: Final = matching(GROUP_SHAPE).match
"""Of a group's name, and of what else is named here."""
_URL_CHARS_MAX: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Who signs people in, as the operator said."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    """None: a public client, which PKCE alone proves."""
    groups_claim: str = "groups"
    console_url: str
    """Where browsers find the console: they come back there, and nowhere else."""

    @property
    def redirect_uri(self) -> str:
        """What is registered at the provider."""
        return self.console_url.rstrip("/") + "/"


def url_fault(url: str) -> str | None:
    """Why a provider is not asked at a URL: over a network that others read, anybody would be it."""
    if len(url) > _URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        return f"is no URL of at most {_URL_CHARS_MAX} characters of ASCII"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if not host or parts.username is not None or parts.password is not None or parts.fragment:
        return "names no host, or a user, a password or a fragment"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return None
    return "must begin with https:// (http:// only on this machine)"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def settings_fault(settings: OidcSettings) -> str | None:
    """What is wrong with what the operator said, in a sentence."""
    for name, url in (("issuer", settings.issuer), ("console URL", settings.console_url)):
        fault = url_fault(url)
        if fault is None and urlsplit(url).query:
            fault = "has a query"
        if fault is not None:
            return f"the {name} {fault}"
    for name, text in (("client id", settings.client_id), ("groups claim", settings.groups_claim)):
        if not IS_GROUP(text):
            return f"the {name} has 1 to {GROUP_CHARS_MAX} characters that can be printed"
    return None
