"""SASL PLAIN between Portico's own processes (RFC 4616). Pure."""

import hmac
import re
from typing import Final, NamedTuple

MECHANISM: Final = "PLAIN"
USER: Final = "portico"
_PEER_BROKER: Final = re.compile(r"broker/([0-9]{1,9})/([0-9]{1,18})", re.ASCII)


class PeerBroker(NamedTuple):
    """A broker of this cluster at the other end of a connection, in one of its lives."""

    broker_id: int
    broker_epoch: int

    @property
    def authorization_id(self) -> str:
        """How it introduces itself."""
        return f"broker/{self.broker_id}/{self.broker_epoch}"


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


def peer_broker(authorization_id: str) -> PeerBroker | None:
    """The broker in `broker/<id>/<epoch>`, None when it is none."""
    found = _PEER_BROKER.fullmatch(authorization_id)
    return None if found is None else PeerBroker(int(found[1]), int(found[2]))


def client_address(authorization_id: str) -> str | None:
    """The IP address in `ip:port` or `[ip]:port`, None when there is none."""
    host, separator, port = authorization_id.rpartition(":")
    if not separator or not port.isdecimal() or len(host) > 64:
        return None
    return host.removeprefix("[").removesuffix("]") or None
