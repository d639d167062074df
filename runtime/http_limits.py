"""What a stranger may spend at one of our HTTP ports, decided without IO: heads, connections, their order.

A port is reached by anybody before anybody has said who he is, so nothing here depends on credentials.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_FIRST_PRINTABLE: Final = 0x21
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The bounds of one port. Every one of them holds before a secret or key has been looked at."""

    port: str
    """Its name in metrics: `public` or `internal`."""
    head_bytes_max: int = 40 * 1024
    """Request line and headers together."""
    line_bytes_max: int = 32 * 1024
    """One of them: what the API's document admits in a query fits, escaped, also where a text is too long."""
    header_lines_max: int = 100
    """Beside the request line."""
    head_timeout_s: float = 10.0
    """From the connect, or a later request's first byte, until the head is complete."""
    body_timeout_s: float = 30.0
    """From there until the body is complete."""
    body_bytes_max: int = 2 * 1024 * 1024
    """Bytes as received. An application that knows who asks allows less and says so better."""
    write_timeout_s: float = 60.0
    """A peer that has not read for so long, while answers wait, is cut."""
    keep_alive_s: int = 5
    """An idle connection is closed after so long."""
    connections_max: int = 1_024
    """Connections of all addresses; when it is full the oldest one that only waits goes, else 503."""
    connections_per_address_max: int = 256
    """Connections of one IPv4 address or one /64 of IPv6; not of those in `proxies`, who speak for many."""
    requests_max: int = 768
    """Under way at once, streams and long polls included."""
    proxies: tuple[str, ...] = ()
    """Addresses and CIDRs of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""


class HeadRefused(Exception):  # noqa: N818 - an answer, as a name
    """A head that breaks a bound or a rule; `cause` is its metric label."""

    def __init__(
        self, cause: str, detail: str, status: HTTPStatus = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    ) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail
        self.status = status


class HeadReader:
    """Holds the bytes of one request's head back until they are complete, so that the parser that follows
    never works on a piece of one, and never on a large one."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._held = bytearray()
        self._lines = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a head has come yet."""
        return not self._held

    def take(self, data: bytes) -> tuple[bytes, bytes] | None:
        """The head and what came behind it, once it is complete, else None. Raises: HeadRefused.

        What cannot be the begin of a request is handed on at once, for the parser to refuse.
        """
        searched = max(0, len(self._held) - 2)
        self._held += data
        if self._held[0] < _FIRST_PRINTABLE:
            return self._give(len(self._held))
        found = _END_OF_HEAD.search(self._held, searched)
        size = len(self._held) if found is None else found.end()
        if size > self._limits.head_bytes_max:
            raise HeadRefused("head_bytes", f"a head may have at most {self._limits.head_bytes_max} bytes")
        if found is None:
            self._lines += data.count(b"\n")
            self._check_lines(self._lines, size - (self._held.rfind(b"\n") + 1))
            return None
        lines = self._held[:size].split(b"\n")
        self._check_lines(len(lines) - 2, max(map(len, lines)))
        _check_framing(lines)
        return self._give(size)

    def _check_lines(self, lines: int, longest: int) -> None:
        if longest > self._limits.line_bytes_max:
            raise HeadRefused("line_bytes", f"a line may have at most {self._limits.line_bytes_max} bytes")
        if lines > self._limits.header_lines_max + 1:  # the request line is one more
            raise HeadRefused("header_lines", f"at most {self._limits.header_lines_max} headers may be sent")

    def _give(self, size: int) -> tuple[bytes, bytes]:
        whole = bytes(self._held)
        self._held = bytearray()
        self._lines = 0
        return whole[:size], whole[size:]


def _check_framing(lines: Sequence[bytes | bytearray]) -> None:
    """What says in two ways where its body ends may mean two requests to a proxy and one to us, or the other
    way round: then somebody's request is answered with another's (RFC 9112, sections 6.1 and 11.2)."""
    names = {bytes(line.partition(b":")[0]).lower() for line in lines[1:]}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names or not lines[0].rstrip().endswith(b"HTTP/1.1"):
        detail = "Transfer-Encoding may come with HTTP/1.1 only, and not with Content-Length"
        raise HeadRefused("framing", detail, HTTPStatus.BAD_REQUEST)


class Networks:
    """Whether an address is one of some networks."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        """Raises: ValueError for what is neither an address nor a CIDR."""
        self._networks = tuple(ipaddress.ip_network(text) for text in texts)

    def __contains__(self, host: str) -> bool:
        """Whether the host is an address of one of them."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def parse_proxies(text: str) -> tuple[str, ...]:
    """Addresses and CIDRs, separated by commas. Raises: ValueError with a sentence."""
    given = tuple(part.strip() for part in text.split(",") if part.strip())
    for one in given:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            raise ValueError(f"'{one}' is not an address or CIDR: {error}") from error
    return given


def holder_of(host: str) -> str:
    """Whom a connection is counted to: an IPv4 address, or the /64 that one customer of a network has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address.packed, _IPV6_PREFIX), strict=False))


class Admission(NamedTuple):
    """What to do with a new connection."""

    is_admitted: bool
    victim: Hashable | None = None
    """The connection to cut in its favour."""


class Door:
    """The connections of a port. One that waits makes room for a new one; one whose request is under way
    never does.

    So connections that only wait, however many, keep nobody out: at a full address its own oldest one goes,
    at a full port the oldest one of the address that has most waiting. Those that were never served go first.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._proxies = Networks(limits.proxies)
        self._holder: dict[Hashable, str] = {}
        self._connections: Counter[str] = Counter()
        self._waiting: dict[str, dict[Hashable, bool]] = {}
        """Holder -> its connections without a request under way, longest first -> whether it was served."""

    def __len__(self) -> int:
        """Connections that are open."""
        return len(self._holder)

    def enter(self, connection: Hashable, host: str) -> Admission:
        """A connection was accepted. The victim, if any, is not counted any more."""
        holder = holder_of(host)
        fullest = self._fullest(holder, is_proxy=host in self._proxies)
        victim = None if fullest is None else self._longest_waiting(fullest)
        if fullest is not None and victim is None:
            return Admission(False)
        if victim is not None:
            self.leave(victim)
        self._holder[connection] = holder
        self._connections[holder] += 1
        self._wait(connection, was_served=False)
        return Admission(True, victim)

    def _fullest(self, holder: str, *, is_proxy: bool) -> str | None:
        """Whose connection has to go for one more of this holder; None: nobody's."""
        if not is_proxy and self._connections[holder] >= self._limits.connections_per_address_max:
            return holder
        if len(self._holder) < self._limits.connections_max:
            return None
        return max(self._waiting, key=lambda each: len(self._waiting[each]), default=holder)

    def begins(self, connection: Hashable) -> None:
        """Its head is complete."""
        self._stop_waiting(connection)

    def is_answered(self, connection: Hashable) -> None:
        """It waits for its next request."""
        if connection in self._holder:
            self._stop_waiting(connection)
            self._wait(connection, was_served=True)

    def leave(self, connection: Hashable) -> None:
        """It is gone, or about to; also when it was never admitted."""
        self._stop_waiting(connection)
        holder = self._holder.pop(connection, None)
        if holder is not None:
            self._connections[holder] -= 1
            if not self._connections[holder]:
                del self._connections[holder]

    def _wait(self, connection: Hashable, *, was_served: bool) -> None:
        self._waiting.setdefault(self._holder[connection], {})[connection] = was_served

    def _stop_waiting(self, connection: Hashable) -> None:
        holder = self._holder.get(connection)
        if holder is not None and holder in self._waiting:
            self._waiting[holder].pop(connection, None)
            if not self._waiting[holder]:
                del self._waiting[holder]

    def _longest_waiting(self, holder: str) -> Hashable | None:
        waiting = self._waiting.get(holder, {})
        never_served = (one for one, was_served in waiting.items() if not was_served)
        return next(never_served, next(iter(waiting), None))
