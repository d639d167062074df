"""Which vip:vport a listener gets. Pure: the ports in use and the probe are arguments.

The port is a tenant's identity, so a freed one rests before it means somebody else: never used ports go
first in order, then the one freed longest ago, once its rest is over. Resting ports are bounded per tenant:
who has more than a share of the pool at rest gets its own back, the longest rested first.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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

    @property
    def resting_max(self) -> int:
        """How many ports one tenant may have at rest."""
        ports = (self.port_last - self.port_first + 1) * len(self.hosts)
        return max(1, ports // RESTING_SHARE)

    def endpoints(self) -> Iterator[Endpoint]:
        """All of them, one port of every address before the next port."""
        for port in range(self.port_first, self.port_last + 1):
            for host in self.hosts:
                yield Endpoint(host, port)

    def advertised_for(self, bind_host: str) -> str:
        """The host that clients are told."""
        return self.advertised or bind_host

    def __contains__(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint belongs to this pool."""
        return self.port_first <= endpoint.port <= self.port_last and endpoint.bind_host in self.hosts


def parse_vip(text: str, port_first: int, port_last: int) -> VipPool:
    """`ADDRESS`, `BIND=ADVERTISED` or `CIDR`. Raises: ValueError with a sentence."""
    if not 1 <= port_first <= port_last <= 65_535:
        raise ValueError(f"vports {port_first}-{port_last} are not a range within 1-65535")
    if "/" in text:
        return VipPool(_pool_hosts(text), None, port_first, port_last)
    bind, equals, advertised = text.partition("=")
    bind = bind.strip().removeprefix("[").removesuffix("]")
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
    from_end: bool = False,
) -> Endpoint:
    """The endpoint to take. `known` maps every endpoint ever used to when it was freed, None: in use.

    `is_free` probes for other programs; what it refuses is skipped. `own` are those at rest that were the
    same tenant's last, with since when. `from_end`: the last one first, for our own, so that
    tenants get the ports that people expect.
    Raises: PortsExhausted.
    """
    resting = _longest_first((since_ms, one) for one, since_ms in (own or {}).items() if one in pool)
    if len(resting) > pool.resting_max:
        for endpoint in resting:
            if is_free(endpoint):
                return endpoint
    for endpoint in reversed([*pool.endpoints()]) if from_end else pool.endpoints():
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
