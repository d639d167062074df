"""How a gateway logs in at a broker without a round trip: two requests in front of the client's first one.

SASL PLAIN with the deployment's secret; the authorization id, `<instance id>/<ip:port>`, says who pays for
what comes on the connection, and the client's address, which the broker shows in DescribeGroups. Without a
secret the broker is open on loopback and nothing is sent.
"""

from typing import Final

from wire.client import login_requests, plain_token
from wire.codec import framed_request

_CLIENT_ID: Final = "portico-gateway"


class Login:
    """The frames of one secret, the constant one encoded once."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        handshake, _ = login_requests(b"")
        self._handshake = framed_request(handshake, 1, _CLIENT_ID)

    def frames(self, instance_id: str, peer: str) -> list[bytes]:
        """What goes up first on a connection for an instance's client at `peer`."""
        if self._secret is None:
            return []
        _, authenticate = login_requests(plain_token(self._secret, f"{instance_id}/{peer}"))
        return [self._handshake, framed_request(authenticate, 2, _CLIENT_ID)]
