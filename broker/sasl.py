"""SASL PLAIN between Portico's own processes (RFC 4616). Pure."""

import hmac
from typing import Final

MECHANISM: Final = "PLAIN"
USER: Final = "portico"


def check_plain(token: bytes, secret: str) -> str | None:
    """The authorization id of a good token (may be empty), or None."""
    parts = bytes(token).split(b"\0")
    if len(parts) != 3:
        return None
    good_user = hmac.compare_digest(parts[1], USER.encode())
    good_secret = hmac.compare_digest(parts[2], secret.encode())
    if not (good_user and good_secret):
        return None
    return parts[0].decode("utf-8", "replace")


def client_address(authorization_id: str) -> str | None:
    """The IP address in `ip:port` or `[ip]:port`, None when there is none."""
    host, separator, port = authorization_id.rpartition(":")
    if not separator or not port.isdecimal() or len(host) > 64:
        return None
    return host.removeprefix("[").removesuffix("]") or None
