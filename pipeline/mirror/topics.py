"""Topics at the target: made with the source's partitions and configs, and grown with them."""

from typing import Final

from pipeline.errors import PipelineError
from pipeline.mirror.cluster import Cluster, Topic
from pipeline.mirror.planning.progress import PROGRESS_TOPIC

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


def ensure_progress_topic(target: Cluster) -> None:
    """The topic that the mirror keeps its progress in."""
    if target.topic(PROGRESS_TOPIC) is None:
        target.create(PROGRESS_TOPIC, 1, _PROGRESS_CONFIGS)
        target.wait_for(PROGRESS_TOPIC, 1)


def ensure_target_topic(source: Cluster, target: Cluster, topic: Topic, name: str, *, known: bool) -> Topic:
    """The target topic with as many partitions as the source's. `known`: this mirror has written to it, so
    that partitions it lacks were added at the source. Raises: PipelineError, Unreachable, Paused."""
    found = target.topic(name)
    if found is None:
        configs = {
            key: value
            for key, (value, is_set) in source.configs(topic.name).items()
            if key in _COPIED and is_set and value is not None
        }
        target.create(name, topic.partitions, configs)
        return target.wait_for(name, topic.partitions)
    if found.partitions >= topic.partitions:
        return found
    if not known:
        raise PipelineError(
            f"topic '{name}' at the target has {found.partitions} partitions, '{topic.name}' at the"
            f" source has {topic.partitions}: add partitions at the target, or mirror to another name with"
            " --rename"
        )
    target.grow(name, topic.partitions)
    return target.wait_for(name, topic.partitions)
