"""TLS handshakes of one instance on one worker that are under way: how many there may be, and what they cost.

Who begins one is on the whitelist at most, and has shown nothing yet. So those that are in come first:
handshakes get a part of the instance's request time, and who does not finish makes room.
"""

from typing import Final, Generic, TypeVar

from gateway.rules.whitelist import folded_address
from traffic.cpu import CPU_BURST_MIN_US, CPU_BURST_MS
from traffic.flow import UNLIMITED, Flow

HANDSHAKES_MAX: Final = 512
"""TLS handshakes of one instance under way on this worker. One more ends the oldest of the address (IPv6:
/64) that has most: `tls_handshakes_max`."""
HANDSHAKES_CPU_PERCENT: Final = 50
"""Of an instance's request time on this worker, for TLS handshakes. When it is spent, its ports with TLS are
not accepted from until it is paid; connections that stand go on with the rest."""

_One = TypeVar("_One")
_Source = tuple[int, int]
_V6_NETWORK_BITS: Final = 64


class Handshakes(Generic[_One]):
    """The ones under way. `flow` counts microseconds."""

    __slots__ = ("_by_address", "_sources", "_unbilled_ns", "flow")

    def __init__(self) -> None:
        self.flow = Flow(CPU_BURST_MS, CPU_BURST_MIN_US)
        self._sources: dict[_One, _Source] = {}
        self._by_address: dict[_Source, dict[_One, None]] = {}
        """The same by address, each one's in the order they came."""
        self._unbilled_ns = 0

    def __len__(self) -> int:
        return len(self._sources)

    def every(self) -> tuple[_One, ...]:
        """All that are under way."""
        return tuple(self._sources)

    def begins(self, one: _One, address: str) -> _One | None:
        """One more; the answer is which other one has to go for it, and `ends` is said of it then."""
        self._sources[one] = source = _source(address)
        self._by_address.setdefault(source, {})[one] = None
        if len(self._sources) <= HANDSHAKES_MAX:
            return None
        most: dict[_One, None] = max(self._by_address.values(), key=len)
        return next(iter(most))

    def ends(self, one: _One) -> None:
        """It is finished, or gone. Of one that is not under way: nothing."""
        source = self._sources.pop(one, None)
        if source is None:
            return
        of_address = self._by_address[source]
        del of_address[one]
        if not of_address:
            del self._by_address[source]

    def spent(self, spent_ns: int, request_time_us_per_s: int, now_ms: int) -> None:
        """A step of one has taken so long, at this rate of the instance's request time."""
        rate = request_time_us_per_s * HANDSHAKES_CPU_PERCENT // 100
        if rate == UNLIMITED:
            return
        self.flow.set_rate(rate, now_ms)
        spent_us, self._unbilled_ns = divmod(self._unbilled_ns + spent_ns, 1000)
        self.flow.charge(spent_us, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """How long none is to begin."""
        return self.flow.unmute_at_ms(now_ms) - now_ms


def _source(address: str) -> _Source:
    """Whom an address is of: one of IPv6 is one of many that its owner has."""
    version, number = folded_address(address)
    return version, number >> _V6_NETWORK_BITS if version == 6 else number
