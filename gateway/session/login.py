"""What a broker says to our own login, which goes up in front of a client's first request."""

from typing import Final

from contracts.tracing import TAKES_TRACES
from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop
from wire.api_table import ApiKey
from wire.codec import decode_response

_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)


def check_login_reply(frame: memoryview, replies_due: int) -> bool:
    """Take the reply to the handshake (two due) or to the authentication (one due); whether it says that the
    broker takes traces.

    Raises: ConnectionStop when the broker refuses, MalformedFrame.
    """
    api_key = _HANDSHAKE if replies_due == 2 else _AUTHENTICATE
    _, reply = decode_response(bytes(frame[4:]), api_key, 1)
    if reply.error_code != 0:
        detail = getattr(reply, "error_message", None) or f"error {int(reply.error_code)}"
        raise ConnectionStop(DisconnectCause.UPSTREAM_LOGIN_REFUSED, detail)
    return getattr(reply, "auth_bytes", b"") == TAKES_TRACES
