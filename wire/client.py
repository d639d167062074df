"""A client's side of Kafka's protocol without a socket: framing, correlation ids, versions, login.

Who holds the socket sends the frames that a session makes, and hands it the frames that come, in their order.
"""

import struct
from collections import deque
from typing import Any, Final, NamedTuple

from kio.schema.sasl_authenticate.v1 import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

from wire.codec import decode_response, framed_request
from wire.faults import MalformedFrame
from wire.framing import frame_size

SASL_USER: Final = "portico"
_RESPONSE_BYTES_MIN: Final = 4
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
_TLS_ALERT: Final = b"\x15\x03"
"""How a record begins in which a peer says that it expected TLS; no response is as large as that."""
_I32: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">ihhih")


class LoginRefused(Exception):  # noqa: N818 - a verdict of the peer
    """The broker does not let this client in."""


def plain_token(secret: str, authorization_id: str = "") -> bytes:
    """The SASL PLAIN message of a Portico process (RFC 4616)."""
    return f"{authorization_id}\0{SASL_USER}\0{secret}".encode()


def login_requests(token: bytes) -> tuple[Any, Any]:
    """The two requests of a SASL PLAIN login; `expect_login` judges the answer to the second one."""
    return SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)


def expect_login(answer: Any) -> None:
    """Raises: LoginRefused."""
    if answer.error_code.value != 0:
        raise LoginRefused(f"the broker refused the deployment's secret: {answer.error_message}")


def response_size(prefix: bytes | bytearray, *, bytes_max: int = RESPONSE_BYTES_MAX) -> int:
    """The size of a response from its 4-byte length prefix. Raises: MalformedFrame."""
    if prefix[:2] == _TLS_ALERT:
        raise SpeaksTls("it speaks TLS at that port")
    return frame_size(prefix, 0, bytes_min=_RESPONSE_BYTES_MIN, bytes_max=bytes_max)


class SpeaksTls(MalformedFrame):
    """What came is an alert of TLS."""


class Pending(NamedTuple):
    """A request whose response is still to come."""

    correlation_id: int
    api_key: int
    api_version: int


class ClientSession:
    """What was sent on one connection and is not answered yet: responses come in the order of requests."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self.pending: deque[Pending] = deque()

    def request(self, entity: Any) -> bytes:
        """The frame of a kio request."""
        return framed_request(entity, self._next(entity.__api_key__, entity.__version__), self._client_id)

    def message_head(self, api_key: int, api_version: int, body_bytes: int) -> bytes:
        """Length prefix and header (v1) of a request whose body is there already."""
        client = self._client_id.encode()
        size = _REQUEST_HEAD.size - _I32.size + len(client) + body_bytes
        correlation_id = self._next(api_key, api_version)
        return _REQUEST_HEAD.pack(size, api_key, api_version, correlation_id, len(client)) + client

    def _next(self, api_key: int, api_version: int) -> int:
        self._correlation_id += 1
        self.pending.append(Pending(self._correlation_id, api_key, api_version))
        return self._correlation_id

    def response(self, frame: bytes) -> Any:
        """The kio response in a frame that answers the oldest request. Raises: MalformedFrame."""
        pending = self.answered(frame)
        return decode_response(frame, pending.api_key, pending.api_version)[1]

    def answered(self, frame: bytes) -> Pending:
        """The oldest request, which this frame answers. Raises: MalformedFrame."""
        pending = self.pending.popleft()
        (correlation_id,) = _I32.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            raise MalformedFrame(f"correlation id {correlation_id}, not {pending.correlation_id}")
        return pending
