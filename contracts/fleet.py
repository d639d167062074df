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


class FleetBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that reports, or whose reports gateway workers make up (an Apache Kafka's)."""

    cluster_id: str
    node_id: int
    report_age_ms: int
    """Since its last report. A process that hangs keeps its connections open, and reports nothing."""
    silent: bool
    """For three periods or more."""
    produce_per_s: int
    """Over all instances; of a silent one what it told last."""
    consume_per_s: int
    stored_bytes: int
    partitions_led: int


class FleetOverview(msgspec.Struct, frozen=True, kw_only=True):
    """GET /internal/v1/fleet: every instance, in order of id."""

    at_ms: int
    """When the decisions were made (epoch)."""
    policy: str
    rows: tuple[FleetRow, ...] = ()
    brokers: tuple[FleetBroker, ...] = ()
    """In order of cluster and node id."""
    version: int = MESSAGE_VERSION
