"""Who is at the other end of a connection: SASL PLAIN between Portico's own processes (RFC 4616). Pure."""

import hmac
import re
from enum import Enum
from typing import Final, NamedTuple

from broker.requests.payer import Payer
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


class LoginState(Enum):
    """How far the peer has come."""

    NEW = "new"
    AGREED = "agreed"
    """On the mechanism; SaslAuthenticate brings the token (KIP-152)."""
    TOKEN_DUE = "token due"
    """SaslHandshake v0: the next frame is the token itself."""
    OPEN = "open"
    """The secret was proved, or none is asked for."""


class LoginEvent(Enum):
    """What moves it on."""

    AGREES = "agrees"
    AGREES_ON_BARE_TOKEN = "agrees on a bare token"
    LOGS_IN = "logs in"


LOGIN: Final[dict[tuple[LoginState, LoginEvent], LoginState]] = {
    (LoginState.NEW, LoginEvent.AGREES): LoginState.AGREED,
    (LoginState.NEW, LoginEvent.AGREES_ON_BARE_TOKEN): LoginState.TOKEN_DUE,
    (LoginState.AGREED, LoginEvent.AGREES): LoginState.AGREED,
    (LoginState.AGREED, LoginEvent.AGREES_ON_BARE_TOKEN): LoginState.TOKEN_DUE,
    (LoginState.AGREED, LoginEvent.LOGS_IN): LoginState.OPEN,
    (LoginState.TOKEN_DUE, LoginEvent.LOGS_IN): LoginState.OPEN,
}


class Login:
    """The login of one connection, and whom it turned out to be for."""

    __slots__ = (
        "awaits_token",
        "client_host",
        "is_open",
        "payer",
        "peer_broker",
        "speaks_for_client",
        "state",
    )

    def __init__(self, client_host: str, *, is_open: bool) -> None:
        self.state = LoginState.OPEN if is_open else LoginState.NEW
        self.is_open = is_open
        """This and the next are asked with every frame."""
        self.awaits_token = False
        self.client_host = client_host
        """Behind a gateway that of the gateway's client."""
        self.speaks_for_client = False
        """A gateway at the other end passes on what a client asks."""
        self.peer_broker: PeerBroker | None = None
        """The broker of this cluster that speaks, if one does: it may fetch as a replica and give orders."""
        self.payer: Payer | None = None
        """The instance that a gateway named, if one did."""

    def _moves(self, event: LoginEvent) -> None:
        self.state = LOGIN[self.state, event]
        self.is_open = self.state is LoginState.OPEN
        self.awaits_token = self.state is LoginState.TOKEN_DUE

    def agrees(self, *, on_bare_token: bool) -> None:
        """SaslHandshake succeeded. Raises: KeyError for a state where it cannot come, which is a bug."""
        self._moves(LoginEvent.AGREES_ON_BARE_TOKEN if on_bare_token else LoginEvent.AGREES)

    def logs_in(self, authorization_id: str) -> str | None:
        """The peer proved the secret; a broker says who it is, a gateway whom it speaks for. The instance
        that is to pay is the answer. Raises: KeyError for a state where it cannot come, which is a bug."""
        self._moves(LoginEvent.LOGS_IN)
        self.peer_broker = peer_broker(authorization_id)
        client = client_of(authorization_id)
        if client is None:
            return None
        self.speaks_for_client = True
        self.client_host = client.address
        return client.instance_id
