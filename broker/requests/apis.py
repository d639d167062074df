"""The APIs this broker serves: versions and handler of each. ApiVersions and dispatch are computed from it.

A handler is a module `broker.handlers.<name>` with `handle(call, deps)`, imported when its API is first met.
Each names in a Protocol of its own what it uses of the broker.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from broker.requests.call import Call
from broker.requests.payer import Charged
from wire.api_table import ApiKey, VersionRange, version_range
from wire.request_bounds import bound_of


class Handler(Protocol):
    """Answers one call, now or from a later callback."""

    def __call__(self, call: Call, deps: Any) -> None:
        """Handle the call."""


class Api(NamedTuple):
    """One row of the table."""

    key: ApiKey
    versions: VersionRange
    module: str
    raw: bool = False
    """The handler scans the frame itself instead of getting a decoded entity."""
    before_auth: bool = False
    """Served before the connection has authenticated."""
    peers_only: bool = False
    """Served to the brokers of this cluster; to everyone else the row does not exist."""
    payers_only: bool = False
    """The same for gateways that have named an instance."""
    operators_only: bool = False
    """The same for who speaks for no client."""
    charged: Charged | None = None
    """The bucket that an instance's frames are charged to."""
    is_ours: bool = False
    """The body is a message of `contracts` behind a request header v1; kio does not know the key."""

    def exists_for(self, *, is_peer: bool, is_payer: bool, is_client: bool) -> bool:
        """Whether a connection may know of the row: it is a broker's, or an instance pays for it, or a client
        asks through it."""
        is_known = (is_peer or not self.peers_only) and (is_payer or not self.payers_only)
        return is_known and not (is_client and self.operators_only)

    @property
    def frame_bytes_max(self) -> int | None:
        """Bounds what one request may cost to decode; None: `request_bytes_max` alone."""
        return bound_of(self.key).physical_frame_bytes_max

    def load(self) -> Handler:
        """The row's handler."""
        return cast("Handler", import_module(f"broker.handlers.{self.module}").handle)


def _between_brokers(key: ApiKey, module: str) -> Api:
    return Api(key, version_range(0, 0), module, peers_only=True, is_ours=True)


_ROWS: Final = (
    Api(
        ApiKey.PRODUCE,
        version_range(0, 13),
        "produce",
        raw=True,
        charged=Charged.PRODUCE,
    ),
    Api(ApiKey.FETCH, version_range(0, 18), "fetch", raw=True, charged=Charged.CONSUME),
    Api(ApiKey.LIST_OFFSETS, version_range(0, 11), "list_offsets"),
    Api(ApiKey.METADATA, version_range(0, 13), "metadata"),
    _between_brokers(ApiKey.LEADER_AND_ISR, "cluster_command"),
    _between_brokers(ApiKey.STOP_REPLICA, "cluster_command"),
    _between_brokers(ApiKey.UPDATE_METADATA, "cluster_command"),
    _between_brokers(ApiKey.CONTROLLED_SHUTDOWN, "controlled_shutdown"),
    Api(ApiKey.SASL_HANDSHAKE, version_range(0, 1), "sasl_handshake", before_auth=True),
    Api(ApiKey.API_VERSIONS, version_range(0, 4), "api_versions", before_auth=True),
    Api(ApiKey.CREATE_TOPICS, version_range(2, 7), "create_topics"),
    Api(ApiKey.DELETE_TOPICS, version_range(1, 6), "delete_topics"),
    Api(ApiKey.DELETE_RECORDS, version_range(0, 2), "delete_records"),
    Api(ApiKey.INIT_PRODUCER_ID, version_range(0, 5), "init_producer_id", charged=Charged.INTERNAL),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, version_range(2, 4), "offset_for_leader_epoch"),
    Api(ApiKey.DESCRIBE_CONFIGS, version_range(1, 4), "describe_configs"),
    Api(ApiKey.ALTER_CONFIGS, version_range(0, 2), "alter_configs"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, version_range(1, 5), "describe_log_dirs"),
    Api(ApiKey.SASL_AUTHENTICATE, version_range(0, 2), "sasl_authenticate", before_auth=True),
    Api(ApiKey.CREATE_PARTITIONS, version_range(0, 3), "create_partitions"),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, version_range(0, 1), "incremental_alter_configs"),
    Api(ApiKey.ELECT_LEADERS, version_range(0, 2), "elect_leaders"),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version_range(0, 0), "alter_partition_reassignments"),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, version_range(0, 0), "list_partition_reassignments"),
    Api(ApiKey.DESCRIBE_CLUSTER, version_range(0, 2), "describe_cluster"),
    Api(
        ApiKey.OFFSET_COMMIT,
        version_range(2, 10),
        "offset_commit",
        charged=Charged.INTERNAL,
    ),
    Api(ApiKey.OFFSET_FETCH, version_range(1, 10), "offset_fetch"),
    Api(ApiKey.FIND_COORDINATOR, version_range(0, 6), "find_coordinator"),
    Api(
        ApiKey.JOIN_GROUP,
        version_range(0, 9),
        "join_group",
        charged=Charged.INTERNAL,
    ),
    Api(ApiKey.HEARTBEAT, version_range(0, 4), "heartbeat"),
    Api(ApiKey.LEAVE_GROUP, version_range(0, 5), "leave_group", charged=Charged.INTERNAL),
    Api(
        ApiKey.SYNC_GROUP,
        version_range(0, 5),
        "sync_group",
        charged=Charged.INTERNAL,
    ),
    Api(ApiKey.DESCRIBE_GROUPS, version_range(0, 6), "describe_groups", charged=Charged.INTERNAL),
    Api(ApiKey.LIST_GROUPS, version_range(0, 5), "list_groups"),
    Api(ApiKey.DELETE_GROUPS, version_range(0, 2), "delete_groups", charged=Charged.INTERNAL),
    Api(ApiKey.OFFSET_DELETE, version_range(0, 0), "offset_delete", charged=Charged.INTERNAL),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, version_range(0, 5), "add_partitions_to_txn", charged=Charged.INTERNAL),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, version_range(0, 4), "add_offsets_to_txn", charged=Charged.INTERNAL),
    Api(ApiKey.END_TXN, version_range(0, 5), "end_txn", charged=Charged.INTERNAL),
    Api(ApiKey.WRITE_TXN_MARKERS, version_range(1, 2), "write_txn_markers"),
    Api(
        ApiKey.TXN_OFFSET_COMMIT,
        version_range(0, 5),
        "txn_offset_commit",
        charged=Charged.INTERNAL,
    ),
    Api(ApiKey.DESCRIBE_PRODUCERS, version_range(0, 0), "describe_producers"),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, version_range(0, 0), "describe_transactions"),
    Api(ApiKey.LIST_TRANSACTIONS, version_range(0, 2), "list_transactions"),
    Api(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version_range(0, 1),
        "consumer_group_heartbeat",
        charged=Charged.INTERNAL,
    ),
    Api(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version_range(0, 1),
        "consumer_group_describe",
        charged=Charged.INTERNAL,
    ),
    Api(ApiKey.LIST_CONFIG_RESOURCES, version_range(0, 1), "list_config_resources"),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, version_range(0, 0), "describe_topic_partitions"),
    Api(ApiKey.CHARGE, version_range(0, 0), "charge", payers_only=True, is_ours=True),
    Api(ApiKey.TRACE, version_range(0, 0), "trace", payers_only=True, is_ours=True),
    Api(ApiKey.ADOPT, version_range(0, 0), "adopt", operators_only=True, is_ours=True),
)

APIS: Final[dict[int, Api]] = {int(row.key): row for row in _ROWS}
CHARGED: Final[dict[int, Charged]] = {int(row.key): row.charged for row in _ROWS if row.charged is not None}
assert len(APIS) == len(_ROWS), "an API stands twice in the table"
