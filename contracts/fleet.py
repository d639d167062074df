"""What the operators' dashboard is made of: a line of each instance, from the master's last decisions."""

from typing import Final

import msgspec

MESSAGE_VERSION: Final = 1


class FleetRow(msgspec.Struct, frozen=True, array_like=True):
    """One instance. Rates in bytes/s, over all its brokers."""

    instance_id: str
    produce_per_s: int
    consume_per_s: int
    produce_bought_per_s: int
    consume_bought_per_s: int
    throttled_ms_per_s: int
    """The largest of produce, consume and request time (0-1000)."""
    stored_bytes: int
    capacity_bytes: int
    blocked: bool
    skew_percent: int
    """How much more the busiest broker carries than an even share; 0: even, or one broker, or too little."""
    silent_brokers: int
    """Brokers that lead some of it and have not reported for three periods: no sum has their rates."""


class FleetOverview(msgspec.Struct, frozen=True, kw_only=True):
    """GET /internal/v1/fleet: every instance, in order of id."""

    at_ms: int
    """When the decisions were made (epoch)."""
    policy: str
    rows: tuple[FleetRow, ...] = ()
    version: int = MESSAGE_VERSION
