"""Topics at the target: made with the source's partitions and configs, and grown with them."""

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from pipeline.errors import PipelineError
from pipeline.mirror.cluster import Cluster, Topic
from pipeline.mirror.planning.progress import PROGRESS_TOPIC

_TIMEOUT_S: Final = 30.0
_THERE_WITHIN_S: Final = 30.0
_COPIED: Final = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)
"""What says which records a topic keeps. message.timestamp.type is not among them: with LogAppendTime the
target would replace the timestamps that are mirrored."""
_PROGRESS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
}
_DEFAULT_BATCH_BYTES: Final = 1024 * 1024

Configs = dict[str, tuple[str | None, bool]]
"""Each config's value, and whether it was set for this topic."""


class TopicRefusedError(PipelineError):
    """A cluster does not let this client do something with one topic."""


class TopicAdmin:
    """One side's topics, as a tenant manages them."""

    def __init__(self, bootstrap: str, side: str) -> None:
        self._side = side
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "client.id": "portico-mirror", "log_level": 0}
        )

    @property
    def client(self) -> Any:
        """The client for groups, which are another module's matter."""
        return self._admin

    def configs(self, topic: str) -> Configs:
        """Raises: TopicRefusedError."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
        try:
            entries = future.result(_TIMEOUT_S)
        except KafkaException as error:
            raise TopicRefusedError(f"configs of '{topic}' at the {self._side}: {_said(error)}") from error
        return {name: (entry.value, not entry.is_default) for name, entry in entries.items()}

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic, unless somebody else did. Raises: TopicRefusedError."""
        new = NewTopic(topic, partitions, -1, config=configs)
        (future,) = self._admin.create_topics([new], request_timeout=_TIMEOUT_S).values()
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicRefusedError(f"topic '{topic}' at the {self._side}: {_said(error)}") from error

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions. Raises: TopicRefusedError."""
        (future,) = self._admin.create_partitions(
            [NewPartitions(topic, partitions)], request_timeout=_TIMEOUT_S
        ).values()
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            raise TopicRefusedError(f"partitions of '{topic}' at the {self._side}: {_said(error)}") from error


def batch_bytes_max(configs: Configs) -> int:
    """The largest batch that a topic with these configs takes."""
    value, _ = configs.get("max.message.bytes", (None, False))
    return int(value) if value else _DEFAULT_BATCH_BYTES


def _said(error: KafkaException) -> str:
    return str(error.args[0].str())


def ensure_progress_topic(target: Cluster, admin: TopicAdmin) -> None:
    """The topic that the mirror keeps its progress in."""
    if target.topic(PROGRESS_TOPIC) is None:
        admin.create(PROGRESS_TOPIC, 1, _PROGRESS_CONFIGS)
        wait_for(target, PROGRESS_TOPIC, 1)


def ensure_target_topic(
    target: Cluster, admins: tuple[TopicAdmin, TopicAdmin], source: Topic, name: str, *, known: bool
) -> Topic:
    """The target topic with as many partitions as the source's. `known`: this mirror has written to it, so
    that partitions it lacks were added at the source. Raises: PipelineError."""
    source_admin, target_admin = admins
    partitions = len(source.leaders)
    found = target.topic(name)
    if found is None:
        configs = {
            key: value
            for key, (value, is_set) in source_admin.configs(source.name).items()
            if key in _COPIED and is_set and value is not None
        }
        target_admin.create(name, partitions, configs)
        return wait_for(target, name, partitions)
    if len(found.leaders) < partitions:
        if not known:
            raise PipelineError(
                f"topic '{name}' at the target has {len(found.leaders)} partitions, '{source.name}' at the"
                f" source has {partitions}: add partitions at the target, or mirror to another name with"
                " --rename"
            )
        target_admin.grow(name, partitions)
        return wait_for(target, name, partitions)
    return found


def wait_for(cluster: Cluster, name: str, partitions: int) -> Topic:
    """Until all partitions of a new topic have leaders. Raises: PipelineError."""
    deadline = time.monotonic() + _THERE_WITHIN_S
    while True:
        found = cluster.topic(name)
        if found is not None and len(found.leaders) >= partitions and min(found.leaders) >= 0:
            return found
        if time.monotonic() > deadline:
            raise PipelineError(f"topic '{name}' at the target has no leaders yet: try again")
        time.sleep(0.1)
