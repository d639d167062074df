"""Where Kafka's znodes are in ZooKeeper mode (3.x). Their JSON is in `broker/metadata/znodes.py`."""

from typing import Final

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
DELETE_TOPICS: Final = "/admin/delete_topics"
LEFTOVER_REPLICAS: Final = "/admin/leftover_replicas"
"""Ours: logs that brokers have yet to delete."""
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
DEFAULT_BROKER_CONFIG: Final = "<default>"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
CLUSTER_ID: Final = "/cluster/id"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
BROKER_SEQUENCE_ID: Final = "/brokers/seqid"

KEPT_UNTIL: Final = "/portico/kept_until"
"""Ours: epoch ms until which time alone removes nothing, written by a restore."""

PERSISTENT_PATHS: Final = (
    "/brokers",
    BROKER_IDS,
    TOPICS,
    BROKER_SEQUENCE_ID,
    "/admin",
    DELETE_TOPICS,
    LEFTOVER_REPLICAS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    "/config/clients",
    "/config/users",
    "/config/ips",
    CONFIG_CHANGES,
    "/cluster",
    "/consumers",
    PRODUCER_ID_BLOCK,
)
"""What a broker makes sure of before it registers, parents first."""


def broker_path(broker_id: int) -> str:
    """A broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """A topic's id and assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """A partition's leader, epoch and ISR; its version is the partition epoch."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    """The mark of a topic to be deleted."""
    return f"{DELETE_TOPICS}/{topic}"


def leftover_replicas_path(broker_id: int) -> str:
    """What a broker has yet to delete."""
    return f"{LEFTOVER_REPLICAS}/{broker_id}"


def topic_config_path(topic: str) -> str:
    """A topic's layer of configs."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker_id: str) -> str:
    """A broker's dynamic configs; "" is the cluster-wide default."""
    return f"{BROKER_CONFIGS}/{broker_id or DEFAULT_BROKER_CONFIG}"


def broker_config_name(child: str) -> str:
    """The broker id of a child of BROKER_CONFIGS, "" for the cluster-wide default."""
    return "" if child == DEFAULT_BROKER_CONFIG else child


def partition_of_state_path(path: str) -> tuple[str, int] | None:
    """The partition whose state node this is, or None."""
    parts = path.split("/")
    if (
        len(parts) != 7
        or not path.startswith(f"{TOPICS}/")
        or parts[6] != "state"
        or not parts[5].isdecimal()
    ):
        return None
    return parts[3], int(parts[5])
