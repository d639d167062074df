"""The table of docs/clients.md of Kafka's APIs: Apache's highest versions, and those at a vport.

`python -m tests.tidy.api_table --rewrite` renews what is between the markers; a test compares it.
Source of Apache's versions: `common/message/*Request.json` of `kafka-clients-4.3.1.jar`, those with listener
`broker`; a `latestVersionUnstable` one, which a broker does not offer, is left out. A test of tier java
compares them with the jar.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from broker.requests.apis import APIS as BROKERS
from gateway.handlers.api_versions import offered
from tests.tidy.bounds_tables import ROOT, table
from wire.api_table import VersionRange, version_range

PAGE: Final[Path] = ROOT / "docs" / "clients.md"
BEGIN: Final = "<!-- made from the tables of APIs: python -m tests.tidy.api_table --rewrite -->"
END: Final = "<!-- end of what was made from the tables of APIs -->"


class Api(NamedTuple):
    """One API that a broker of Apache Kafka 4.3.1 offers its clients."""

    key: int
    name: str
    highest: int


APACHE: Final = (
    Api(0, "Produce", 13),
    Api(1, "Fetch", 18),
    Api(2, "ListOffsets", 11),
    Api(3, "Metadata", 13),
    Api(8, "OffsetCommit", 10),
    Api(9, "OffsetFetch", 10),
    Api(10, "FindCoordinator", 6),
    Api(11, "JoinGroup", 9),
    Api(12, "Heartbeat", 4),
    Api(13, "LeaveGroup", 5),
    Api(14, "SyncGroup", 5),
    Api(15, "DescribeGroups", 6),
    Api(16, "ListGroups", 5),
    Api(17, "SaslHandshake", 1),
    Api(18, "ApiVersions", 4),
    Api(19, "CreateTopics", 7),
    Api(20, "DeleteTopics", 6),
    Api(21, "DeleteRecords", 2),
    Api(22, "InitProducerId", 5),
    Api(23, "OffsetForLeaderEpoch", 4),
    Api(24, "AddPartitionsToTxn", 5),
    Api(25, "AddOffsetsToTxn", 4),
    Api(26, "EndTxn", 5),
    Api(27, "WriteTxnMarkers", 2),
    Api(28, "TxnOffsetCommit", 5),
    Api(29, "DescribeAcls", 3),
    Api(30, "CreateAcls", 3),
    Api(31, "DeleteAcls", 3),
    Api(32, "DescribeConfigs", 4),
    Api(33, "AlterConfigs", 2),
    Api(34, "AlterReplicaLogDirs", 2),
    Api(35, "DescribeLogDirs", 5),
    Api(36, "SaslAuthenticate", 2),
    Api(37, "CreatePartitions", 3),
    Api(38, "CreateDelegationToken", 3),
    Api(39, "RenewDelegationToken", 2),
    Api(40, "ExpireDelegationToken", 2),
    Api(41, "DescribeDelegationToken", 3),
    Api(42, "DeleteGroups", 2),
    Api(43, "ElectLeaders", 2),
    Api(44, "IncrementalAlterConfigs", 1),
    Api(45, "AlterPartitionReassignments", 1),
    Api(46, "ListPartitionReassignments", 0),
    Api(47, "OffsetDelete", 0),
    Api(48, "DescribeClientQuotas", 1),
    Api(49, "AlterClientQuotas", 1),
    Api(50, "DescribeUserScramCredentials", 0),
    Api(51, "AlterUserScramCredentials", 0),
    Api(55, "DescribeQuorum", 2),
    Api(57, "UpdateFeatures", 2),
    Api(60, "DescribeCluster", 2),
    Api(61, "DescribeProducers", 0),
    Api(64, "UnregisterBroker", 0),
    Api(65, "DescribeTransactions", 0),
    Api(66, "ListTransactions", 2),
    Api(68, "ConsumerGroupHeartbeat", 1),
    Api(69, "ConsumerGroupDescribe", 1),
    Api(71, "GetTelemetrySubscriptions", 0),
    Api(72, "PushTelemetry", 0),
    Api(74, "ListConfigResources", 1),
    Api(75, "DescribeTopicPartitions", 0),
    Api(76, "ShareGroupHeartbeat", 1),
    Api(77, "ShareGroupDescribe", 1),
    Api(78, "ShareFetch", 2),
    Api(79, "ShareAcknowledge", 2),
    Api(80, "AddRaftVoter", 1),
    Api(81, "RemoveRaftVoter", 0),
    Api(83, "InitializeShareGroupState", 0),
    Api(84, "ReadShareGroupState", 0),
    Api(85, "WriteShareGroupState", 1),
    Api(86, "DeleteShareGroupState", 0),
    Api(87, "ReadShareGroupStateSummary", 1),
    Api(88, "StreamsGroupHeartbeat", 0),
    Api(89, "StreamsGroupDescribe", 0),
    Api(90, "DescribeShareGroupOffsets", 1),
    Api(91, "AlterShareGroupOffsets", 0),
    Api(92, "DeleteShareGroupOffsets", 0),
)

_BETWEEN_BROKERS: Final = "between brokers only"
_CLUSTERS: Final = "the cluster is the operator's, who has tools of his own"
_SHARE: Final = "share groups (KIP-932) are not served"
_STREAMS: Final = "groups of the Streams protocol (KIP-1071) are not served; `group.protocol=classic` is"
_TOKENS: Final = "no delegation tokens: users log in by SCRAM, PLAIN or certificates"
WHY: Final[Mapping[str, str]] = {
    "AddPartitionsToTxn": "4 and 5 are for brokers; Apache Kafka offers them and refuses them to clients",
    "WriteTxnMarkers": _BETWEEN_BROKERS,
    "AlterReplicaLogDirs": _CLUSTERS,
    "CreateDelegationToken": _TOKENS,
    "RenewDelegationToken": _TOKENS,
    "ExpireDelegationToken": _TOKENS,
    "DescribeDelegationToken": _TOKENS,
    "DescribeClientQuotas": "rates are the instance's, in console and `portico instance`",
    "AlterClientQuotas": "rates are the instance's, in console and `portico instance`",
    "DescribeQuorum": _CLUSTERS,
    "UpdateFeatures": _CLUSTERS,
    "UnregisterBroker": _CLUSTERS,
    "AddRaftVoter": _CLUSTERS,
    "RemoveRaftVoter": _CLUSTERS,
    "ShareGroupHeartbeat": _SHARE,
    "ShareGroupDescribe": _SHARE,
    "ShareFetch": _SHARE,
    "ShareAcknowledge": _SHARE,
    "DescribeShareGroupOffsets": _SHARE,
    "AlterShareGroupOffsets": _SHARE,
    "DeleteShareGroupOffsets": _SHARE,
    "InitializeShareGroupState": _BETWEEN_BROKERS,
    "ReadShareGroupState": _BETWEEN_BROKERS,
    "WriteShareGroupState": _BETWEEN_BROKERS,
    "DeleteShareGroupState": _BETWEEN_BROKERS,
    "ReadShareGroupStateSummary": _BETWEEN_BROKERS,
    "StreamsGroupHeartbeat": _STREAMS,
    "StreamsGroupDescribe": _STREAMS,
}
"""Why an API is lower at a vport, or not there."""


class Row(NamedTuple):
    """One API at a vport. None: it is not there."""

    api: Api
    ours: int | None
    """Our brokers behind it."""
    apaches: int | None
    """An Apache Kafka 4.3.1 behind it."""

    @property
    def is_whole(self) -> bool:
        """Whether a client meets all that it would meet there."""
        return self.ours == self.apaches == self.api.highest


def rows() -> list[Row]:
    """Every API, as ApiVersions offers it at a vport."""
    built_in = _highest({key: row.versions for key, row in BROKERS.items() if not row.is_ours})
    apache = _highest({each.key: version_range(0, each.highest) for each in APACHE})
    return [Row(each, built_in.get(each.key), apache.get(each.key)) for each in APACHE]


def _highest(backend: Mapping[int, VersionRange]) -> dict[int, int]:
    return {each["api_key"]: each["max_version"] for each in offered(backend, legacy_clients=False)}


def rendered() -> str:
    """Everything between the markers."""
    found = rows()
    whole = sum(row.is_whole for row in found)
    said = f"{whole} of {len(found)} APIs are served up to Apache Kafka's highest version."
    columns = ("API", "key", "Apache Kafka 4.3.1", "our brokers", "Apache Kafka behind it", "why less")
    listed = table(
        columns,
        (
            (
                row.api.name,
                str(row.api.key),
                str(row.api.highest),
                _told(row.ours),
                _told(row.apaches),
                "" if row.is_whole else WHY[row.api.name],
            )
            for row in found
        ),
    )
    return f"{said}\n\n{listed}"


def _told(version: int | None) -> str:
    return "—" if version is None else str(version)


def of_page(text: str) -> str:
    """What stands between the markers of a page."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip()


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        raise SystemExit("usage: python -m tests.tidy.api_table --rewrite")
    before, behind = PAGE.read_text().split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{behind.split(END, 1)[1]}")
