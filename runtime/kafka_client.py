"""A small Kafka client for the control plane and tests: one request at a time, whole messages through kio."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

from kio.static.protocol import Payload

from contracts.upstream import ClusterTrouble
from runtime.network import KERNEL_NETWORK, Network
from runtime.upstream import Refused, Upstream, judged
from wire.client import (
    RESPONSE_BYTES_MAX,
    ClientSession,
    LoginRefused,
    SpeaksTls,
    expect_login,
    login_requests,
    plain_token,
    response_size,
)
from wire.faults import MalformedFrame
from wire.login import EntryRefused, next_request

Response = TypeVar("Response")


class KafkaUnavailable(Exception):  # noqa: N818 - a state of the peer
    """The broker could not be reached, closed the connection, refused the secret, or answered nonsense."""

    trouble = ClusterTrouble.UNREACHABLE


class KafkaRefused(KafkaUnavailable):
    """A cluster that is not ours does not let us in, or we do not trust it: soon again is of no use."""

    def __init__(self, says: str, trouble: ClusterTrouble) -> None:
        super().__init__(says)
        self.trouble = trouble


class KafkaConnection:
    """One connection to one broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._session = ClientSession(client_id)
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
        upstream: Upstream | None = None,
        server_name: str | None = None,
        timeout_s: float = 5.0,
        network: Network = KERNEL_NETWORK,
    ) -> "KafkaConnection":
        """Connect and, with a secret, authenticate, perhaps for somebody; `upstream` says what a cluster of
        others wants instead, whose certificate is for `server_name` or else the host.

        Raises: KafkaUnavailable.
        """
        try:
            if upstream is not None:
                upstream.enter((host, port))
            async with asyncio.timeout(timeout_s):
                reader, writer = await network.open(host, port)
                connection = cls(reader, writer, client_id)
                if secret is not None:
                    await connection._authenticate(secret, authorization_id)
                if upstream is not None:
                    await connection._enter(upstream, (host, port), server_name or host)
                return connection
        except Refused as refused:
            raise KafkaRefused(f"broker {host}:{port}: {refused}", refused.trouble) from refused
        except (OSError, TimeoutError) as error:
            raise KafkaUnavailable(
                f"broker {host}:{port} cannot be reached: {_reason(error, timeout_s)}"
            ) from error

    async def _authenticate(self, secret: str, authorization_id: str) -> None:
        handshake, authenticate = login_requests(plain_token(secret, authorization_id))
        await self.call(handshake)
        answer = await self.call(authenticate)
        try:
            expect_login(answer)
        except LoginRefused as refused:
            self.close()
            raise KafkaUnavailable(str(refused)) from refused

    async def _enter(self, upstream: Upstream, address: tuple[str, int], server_name: str) -> None:
        """Raises: Refused, OSError, KafkaUnavailable."""
        is_answered = False
        try:
            if upstream.context is not None:
                await self._writer.start_tls(upstream.context, server_hostname=server_name)
            steps = upstream.steps()
            request: Payload | None = next(steps)
            while request is not None:
                answer = await self.call(request)
                is_answered = True
                request = next_request(steps, answer)
        except (OSError, EntryRefused, KafkaUnavailable) as error:
            self.close()
            told = error.__cause__ if isinstance(error, KafkaUnavailable) else error
            refused = _refused(told, upstream.security.tls and not is_answered)
            if refused is None:
                raise
            upstream.refused(address, refused)
            raise refused from error
        except BaseException:
            self.close()
            raise
        upstream.entered(address)

    async def call(
        self, request: Any, *, timeout_s: float = 10.0, response_bytes_max: int | None = None
    ) -> Any:
        """Send a kio request, return its response.

        Raises: KafkaUnavailable, also for a response of more bytes, and the connection is closed.
        """
        async with self._turn:
            return await self._exchange(
                lambda: self._session.request(request), self._session.response, timeout_s, response_bytes_max
            )

    async def call_message(
        self, api_key: int, api_version: int, body: bytes, *, timeout_s: float = 10.0
    ) -> bytes:
        """Send a message that is not kio's, with a header of the old kind, return the body of its response.

        Raises: KafkaUnavailable, and the connection is closed.
        """
        async with self._turn:
            return await self._exchange(
                lambda: self._session.message_head(api_key, api_version, len(body)) + body,
                self._body,
                timeout_s,
            )

    def _body(self, frame: bytes) -> bytes:
        self._session.answered(frame)
        return frame[4:]

    async def _exchange(
        self,
        framed: Callable[[], bytes],
        decoded: Callable[[bytes], Response],
        timeout_s: float,
        response_bytes_max: int | None = None,
    ) -> Response:
        if self.is_closed:  # by the failure of a call before this one, which waited for its turn
            raise KafkaUnavailable("the connection to the broker is closed")
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(framed())
                await self._writer.drain()
                prefix = await self._reader.readexactly(4)
                size = response_size(prefix, bytes_max=response_bytes_max or RESPONSE_BYTES_MAX)
                frame = await self._reader.readexactly(size)
            return decoded(frame)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, MalformedFrame) as error:
            self.close()
            raise KafkaUnavailable(f"the broker gave no answer: {_reason(error, timeout_s)}") from error
        except BaseException:
            self.close()  # cancelled half-way: the next answer would be this one's
            raise

    @property
    def is_closed(self) -> bool:
        """Whether the connection can no longer be used, as far as is known: the peer may have closed it."""
        return self._writer.is_closing() or self._reader.at_eof() or self._reader.exception() is not None

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def _refused(error: BaseException | None, began_with_tls: bool) -> Refused | None:
    """What a failure on the way in says; None: only that the broker is not there now."""
    if isinstance(error, EntryRefused | SpeaksTls | ssl.SSLError):
        return judged(error)
    has_ended = isinstance(error, ConnectionError | asyncio.IncompleteReadError)
    return judged(ConnectionResetError()) if has_ended and began_with_tls else None


def _reason(error: Exception, timeout_s: float) -> str:
    match error:
        case TimeoutError():
            return f"nothing came within {timeout_s:g} s"
        case asyncio.IncompleteReadError():
            return "it closed the connection"
        case _:
            return f"{error}" or type(error).__name__
