"""Config resources as tenants meet them: topics are theirs, of a broker there is a short read-only list, of
groups the brokers tell what all go by; the brokers' loggers are nobody's business."""

from typing import Final

from contracts.specs import InstanceSpec
from contracts.topic_policy import default_segment_bytes

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
GROUP: Final = 32
CLIENT_METRICS: Final = 16
LISTED_TYPES: Final = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})
"""What ListConfigResources may be asked for."""

READ_ONLY_BROKER: Final = "broker configs are read-only here"
READ_ONLY_GROUP: Final = "group configs are read-only here"
UNKNOWN_TYPE: Final = (
    "only topics (type 2), brokers (type 4), client metrics (type 16) and groups (type 32) have configs here"
)


def broker_configs(spec: InstanceSpec, replication_factor: int) -> dict[str, str]:
    """What a tenant may know of its brokers: what tools ask for, in the instance's own numbers."""
    return {
        "auto.create.topics.enable": "true" if spec.auto_create_topics else "false",
        "default.replication.factor": str(replication_factor),
        "delete.topic.enable": "true",
        "log.retention.ms": str(min(spec.limits.retention_ms_max, 7 * 24 * 3600 * 1000)),
        "log.segment.bytes": str(default_segment_bytes(spec.capacity_bytes)),
        "message.max.bytes": str(spec.limits.message_bytes_max),
        "num.partitions": str(spec.limits.partitions_default),
        "socket.request.max.bytes": str(spec.limits.request_bytes_max),
    }
