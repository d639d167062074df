"""One table of supported APIs per process: `ApiVersions`, dispatch and tests are computed from it."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """The Kafka APIs that any table of ours names (Kafka protocol guide)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    CHARGE = 20_000
    """Ours, not Kafka's: see `contracts.charging`."""
    TRACE = 20_001
    """Ours, not Kafka's: see `contracts.tracing`."""
    ADOPT = 20_002
    """Ours, not Kafka's: see `contracts.adoption`."""


class VersionRange(NamedTuple):
    """The versions of one API that a process serves; `advertised_min` may be lower than what is served.

    librdkafka before 2.11.1 turns compression off when Produce v0 is not advertised (KAFKA-18659), and
    gates Kerberos on JoinGroup v0 (KAFKA-19444).
    """

    lowest: int
    highest: int
    advertised_min: int

    def serves(self, api_version: int) -> bool:
        """Whether requests of this version are dispatched."""
        return self.lowest <= api_version <= self.highest


def version_range(lowest: int, highest: int, advertised_min: int | None = None) -> VersionRange:
    """A range that advertises what it serves unless told otherwise."""
    return VersionRange(lowest, highest, lowest if advertised_min is None else advertised_min)


GROUP_VERSION: Final = "group.version"
"""Kafka's feature: 1 is the consumer protocol of KIP-848."""
TRANSACTION_VERSION: Final = "transaction.version"
"""Kafka's feature: 2 are transactions with an epoch each, of KIP-890."""


class Served(NamedTuple):
    """What a broker says of itself in ApiVersions."""

    apis: Mapping[int, VersionRange]
    features: Mapping[str, int] = {}
    """Finalized levels: what all brokers of the cluster agree on."""


ApiTable = dict[ApiKey, VersionRange]


def table(rows: Iterable[tuple[ApiKey, VersionRange]]) -> ApiTable:
    """A table of unique rows."""
    built: ApiTable = {}
    for key, versions in rows:
        assert key not in built, f"{key.name} stands twice in the table"
        built[key] = versions
    return built
