"""Which vip:vport a listener gets. Pure: the ports in use and the probe are arguments.

The port is a tenant's identity, so a freed one rests before it means somebody else: never used ports go
first in order, then the one freed longest ago, once its rest is over. Resting ports are bounded per tenant:
who has more than a share of the pool at rest gets its own back, the longest rested first.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

REST_MS: Final = 7 * 24 * 3600 * 1000
"""How long a vport that was served is given to nobody else."""
_POOL_ADDRESSES_MAX: Final = 65_536
RESTING_SHARE: Final = 10
"""A tenant's ports at rest are at most one in so many of the pool."""


class Endpoint(NamedTuple):
    """A place to listen; the pair is unique."""

    bind_host: str
    port: int


class PortsExhausted(Exception):  # noqa: N818 - a state of the pool
    """No port is free and rested."""


@dataclass(frozen=True, slots=True)
class VipPool:
    """The addresses and ports that listeners may have."""

    hosts: tuple[str, ...]
    """Bind addresses, in the order they are taken."""
    advertised: str | None
    """What clients are told instead of the bind address; None: the bind address."""
    port_first: int
    port_last: int
    has_wildcard: bool = False
    """Whether gateways bind every address, once a port, for all of them (ADR-0050)."""

    _told_apart: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_told_apart", frozenset(self.hosts))

    @property
    def bind_host(self) -> str:
        """Where something binds that is for all of them."""
        if len(self.hosts) == 1:
            return self.hosts[0]
        return "::" if ipaddress.ip_address(self.hosts[0]).version == 6 else "0.0.0.0"

    @property
    def size(self) -> int:
        """How many endpoints there are."""
        return (self.port_last - self.port_first + 1) * len(self.hosts)

    @property
    def resting_max(self) -> int:
        """How many ports one tenant may have at rest."""
        return max(1, self.size // RESTING_SHARE)

    def endpoints(self, *, from_end: bool = False) -> Iterator[Endpoint]:
        """All of them, one port of every address before the next port. A pool may have hundreds of
        millions."""
        ports = range(self.port_first, self.port_last + 1)
        for port in reversed(ports) if from_end else ports:
            for host in reversed(self.hosts) if from_end else self.hosts:
                yield Endpoint(host, port)

    def advertised_for(self, bind_host: str) -> str:
        """The host that clients are told."""
        return self.advertised or bind_host

    def __contains__(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint belongs to this pool."""
        return self.port_first <= endpoint.port <= self.port_last and endpoint.bind_host in self._told_apart


def parse_vip(text: str, port_first: int, port_last: int) -> VipPool:
    """`ADDRESS`, `BIND=ADVERTISED`, `CIDR`, or `0.0.0.0=CIDR` and `[::]=CIDR`: a pool whose addresses share a
    socket a port. Raises: ValueError with a sentence."""
    if not 1 <= port_first <= port_last <= 65_535:
        raise ValueError(f"vports {port_first}-{port_last} are not a range within 1-65535")
    bind, equals, advertised = text.partition("=")
    bind = bind.strip().removeprefix("[").removesuffix("]")
    if "/" in text:
        wildcard = wildcard_cidr(text)
        return VipPool(_pool_hosts(wildcard or text), None, port_first, port_last, wildcard is not None)
    try:
        address = ipaddress.ip_address(bind)
    except ValueError as error:
        raise ValueError(f"vip '{text}' is not an address, BIND=ADVERTISED or a CIDR") from error
    told = advertised.strip().removeprefix("[").removesuffix("]")
    if equals and not told:
        raise ValueError(f"vip '{text}' names nothing to advertise after '='")
    if not equals and address.is_unspecified:
        raise ValueError(f"vip '{text}' is every address: say which one clients use, {bind}=ADDRESS")
    return VipPool((str(address),), told or None, port_first, port_last)


def wildcard_cidr(text: str) -> str | None:
    """The pool of a vip whose addresses share a socket a port; None: each has its own. Raises: ValueError."""
    bind, equals, pool = text.partition("=")
    if not equals or "/" not in pool:
        return None
    try:
        address = ipaddress.ip_address(bind.strip().removeprefix("[").removesuffix("]"))
        network = ipaddress.ip_network(pool.strip())
    except ValueError as error:
        raise ValueError(f"vip '{text}': {error}") from error
    if not address.is_unspecified or address.version != network.version:
        raise ValueError(
            f"vip '{text}': only every address, 0.0.0.0 or [::], can stand before a pool of its kind"
        )
    return str(network)


def _pool_hosts(text: str) -> tuple[str, ...]:
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ValueError(f"vip pool '{text}': {error}") from error
    hosts = []
    for host in network.hosts():
        hosts.append(str(host))
        if len(hosts) == _POOL_ADDRESSES_MAX:
            break
    return tuple(hosts)


def allocate(
    pool: VipPool,
    known: Mapping[Endpoint, int | None],
    now_ms: int,
    is_free: Callable[[Endpoint], bool],
    *,
    own: Mapping[Endpoint, int] | None = None,
    in_order: Iterator[Endpoint] | None = None,
) -> Endpoint:
    """The endpoint to take. `known` maps every endpoint ever used to when it was freed, None: in use.

    `is_free` probes for other programs; what it refuses is skipped. `own` are those at rest that were the
    same tenant's last, with since when. `in_order` are the endpoints of the pool in the order that they are
    looked at, as far as no call before has done so.
    Raises: PortsExhausted.
    """
    resting = _longest_first((since_ms, one) for one, since_ms in (own or {}).items() if one in pool)
    if len(resting) > pool.resting_max:
        for endpoint in resting:
            if is_free(endpoint):
                return endpoint
    for endpoint in pool.endpoints() if in_order is None else in_order:
        if endpoint not in known and is_free(endpoint):
            return endpoint
    rested = _longest_first(
        (freed_at_ms, endpoint)
        for endpoint, freed_at_ms in known.items()
        if freed_at_ms is not None and now_ms - freed_at_ms >= REST_MS and endpoint in pool
    )
    for endpoint in [*rested, *resting]:
        if is_free(endpoint):
            return endpoint
    raise PortsExhausted(
        f"no vport of {pool.port_first}-{pool.port_last} is free; freed ones rest 7 days: widen --vports"
    )


def _longest_first(freed: Iterable[tuple[int, Endpoint]]) -> list[Endpoint]:
    return [endpoint for _since_ms, endpoint in sorted(freed)]
