"""CPU time that goes into turning strangers away, of one instance's ports on one worker.

Who is on no whitelist, or comes to a suspended instance, is not the tenant: what accepting and resetting such
a connection costs is not on the tenant's account. It has a budget of its own per instance; when that is spent
the ports are not accepted from until it is paid, and who comes meanwhile waits in the kernel's queue.
"""

from typing import Final

from gateway.causes import DisconnectCause
from traffic.cpu import CPU_BURST_MS
from traffic.flow import Flow

RATE_US_PER_S: Final = 50_000
"""CPU time of a worker for an instance's strangers, a twentieth of a core: some thousand refused connections
per second."""
STRANGERS: Final = frozenset(
    {
        DisconnectCause.NOT_WHITELISTED,
        DisconnectCause.INSTANCE_SUSPENDED,
        DisconnectCause.INSTANCE_NOT_SERVED,
        DisconnectCause.PROXY_HEADER_BAD,
        DisconnectCause.PROXY_HEADER_TIMEOUT,
        DisconnectCause.PROXY_LOCAL,
    }
)
"""Refusals that the tenant has no part in; those for its limits are on its account."""


class Strangers:
    """The budget's state. `flow` counts microseconds."""

    __slots__ = ("_rate_us_per_s", "_unbilled_ns", "flow")

    def __init__(self, rate_us_per_s: int = RATE_US_PER_S) -> None:
        self.flow = Flow(CPU_BURST_MS)
        self._rate_us_per_s = rate_us_per_s
        self._unbilled_ns = 0

    def charge(self, cost_ns: int, now_ms: int) -> None:
        """One was turned away."""
        if not self.flow.requests:
            self.flow.set_rate(self._rate_us_per_s, now_ms)
        spent_us, self._unbilled_ns = divmod(self._unbilled_ns + cost_ns, 1000)
        self.flow.charge(spent_us, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """How long nobody is to be accepted."""
        return self.flow.unmute_at_ms(now_ms) - now_ms
