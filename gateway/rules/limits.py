"""Whether one more connection fits an instance's limits. Counts come from the table of all workers."""

from typing import NamedTuple

from contracts.specs import Limits
from gateway.causes import DisconnectCause


class ConnectionCounts(NamedTuple):
    """What the instance has now, over all workers, before the new connection is counted."""

    of_instance: int
    of_address: int
    opened_this_second: int


def admission_fault(limits: Limits, counts: ConnectionCounts) -> DisconnectCause | None:
    """Why a new connection is refused, or None. Rate first: a flood must not look like fullness."""
    if counts.opened_this_second >= limits.connection_rate_max:
        return DisconnectCause.CONNECTION_RATE_MAX
    if counts.of_instance >= limits.connections_max:
        return DisconnectCause.CONNECTIONS_MAX
    if counts.of_address >= limits.connections_per_ip_max:
        return DisconnectCause.CONNECTIONS_PER_IP_MAX
    return None
