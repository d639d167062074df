"""The durable state of all groups: exactly what the offsets topic says, nothing else.

`replay` is the only thing that changes it, at recovery and in live operation alike.
"""

from collections import defaultdict
from collections.abc import Iterable

from broker.groups.consumer_group import ConsumerGroup
from broker.groups.consumer_records import CONSUMER_RECORDS, ConsumerGroupRecord, ConsumerRecord
from broker.groups.pending import OffsetKey, PendingOffsets, bytes_of
from broker.groups.records import GroupMetadata, GroupRecord, OffsetAndMetadata, OffsetRecord, Record
from contracts.names import owner_of


class DurableState:
    """Committed offsets and group metadata. Invariant: the result of replaying the log in order."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, dict[int, OffsetAndMetadata]]] = {}
        self._groups: dict[str, GroupMetadata] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        """Groups of the new protocol. Not to be changed by the caller."""
        self.pending = PendingOffsets()
        self.offset_bytes: defaultdict[str | None, int] = defaultdict(int)
        """What the committed offsets of each instance take in memory."""

    def replay(self, record: Record, log_offset: int) -> None:
        """Apply one record that stands at `log_offset`, below the high watermark, outside of transactions."""
        if isinstance(record, CONSUMER_RECORDS):
            self._replay_consumer(record)
            return
        if isinstance(record, GroupRecord):
            if record.value is None:
                self._groups.pop(record.group_id, None)
            else:
                self._groups[record.group_id] = record.value
            return
        self.pending.supersede(OffsetKey(record.group_id, record.topic, record.partition), log_offset)
        self._count_offset(record)
        if record.value is None:
            self._remove_offset(record)
        else:
            topics = self._offsets.setdefault(record.group_id, {})
            topics.setdefault(record.topic, {})[record.partition] = record.value

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        group = self.consumer_groups.get(record.group_id)
        if isinstance(record, ConsumerGroupRecord) and record.value is None:
            self.consumer_groups.pop(record.group_id, None)
        elif group is not None:
            group.replay(record)
        elif record.value is not None:
            group = self.consumer_groups[record.group_id] = ConsumerGroup(record.group_id)
            group.replay(record)

    def replay_transactional(self, record: Record, log_offset: int, producer_id: int) -> None:
        """Note one record of an open transaction; transactions hold offsets only."""
        if isinstance(record, OffsetRecord):
            self.pending.add(producer_id, record, log_offset)

    def replay_marker(self, producer_id: int, *, committed: bool) -> set[str]:
        """A producer's transaction has ended here. Returns the groups whose offsets it concerns."""
        ended = self.pending.end(producer_id)
        if committed:
            for record, log_offset in ended:
                self.replay(record, log_offset)
        return {record.group_id for record, _ in ended}

    def _count_offset(self, record: OffsetRecord) -> None:
        owner = owner_of(record.group_id)
        before = self.offset(record.group_id, record.topic, record.partition)
        self.offset_bytes[owner] += bytes_of(record.value) - bytes_of(before)
        if self.offset_bytes[owner] == 0:
            del self.offset_bytes[owner]

    def growth_bytes(self, records: Iterable[Record]) -> int:
        """How much more memory offsets take once these records are replayed; never below 0."""
        growth = 0
        for record in records:
            if isinstance(record, OffsetRecord):
                before = self.offset(record.group_id, record.topic, record.partition)
                growth += bytes_of(record.value) - bytes_of(before)
        return max(growth, 0)

    def _remove_offset(self, record: OffsetRecord) -> None:
        topics = self._offsets.get(record.group_id, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if record.topic in topics and not partitions:
            del topics[record.topic]
        if record.group_id in self._offsets and not topics:
            del self._offsets[record.group_id]

    def group(self, group_id: str) -> GroupMetadata | None:
        """The stored metadata of a group, None when it never had members or was deleted."""
        return self._groups.get(group_id)

    def offsets(self, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
        """topic -> partition -> committed offset. Not to be changed by the caller."""
        return self._offsets.get(group_id, {})

    def offset(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """The committed offset of one partition."""
        return self._offsets.get(group_id, {}).get(topic, {}).get(partition)

    def knows(self, group_id: str) -> bool:
        """Whether any record of the group is live."""
        stored = group_id in self._groups or group_id in self.consumer_groups or group_id in self._offsets
        return stored or self.has_pending(group_id)

    def has_pending(self, group_id: str) -> bool:
        """Whether offsets of the group wait for the end of a transaction."""
        return any(True for _ in self.pending.of_group(group_id))

    def group_ids(self) -> set[str]:
        """Every group with a live record."""
        stored = self._groups.keys() | self.consumer_groups.keys() | self._offsets.keys()
        return stored | self.pending.group_ids()

    def offset_keys(self, group_id: str) -> set[OffsetKey]:
        """What the group has offsets for, committed or pending."""
        committed = {
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self.offsets(group_id).items()
            for partition in partitions
        }
        return committed.union(self.pending.of_group(group_id))

    def tombstones(self, group_id: str) -> tuple[Record, ...]:
        """Records that remove everything of a group; those of pending offsets keep them from coming back."""
        found: list[Record] = [OffsetRecord(*key, None) for key in sorted(self.offset_keys(group_id))]
        if group_id in self._groups:
            found.append(GroupRecord(group_id, None))
        if group_id in self.consumer_groups:
            found += self.consumer_groups[group_id].tombstones()
        return tuple(found)
