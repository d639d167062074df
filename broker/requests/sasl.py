"""SASL PLAIN between Portico's own processes (RFC 4616). Pure."""

import hmac
import re
from typing import Final, NamedTuple

from contracts.names import is_instance_id

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


class Client(NamedTuple):
    """Whom a gateway at the other end of a connection speaks for."""

    instance_id: str | None
    """Who pays; None: nobody in particular."""
    address: str


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


def client_of(authorization_id: str) -> Client | None:
    """The client in `<instance id>/ip:port` or `<instance id>/[ip]:port`, None when there is none.

    The instance may be left out.
    """
    first, separator, rest = authorization_id.partition("/")
    instance_id, peer = (first, rest) if separator else (None, first)
    host, colon, port = peer.rpartition(":")
    if not colon or not port.isdecimal() or len(host) > 64:
        return None
    if instance_id is not None and not is_instance_id(instance_id):
        return None
    host = host.removeprefix("[").removesuffix("]")
    return Client(instance_id, host) if host else None
