"""A small Kafka client for the control plane and tests: one request at a time, whole messages through kio."""

import asyncio
import struct
from typing import Any, Final

from kio.schema.sasl_authenticate.v1 import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

from wire.codec import MalformedFrame, decode_response, framed_request

SASL_USER: Final = "portico"
_SIZE = struct.Struct(">i")
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
        timeout_s: float = 5.0,
    ) -> "KafkaConnection":
        """Connect and, with a secret, authenticate. Raises: KafkaUnavailable."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(host, port)
                connection = cls(reader, writer, client_id)
                if secret is not None:
                    await connection._authenticate(secret)
                return connection
        except (OSError, TimeoutError) as error:
            raise KafkaUnavailable(f"broker {host}:{port} cannot be reached: {error}") from error

    async def _authenticate(self, secret: str) -> None:
        await self.call(SaslHandshakeRequest(mechanism="PLAIN"))
        answer = await self.call(SaslAuthenticateRequest(auth_bytes=plain_token(secret)))
        if answer.error_code != 0:
            self.close()
            raise KafkaUnavailable(f"the broker refused the deployment's secret: {answer.error_message}")

    async def call(self, request: Any, *, timeout_s: float = 10.0) -> Any:
        """Send a kio request, return its response. Raises: KafkaUnavailable, and the connection is closed."""
        async with self._turn:
            if self.is_closed:  # by the failure of a call before this one, which waited for its turn
                raise KafkaUnavailable("the connection to the broker is closed")
            self._correlation_id += 1
            try:
                async with asyncio.timeout(timeout_s):
                    self._writer.write(framed_request(request, self._correlation_id, self._client_id))
                    await self._writer.drain()
                    (size,) = _SIZE.unpack(await self._reader.readexactly(4))
                    if not 4 <= size <= _RESPONSE_BYTES_MAX:
                        raise MalformedFrame(f"a response of {size} bytes")
                    frame = await self._reader.readexactly(size)
                correlation_id, response = decode_response(frame, request.__api_key__, request.__version__)
                if correlation_id != self._correlation_id:
                    raise MalformedFrame(f"correlation id {correlation_id}, not {self._correlation_id}")
            except (OSError, TimeoutError, asyncio.IncompleteReadError, MalformedFrame) as error:
                self.close()
                raise KafkaUnavailable(
                    f"the broker gave no answer: {type(error).__name__} {error}"
                ) from error
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
