"""One request to a URL that a tenant gave: a name is resolved once, and what was checked is connected to.

No redirect is followed, no proxy and no environment is asked, and whatever the other side does is bounded in
time and bytes. Names are looked up in threads of their own, of which a tenant has a few: a resolver that
hangs for one tenant's names holds up no other work. What a tenant is told names no address: it would map our
networks.
"""

import asyncio
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

from runtime.logs import get_logger
from runtime.trusted import authorities
from tenants.rules.webhooks import ANSWER_BYTES_MAX, ATTEMPT_MS_MAX, Network, fault_of_url, refusal_of

_log = get_logger(__name__)
_PORTS: Final = {"http": 80, "https": 443}
_CHUNK_BYTES: Final = 4096
LOOKUPS_MAX: Final = 256
"""Names of tenants' addresses that are looked up at once, over all tenants: a thread each."""
LOOKUPS_MAX_PER_TENANT: Final = 3
"""Names of one tenant's addresses that are looked up at once, also those that nobody waits for any more."""
LOOKUP_MS_MAX: Final = 5_000
"""How long a request waits for its name; the thread is the resolver's until that gives up."""
_HANGING: Final = "names of this tenant's addresses have been looked up for long without an answer"


class NoAnswer(Exception):  # noqa: N818 - an outcome
    """There was none that may be used; the sentence says why, and is the tenant's to read."""


class Sent(NamedTuple):
    """What is sent, and how much of an answer is read."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    answer_bytes_max: int = 0
    """Of the answer's body; 0: only its status counts, and nothing behind its head is read."""


class Answered(NamedTuple):
    """An answer."""

    status: int
    body: bytes


class TenantHttp:
    """Sends to whatever URL, within the ranges that may be called."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = tuple(allowed)
        self._looked_up: Counter[str] = Counter()
        """By tenant: look-ups under way, waited for or not."""

    async def call(self, tenant: str, sent: Sent) -> Answered:
        """One attempt. Raises: NoAnswer, whatever the other side does."""
        fault = fault_of_url(sent.url)
        if fault is not None:
            raise NoAnswer(f"the URL {fault}")
        try:
            async with asyncio.timeout(ATTEMPT_MS_MAX / 1000):
                return await self._call(tenant, sent)
        except TimeoutError:
            raise NoAnswer(f"no answer within {ATTEMPT_MS_MAX // 1000} s") from None
        except (ssl.SSLError, h11.ProtocolError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}"[:300]) from error
        except OSError as error:  # its own words name the address
            told = os.strerror(error.errno) if error.errno else type(error).__name__
            raise NoAnswer(told) from error

    async def _call(self, tenant: str, sent: Sent) -> Answered:
        """Raises: NoAnswer, OSError, h11.ProtocolError."""
        parts = urlsplit(sent.url)
        host = parts.hostname or ""
        port = parts.port or _PORTS[parts.scheme]
        address = await self._checked(tenant, host, port)
        if _is_own(address, port) and refusal_of("127.0.0.1", self._allowed) is not None:
            raise _refused(tenant, host, f"{address} is this machine itself")
        tls = authorities() if parts.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            address, port, ssl=tls, server_hostname=host if tls else None, limit=ANSWER_BYTES_MAX
        )
        try:
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=ANSWER_BYTES_MAX)
            named = f"[{host}]" if ":" in host else host
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            request = h11.Request(
                method=sent.method,
                target=target,
                headers=[
                    ("Host", named if parts.port is None else f"{named}:{port}"),
                    ("Content-Length", str(len(sent.body))),
                    ("Connection", "close"),
                    *sent.headers,
                ],
            )
            for event in (request, h11.Data(data=sent.body), h11.EndOfMessage()):
                writer.write(connection.send(event) or b"")
            await writer.drain()
            return await _answer(connection, reader, sent.answer_bytes_max)
        finally:
            writer.transport.abort()  # what else the other side says is not read

    async def _checked(self, tenant: str, host: str, port: int) -> str:
        """The address to connect to: each that the name has is one that may be called. Raises: NoAnswer."""
        try:
            addresses = await self._addresses(tenant, host, port)
        except (OSError, UnicodeError) as error:
            raise _refused(tenant, host, f"it is not found: {error}") from error
        for one in addresses:
            refusal = refusal_of(one, self._allowed)
            if refusal is not None:
                raise _refused(tenant, host, refusal)
        if not addresses:
            raise _refused(tenant, host, "it has no address")
        return addresses[0]

    async def _addresses(self, tenant: str, host: str, port: int) -> list[str]:
        """What the resolver says. Raises: OSError, UnicodeError, NoAnswer."""
        if self._looked_up[tenant] >= LOOKUPS_MAX_PER_TENANT:
            raise NoAnswer(_HANGING)
        if self._looked_up.total() >= LOOKUPS_MAX:
            raise NoAnswer("too many names are looked up now")
        loop = asyncio.get_running_loop()
        asked: asyncio.Future[list[str]] = loop.create_future()

        def ended(found: list[str] | Exception) -> None:
            self._looked_up[tenant] -= 1
            if not self._looked_up[tenant]:
                del self._looked_up[tenant]
            if asked.done():
                return
            if isinstance(found, Exception):
                asked.set_exception(found)
            else:
                asked.set_result(found)

        # A daemon: a stop waits for no resolver, as it would for an executor's threads.
        look_up = Thread(target=_look_up, args=(host, port, loop, ended), name="tenants-names", daemon=True)
        look_up.start()
        self._looked_up[tenant] += 1
        try:
            async with asyncio.timeout(LOOKUP_MS_MAX / 1000):
                return await asked
        except TimeoutError:
            raise NoAnswer(f"the name {host} is not found within {LOOKUP_MS_MAX // 1000} s") from None


def _look_up(
    host: str, port: int, loop: asyncio.AbstractEventLoop, ended: Callable[[list[str] | Exception], None]
) -> None:
    """In a thread, which may outlive the loop."""
    found: list[str] | Exception
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(one[4][0]) for one in answers))
    except Exception as error:  # noqa: BLE001 - whoever waits raises it
        found = error
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(ended, found)


def _is_own(address: str, port: int) -> bool:
    """Whether an address is this machine's: packets to it would come from itself. None is sent."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, port))
        except OSError:
            return False  # there is no way to it: what connects says so
        return bool(asked.getsockname()[0] == asked.getpeername()[0])


def _refused(tenant: str, host: str, why: str) -> NoAnswer:
    """One sentence for all reasons, as they tell which names and addresses are in use behind us; operators
    find the reason in the log."""
    _log.info("a tenant's address is not called", tenant=tenant, host=host, why=why)
    return NoAnswer(f"{host} is or has no address that may be called")


async def _answer(connection: h11.Connection, reader: asyncio.StreamReader, bytes_max: int) -> Answered:
    """The answer whose head comes first that is final. Raises: NoAnswer, h11.ProtocolError."""
    read, status, body = 0, None, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(_CHUNK_BYTES)
            read += len(data)
            if status is None and read > ANSWER_BYTES_MAX:
                raise NoAnswer(f"the head of the answer is larger than {ANSWER_BYTES_MAX} bytes")
            if read > ANSWER_BYTES_MAX + 2 * bytes_max:  # chunks may be framed by more than they hold
                raise NoAnswer(f"the answer is larger than {bytes_max} bytes")
            if status is None and not data:
                raise NoAnswer("the other side closed the connection without an answer")
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            status = int(event.status_code)
            if not bytes_max:
                return Answered(status, b"")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > bytes_max:
                raise NoAnswer(f"the answer is larger than {bytes_max} bytes")
        elif isinstance(event, h11.EndOfMessage) and status is not None:
            return Answered(status, bytes(body))
        elif not isinstance(event, h11.InformationalResponse):
            raise NoAnswer("the answer is no HTTP")
