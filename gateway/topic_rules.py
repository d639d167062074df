"""What an instance allows its tenant to create: bounds, and defaults that a creator did not name. Pure."""

from typing import Final

from contracts.specs import InstanceSpec, Limits
from contracts.topic_policy import default_segment_bytes

KAFKA_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of max.message.bytes."""
_REPLICATION_FACTOR_MAX: Final = 3
KAFKA_RETENTION_MS: Final = 7 * 24 * 3600 * 1000


def creation_defaults(spec: InstanceSpec) -> dict[str, str]:
    """Configs that a new topic gets when its creator does not name them.

    Kafka's own defaults hold for the rest, unless the instance's limits are tighter.
    """
    defaults = {"segment.bytes": str(default_segment_bytes(spec.capacity_bytes))}
    limits: Limits = spec.limits
    if limits.message_bytes_max < KAFKA_MESSAGE_BYTES:
        defaults["max.message.bytes"] = str(limits.message_bytes_max)
    if limits.retention_ms_max < KAFKA_RETENTION_MS:
        defaults["retention.ms"] = str(limits.retention_ms_max)
    return defaults


def replication_factor(brokers: int) -> int:
    """What a cluster of so many brokers gives every topic."""
    assert brokers >= 0
    return max(1, min(_REPLICATION_FACTOR_MAX, brokers))


def partitions_fault(present: int, wanted: int, partitions_max: int) -> str | None:
    """Why so many more partitions do not fit, with the numbers, or None."""
    assert present >= 0 and wanted >= 0
    if present + wanted <= partitions_max:
        return None
    return f"the instance has {present} of at most {partitions_max} partitions; {wanted} more do not fit"
