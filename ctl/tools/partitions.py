"""The partitions of a cluster as metadata tells them, and which of them are in trouble."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponse

from ctl.errors import CommandError, usage
from wire.request_bounds import PARTITIONS_AT_ONCE, pieces


class PartitionRow(NamedTuple):
    """One partition."""

    topic: str
    partition: int
    leader: int
    """-1: none."""
    replicas: tuple[int, ...]
    """The preferred leader first."""
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    """Replicas on brokers or disks that are gone."""

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync."""
        return len(self.isr) < len(self.replicas)

    @property
    def is_unavailable(self) -> bool:
        """Whether nobody leads it."""
        return self.leader < 0

    @property
    def is_led_by_preferred(self) -> bool:
        """Whether the first replica leads."""
        return bool(self.replicas) and self.leader == self.replicas[0]

    @property
    def name(self) -> str:
        """The name in Kafka's logs."""
        return f"{self.topic}-{self.partition}"


def rows_of(metadata: MetadataResponse) -> list[PartitionRow]:
    """Every partition, sorted. Raises: CommandError for a topic that is not there."""
    found = []
    for topic in metadata.topics:
        if topic.error_code is not ErrorCode.none:
            raise CommandError(f"topic {topic.name}: {topic.error_code.name.upper()}")
        found += [
            PartitionRow(
                topic.name,
                int(one.partition_index),
                int(one.leader_id),
                tuple(map(int, one.replica_nodes)),
                tuple(map(int, one.isr_nodes)),
                tuple(map(int, one.offline_replicas)),
            )
            for one in topic.partitions
        ]
    return sorted(found)


def matching(rows: Iterable[PartitionRow], pattern: str | None) -> Iterator[PartitionRow]:
    """Rows of topics whose whole name matches. Raises: CommandError for what is no regular expression."""
    try:
        wanted = re.compile(pattern) if pattern is not None else None
    except re.error as error:
        raise usage(f"'{pattern}' is not a regular expression: {error}") from None
    return (row for row in rows if wanted is None or wanted.fullmatch(row.topic))


def by_leader(rows: Iterable[PartitionRow]) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """Who leads, and partitions by topic, as many as one request takes; without those that nobody leads."""
    led: dict[int, list[PartitionRow]] = {}
    for row in rows:
        if not row.is_unavailable:
            led.setdefault(row.leader, []).append(row)
    for leader, its in led.items():
        for some in pieces(its, PARTITIONS_AT_ONCE):
            topics: dict[str, list[int]] = {}
            for row in some:
                topics.setdefault(row.topic, []).append(row.partition)
            yield leader, topics
