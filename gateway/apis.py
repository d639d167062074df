"""The APIs that tenants may use: versions, and how requests and replies are treated. Unknown means refused.

`ApiVersions`, dispatch, the isolation walk and the scenarios are computed from this table. There is no
default: an API that is not here, or a version outside its row, closes the connection with its cause.
"""

from enum import Enum
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple

from wire.api_table import ApiKey, VersionRange, version_range
from wire.request_bounds import RequestBound, bound_of


class Mode(Enum):
    """How a request is treated on its way up, and its reply on its way down."""

    PRODUCE = "edited in place, streamed when large"
    FETCH = "request and reply edited in place, replies streamed when large"
    MAPPED = (
        "decoded, checked by its handler, rewritten by the schema's rules, encoded; the same for the reply"
    )
    LOCAL = "answered here, never forwarded"


class Row(NamedTuple):
    """One API. `handler` is a module of `gateway.handlers` when the derived rewrite is not all."""

    key: ApiKey
    versions: VersionRange
    mode: Mode
    handler: str | None = None
    legacy_lowest: int | None = None
    """From here up to the lowest version: served for instances with `legacy_clients`, refused for others."""

    @property
    def bound(self) -> RequestBound:
        """What one request may hold."""
        return bound_of(self.key)


@cache
def handler_named(name: str | None) -> ModuleType | None:
    """The module of a row's handler, imported when its API is first met."""
    return None if name is None else import_module(f"gateway.handlers.{name}")


_ROWS: Final = (
    Row(ApiKey.PRODUCE, version_range(3, 13, advertised_min=0), Mode.PRODUCE, "produce", legacy_lowest=0),
    Row(ApiKey.FETCH, version_range(4, 18), Mode.FETCH, "fetch", legacy_lowest=0),
    Row(ApiKey.LIST_OFFSETS, version_range(1, 11), Mode.MAPPED, "topic_partitions", legacy_lowest=0),
    Row(ApiKey.METADATA, version_range(0, 13), Mode.MAPPED, "metadata"),
    Row(ApiKey.OFFSET_COMMIT, version_range(2, 10), Mode.MAPPED, "groups"),
    Row(ApiKey.OFFSET_FETCH, version_range(1, 10), Mode.MAPPED, "groups"),
    Row(ApiKey.FIND_COORDINATOR, version_range(0, 6), Mode.MAPPED, "find_coordinator"),
    Row(ApiKey.JOIN_GROUP, version_range(0, 9), Mode.MAPPED, "groups"),
    Row(ApiKey.HEARTBEAT, version_range(0, 4), Mode.MAPPED, "groups"),
    Row(ApiKey.LEAVE_GROUP, version_range(0, 5), Mode.MAPPED, "groups"),
    Row(ApiKey.SYNC_GROUP, version_range(0, 5), Mode.MAPPED, "groups"),
    Row(ApiKey.DESCRIBE_GROUPS, version_range(0, 6), Mode.MAPPED, "groups"),
    Row(ApiKey.LIST_GROUPS, version_range(0, 5), Mode.MAPPED, "listings"),
    Row(ApiKey.SASL_HANDSHAKE, version_range(0, 1), Mode.LOCAL, "sasl"),
    Row(ApiKey.API_VERSIONS, version_range(0, 4), Mode.LOCAL, "api_versions"),
    Row(ApiKey.CREATE_TOPICS, version_range(2, 7), Mode.MAPPED, "create_topics"),
    Row(ApiKey.DELETE_TOPICS, version_range(1, 6), Mode.MAPPED, "delete_topics"),
    Row(ApiKey.DELETE_RECORDS, version_range(0, 2), Mode.MAPPED, "topic_partitions"),
    Row(ApiKey.INIT_PRODUCER_ID, version_range(0, 5), Mode.MAPPED, "init_producer_id"),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, version_range(2, 4), Mode.MAPPED, "topic_partitions"),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, version_range(0, 3), Mode.MAPPED, "transactions"),
    Row(ApiKey.ADD_OFFSETS_TO_TXN, version_range(0, 4), Mode.MAPPED, "transactions"),
    Row(ApiKey.END_TXN, version_range(0, 5), Mode.MAPPED, "transactions"),
    Row(ApiKey.TXN_OFFSET_COMMIT, version_range(0, 5), Mode.MAPPED, "transactions"),
    Row(ApiKey.DESCRIBE_ACLS, version_range(1, 3), Mode.LOCAL, "acls"),
    Row(ApiKey.CREATE_ACLS, version_range(1, 3), Mode.LOCAL, "acls"),
    Row(ApiKey.DELETE_ACLS, version_range(1, 3), Mode.LOCAL, "acls"),
    Row(ApiKey.DESCRIBE_CONFIGS, version_range(1, 4), Mode.MAPPED, "describe_configs"),
    Row(ApiKey.ALTER_CONFIGS, version_range(0, 2), Mode.MAPPED, "alter_configs"),
    Row(ApiKey.DESCRIBE_LOG_DIRS, version_range(1, 5), Mode.MAPPED, "listings"),
    Row(ApiKey.SASL_AUTHENTICATE, version_range(0, 2), Mode.LOCAL, "sasl"),
    Row(ApiKey.CREATE_PARTITIONS, version_range(0, 3), Mode.MAPPED, "create_partitions"),
    Row(ApiKey.DELETE_GROUPS, version_range(0, 2), Mode.MAPPED, "groups"),
    Row(ApiKey.ELECT_LEADERS, version_range(0, 2), Mode.LOCAL, "forbidden"),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, version_range(0, 1), Mode.MAPPED, "alter_configs"),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version_range(0, 1), Mode.LOCAL, "forbidden"),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, version_range(0, 0), Mode.LOCAL, "forbidden"),
    Row(ApiKey.OFFSET_DELETE, version_range(0, 0), Mode.MAPPED, "groups"),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, version_range(0, 0), Mode.LOCAL, "scram_users"),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, version_range(0, 0), Mode.LOCAL, "scram_users"),
    Row(ApiKey.DESCRIBE_CLUSTER, version_range(0, 2), Mode.MAPPED, "listings"),
    Row(ApiKey.DESCRIBE_PRODUCERS, version_range(0, 0), Mode.MAPPED, "topic_partitions"),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, version_range(0, 0), Mode.MAPPED, "transactions"),
    Row(ApiKey.CONSUMER_GROUP_HEARTBEAT, version_range(0, 1), Mode.MAPPED, "consumer_group_heartbeat"),
    Row(ApiKey.CONSUMER_GROUP_DESCRIBE, version_range(0, 1), Mode.MAPPED, "groups"),
    Row(ApiKey.LIST_TRANSACTIONS, version_range(0, 2), Mode.MAPPED, "listings"),
    Row(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, version_range(0, 0), Mode.LOCAL, "client_metrics"),
    Row(ApiKey.PUSH_TELEMETRY, version_range(0, 0), Mode.LOCAL, "client_metrics"),
    Row(ApiKey.LIST_CONFIG_RESOURCES, version_range(0, 1), Mode.LOCAL, "list_config_resources"),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, version_range(0, 0), Mode.MAPPED, "describe_topic_partitions"),
)

APIS: Final[dict[int, Row]] = {int(row.key): row for row in _ROWS}
assert len(APIS) == len(_ROWS), "an API stands twice in the table"

SERVED: Final[dict[tuple[int, int], Row]] = {
    (int(row.key), version): row
    for row in _ROWS
    for version in range(row.versions.lowest, row.versions.highest + 1)
}
"""The row of every API and version that is served: one look-up per request."""

BEFORE_LOGIN: Final[dict[tuple[int, int], Row]] = {
    served: row
    for served, row in SERVED.items()
    if row.key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
}
"""All that a client may ask before it has logged in, where that is asked for."""

LEGACY: Final[dict[tuple[int, int], Row]] = {
    (int(row.key), version): row
    for row in _ROWS
    if row.legacy_lowest is not None
    for version in range(row.legacy_lowest, row.versions.lowest)
}
"""APIs that instances with `legacy_clients` get besides."""
