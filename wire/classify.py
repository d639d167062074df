"""What every string, bytes, uuid and address field of every Kafka API means for a tenant (design: Names).

Most of it follows from the schema: kio types topic names, group ids and transactional ids, and marks
records. What the schema types as a plain string is in the short lists below, by field name or, where the
same name means different things, by message and path. A field that no rule knows is an error, so a new
Kafka API fails a test instead of leaking a name. `classification.json` is the result for all of kio,
committed for review; a test keeps the two equal.
"""

from enum import Enum
from typing import Final
from uuid import UUID

import kio
from kio.schema.types import GroupId, TopicName, TransactionalId

from wire.schema import Field, MessageKind

KIO_VERSION: Final = "0.6.5"
"""The kio whose schemas these rules were checked against."""


class FieldClass(Enum):
    """What a field holds, and so what happens to it."""

    TOPIC_NAME = "topic name"
    GROUP_ID = "group id"
    TRANSACTIONAL_ID = "transactional id"
    TOPIC_ID = "topic id"
    """Passes; the gateway checks that it is the instance's own."""
    BROKER_ADDRESS = "broker address"
    """Host or port of a node: replaced by what the instance's view says of the node id beside it."""
    MEMBER_HOST = "member client host"
    """Passes: the address of the tenant's own client."""
    ERROR_TEXT = "error text"
    CLUSTER_ID = "cluster id"
    RACK = "rack"
    """A broker's rack: hidden."""
    LOG_DIR = "log dir"
    DISK_BYTES = "disk bytes"
    """Sizes of the broker's disks: replaced by the instance's capacity and what is left of it."""
    FREE_TEXT = "free text"
    """Written by the tenant or by Kafka for anybody: passes."""
    OPAQUE = "opaque"
    """Bytes, ids and protocol words without names of the cluster: pass."""
    RECORDS = "records"
    CLUSTER_ADMIN = "cluster administration"
    """Names of a space that all tenants share (users, quota entities, replicas, raft): never for tenants."""
    COORDINATOR_KEY = "coordinator key"
    CONFIG_RESOURCE = "config resource name"
    ACL_RESOURCE = "ACL resource name"
    TOPIC_REGEX = "topic regex"
    TRANSACTIONAL_ID_REGEX = "transactional id regex"
    CONSUMER_METADATA = "consumer protocol metadata"
    """Bytes that hold topic names when the group's protocol type is `consumer`."""


class UnclassifiedField(Exception):  # noqa: N818 - names the finding
    """A field that no rule knows: the schema has grown and the rules have not."""


class WrongKioVersion(Exception):  # noqa: N818 - names the finding
    """Another kio is installed than the one the rules were checked against."""


def check_kio_version() -> None:
    """Refuse to work with schemas nobody has looked at. Every process calls this at its start.

    Raises: WrongKioVersion.
    """
    if kio.__version__ != KIO_VERSION:
        raise WrongKioVersion(f"kio {kio.__version__} is installed, the name rules are for {KIO_VERSION}")


CLUSTER_APIS: Final = frozenset(
    [
        "add_raft_voter",
        "allocate_producer_ids",
        "alter_client_quotas",
        "alter_partition",
        "alter_replica_log_dirs",
        "alter_user_scram_credentials",
        "assign_replicas_to_dirs",
        "begin_quorum_epoch",
        "broker_heartbeat",
        "broker_registration",
        "controller_registration",
        "create_delegation_token",
        "delete_share_group_state",
        "describe_client_quotas",
        "describe_delegation_token",
        "describe_quorum",
        "describe_user_scram_credentials",
        "end_quorum_epoch",
        "envelope",
        "expire_delegation_token",
        "fetch_snapshot",
        "initialize_share_group_state",
        "read_share_group_state",
        "read_share_group_state_summary",
        "remove_raft_voter",
        "renew_delegation_token",
        "unregister_broker",
        "update_features",
        "update_raft_voter",
        "vote",
        "write_share_group_state",
        "write_txn_markers",
    ]
)
"""APIs that speak about the cluster as a whole, or between brokers: no tenant has a form of them."""

_BY_TYPE: Final = {
    TopicName: FieldClass.TOPIC_NAME,
    GroupId: FieldClass.GROUP_ID,
    TransactionalId: FieldClass.TRANSACTIONAL_ID,
}

_BY_NAME: Final = {
    **dict.fromkeys(
        ("error_message", "batch_index_error_message", "acknowledge_error_message", "status_detail"),
        FieldClass.ERROR_TEXT,
    ),
    **dict.fromkeys(("topic_id",), FieldClass.TOPIC_ID),
    **dict.fromkeys(("cluster_id",), FieldClass.CLUSTER_ID),
    **dict.fromkeys(("rack",), FieldClass.RACK),
    **dict.fromkeys(("log_dir",), FieldClass.LOG_DIR),
    **dict.fromkeys(("total_bytes", "usable_bytes"), FieldClass.DISK_BYTES),
    **dict.fromkeys(("client_host",), FieldClass.MEMBER_HOST),
    **dict.fromkeys(("subscribed_topic_regex", "source_topic_regex"), FieldClass.TOPIC_REGEX),
    **dict.fromkeys(("transactional_id_pattern",), FieldClass.TRANSACTIONAL_ID_REGEX),
    **dict.fromkeys(
        (
            "assignment",
            "assignor_name",
            "auth_bytes",
            "client_instance_id",
            "group_instance_id",
            "group_state",
            "group_type",
            "instance_id",
            "mechanism",
            "mechanisms",
            "member_assignment",
            "member_id",
            "metrics",
            "process_id",
            "protocol_data",
            "protocol_name",
            "protocol_type",
            "replica_directory_id",
            "server_assignor",
            "state_filters",
            "states_filter",
            "subtopology_id",
            "transaction_state",
            "types_filter",
            "unknown_state_filters",
        ),
        FieldClass.OPAQUE,
    ),
    **dict.fromkeys(
        (
            "client_id",
            "client_software_name",
            "client_software_version",
            "committed_metadata",
            "configuration_keys",
            "documentation",
            "host_filter",
            "key",
            "principal",
            "principal_filter",
            "rack_id",
            "reason",
            "requested_metrics",
            "value",
        ),
        FieldClass.FREE_TEXT,
    ),
}
"""What a plainly typed field means wherever it stands; `_BY_PATH` outranks it."""

_CONFIG_APIS: Final = (
    "describe_configs",
    "alter_configs",
    "incremental_alter_configs",
    "list_config_resources",
)
_ACL_APIS: Final = ("describe_acls", "create_acls", "delete_acls")


def _paths(field_class: FieldClass, *message_paths: str) -> dict[str, FieldClass]:
    return dict.fromkeys(message_paths, field_class)


_BY_PATH: Final = {
    **_paths(
        FieldClass.COORDINATOR_KEY,
        "find_coordinator.request.key",
        "find_coordinator.request.coordinator_keys[]",
        "find_coordinator.response.coordinators[].key",
    ),
    **_paths(
        FieldClass.CONSUMER_METADATA,
        "join_group.request.protocols[].metadata",
        "join_group.response.members[].metadata",
        "describe_groups.response.groups[].members[].member_metadata",
    ),
    **_paths(
        FieldClass.BROKER_ADDRESS,
        "metadata.response.brokers[].host",
        "metadata.response.brokers[].port",
        "describe_cluster.response.brokers[].host",
        "describe_cluster.response.brokers[].port",
        "find_coordinator.response.host",
        "find_coordinator.response.port",
        "find_coordinator.response.coordinators[].host",
        "find_coordinator.response.coordinators[].port",
        *(
            f"{api}.response.node_endpoints[].{part}"
            for api in ("produce", "fetch", "share_fetch", "share_acknowledge")
            for part in ("host", "port")
        ),
    ),
    **_paths(
        FieldClass.MEMBER_HOST,
        *(
            f"{message}.user_endpoint.{part}"
            for message in (
                "streams_group_heartbeat.request",
                "streams_group_heartbeat.response.partitions_by_user_endpoint[]",
                "streams_group_describe.response.groups[].members[]",
            )
            for part in ("host", "port")
        ),
    ),
    **_paths(
        FieldClass.FREE_TEXT,
        "api_versions.response.finalized_features[].name",
        "api_versions.response.supported_features[].name",
        "alter_configs.request.resources[].configs[].name",
        "incremental_alter_configs.request.resources[].configs[].name",
        "describe_configs.response.results[].configs[].name",
        "describe_configs.response.results[].configs[].synonyms[].name",
        "create_topics.request.topics[].configs[].name",
        "create_topics.response.topics[].configs[].name",
        "offset_fetch.response.topics[].partitions[].metadata",
        "offset_fetch.response.groups[].topics[].partitions[].metadata",
        "create_acls.request.creations[].host",
        "delete_acls.response.filter_results[].matching_acls[].host",
        "describe_acls.response.resources[].acls[].host",
    ),
    **_paths(FieldClass.OPAQUE, "join_group.request.protocols[].name", "join_group.response.leader"),
}
"""Fields whose name alone does not say what they mean."""

_TEXTUAL: Final = frozenset({"string", "bytes", "uuid", "records"})
_NUMERIC: Final = frozenset({"port", "total_bytes", "usable_bytes"})


def needs_class(field: Field) -> bool:
    """Whether a field can say anything about the cluster or its tenants."""
    return field.kafka_type in _TEXTUAL or field.name in _NUMERIC


def _by_type(field: Field) -> FieldClass | None:
    if field.kafka_type == "records":
        return FieldClass.RECORDS
    return None if field.value_type is UUID else _BY_TYPE.get(field.value_type)


def classify(kind: MessageKind, path: str, field: Field) -> FieldClass:
    """What a field means. `path` is like `.topics[].name`.

    Raises: UnclassifiedField.
    """
    if kind.api in CLUSTER_APIS:
        return FieldClass.CLUSTER_ADMIN
    found = _BY_PATH.get(f"{kind}{path}") or _by_type(field)
    if found is None and field.name in ("resource_name", "resource_name_filter"):
        if kind.api in _CONFIG_APIS:
            found = FieldClass.CONFIG_RESOURCE
        elif kind.api in _ACL_APIS:
            found = FieldClass.ACL_RESOURCE
    found = found or _BY_NAME.get(field.name)
    if found is None:
        raise UnclassifiedField(f"{kind}{path} ({field.kafka_type})")
    return found
