"""A small Kafka client for the control plane and tests: one request at a time, whole messages through kio."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kio.schema.sasl_authenticate.v1 import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

from runtime.network import KERNEL_NETWORK, Network
from wire.codec import MalformedFrame, decode_response, framed_request

SASL_USER: Final = "portico"
_SIZE: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">hhih")
Response = TypeVar("Response")
_RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024


class KafkaUnavailable(Exception):  # noqa: N818 - a state of the peer
    """The broker could not be reached, closed the connection, refused the secret, or answered nonsense."""


def plain_token(secret: str, authorization_id: str = "") -> bytes:
    """The SASL PLAIN message of a Portico process (RFC 4616)."""
    return f"{authorization_id}\0{SASL_USER}\0{secret}".encode()


class KafkaConnection:
    """One connection to one broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        secret: str | None = None,
        client_id: str = "portico",
        authorization_id: str = "",
        timeout_s: float = 5.0,
        network: Network = KERNEL_NETWORK,
    ) -> "KafkaConnection":
        """Connect and, with a secret, authenticate, perhaps for somebody. Raises: KafkaUnavailable."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await network.open(host, port)
                connection = cls(reader, writer, client_id)
                if secret is not None:
                    await connection._authenticate(secret, authorization_id)
                return connection
        except (OSError, TimeoutError) as error:
            raise KafkaUnavailable(
                f"broker {host}:{port} cannot be reached: {_reason(error, timeout_s)}"
            ) from error

    async def _authenticate(self, secret: str, authorization_id: str) -> None:
        await self.call(SaslHandshakeRequest(mechanism="PLAIN"))
        token = plain_token(secret, authorization_id)
        answer = await self.call(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code != 0:
            self.close()
            raise KafkaUnavailable(f"the broker refused the deployment's secret: {answer.error_message}")

    async def call(self, request: Any, *, timeout_s: float = 10.0) -> Any:
        """Send a kio request, return its response. Raises: KafkaUnavailable, and the connection is closed."""
        return await self._exchange(
            lambda correlation_id: framed_request(request, correlation_id, self._client_id),
            lambda frame: decode_response(frame, request.__api_key__, request.__version__),
            timeout_s,
        )

    async def call_message(
        self, api_key: int, api_version: int, body: bytes, *, timeout_s: float = 10.0
    ) -> bytes:
        """The same for messages that are not kio's, with headers of the old kind: the response's body."""
        return await self._exchange(
            lambda correlation_id: _framed_message(
                api_key, api_version, correlation_id, self._client_id, body
            ),
            _split_message,
            timeout_s,
        )

    async def _exchange(
        self,
        framed: Callable[[int], bytes],
        decoded: Callable[[bytes], tuple[int, Response]],
        timeout_s: float,
    ) -> Response:
        async with self._turn:
            if self.is_closed:  # by the failure of a call before this one, which waited for its turn
                raise KafkaUnavailable("the connection to the broker is closed")
            self._correlation_id += 1
            try:
                async with asyncio.timeout(timeout_s):
                    self._writer.write(framed(self._correlation_id))
                    await self._writer.drain()
                    (size,) = _SIZE.unpack(await self._reader.readexactly(4))
                    if not 4 <= size <= _RESPONSE_BYTES_MAX:
                        raise MalformedFrame(f"a response of {size} bytes")
                    frame = await self._reader.readexactly(size)
                correlation_id, response = decoded(frame)
                if correlation_id != self._correlation_id:
                    raise MalformedFrame(f"correlation id {correlation_id}, not {self._correlation_id}")
            except (OSError, TimeoutError, asyncio.IncompleteReadError, MalformedFrame) as error:
                self.close()
                raise KafkaUnavailable(f"the broker gave no answer: {_reason(error, timeout_s)}") from error
            except BaseException:
                self.close()  # cancelled half-way: the next answer would be this one's
                raise
            return response

    @property
    def is_closed(self) -> bool:
        """Whether the connection can no longer be used, as far as is known: the peer may have closed it."""
        return self._writer.is_closing() or self._reader.at_eof() or self._reader.exception() is not None

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def _reason(error: Exception, timeout_s: float) -> str:
    match error:
        case TimeoutError():
            return f"nothing came within {timeout_s:g} s"
        case asyncio.IncompleteReadError():
            return "it closed the connection"
        case _:
            return f"{error}" or type(error).__name__


def _framed_message(
    api_key: int, api_version: int, correlation_id: int, client_id: str, body: bytes
) -> bytes:
    client = client_id.encode()
    head = _REQUEST_HEAD.pack(api_key, api_version, correlation_id, len(client)) + client
    return _SIZE.pack(len(head) + len(body)) + head + body


def _split_message(frame: bytes) -> tuple[int, bytes]:
    return int(_SIZE.unpack_from(frame)[0]), frame[4:]
