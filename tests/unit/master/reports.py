"""Builders of specs and reports for the master's tests."""

import msgspec

from contracts.quota import FlowCounters, InstanceTraffic, TrafficReport
from contracts.specs import InstanceSpec, InstanceState

ID = "iabcdefghijk"
OTHER = "izyxwvutsrqp"
T = 90_000_000


def a_spec(instance_id: str = ID, **changes: object) -> InstanceSpec:
    """An instance that bought T each way and 1 MB of storage."""
    spec = InstanceSpec(
        revision=1,
        instance_id=instance_id,
        tenant="t",
        name="n",
        state=InstanceState.ACTIVE,
        cluster_id="c",
        produce_rate_bytes_per_s=T,
        consume_rate_bytes_per_s=T,
        capacity_bytes=1_000_000,
    )
    return msgspec.structs.replace(spec, **changes)


def traffic(produced: int = 0, instance_id: str = ID, **changes: object) -> InstanceTraffic:
    """One instance with `produced` bytes on the counter."""
    refused, throttled, rate = (int(changes.pop(key, 0)) for key in ("refused", "throttled", "rate"))  # type: ignore[call-overload]
    listed = InstanceTraffic(
        instance_id=instance_id,
        produce=FlowCounters(used=produced, refused=refused, throttled_ms=throttled, rate_per_s=rate),
        consume=FlowCounters(rate_per_s=rate),
        partitions_led=1,
        stored_bytes=0,
    )
    return msgspec.structs.replace(listed, **changes)


def a_report(
    sequence: int,
    *listed: InstanceTraffic,
    node_id: int = 1,
    boot: str = "a",
    at_ms: int | None = None,
    full: bool = False,
) -> TrafficReport:
    """A report sent a second after the one before, unless `at_ms` says otherwise."""
    return TrafficReport(
        point=f"broker-{node_id}",
        node_id=node_id,
        cluster_id="c",
        boot_id=boot,
        sequence=sequence,
        window_ms=1_000,
        sent_at_ms=sequence * 1_000 if at_ms is None else at_ms,
        full=full or sequence == 1,
        instances=listed,
    )
