"""The durable state of all groups: exactly what the offsets topic says, nothing else.

`replay` is the only thing that changes it, at recovery and in live operation alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from broker.groups.records import GroupMetadata, GroupRecord, OffsetAndMetadata, OffsetRecord, Record
from contracts.names import owner_of

_OFFSET_BYTES: Final = 256
"""About what a committed offset takes besides its metadata."""


def _bytes_of(value: OffsetAndMetadata | None) -> int:
    return 0 if value is None else _OFFSET_BYTES + len(value.metadata)


class DurableState:
    """Committed offsets and group metadata. Invariant: the result of replaying the log in order."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, dict[int, OffsetAndMetadata]]] = {}
        self._groups: dict[str, GroupMetadata] = {}
        self.offset_bytes: defaultdict[str | None, int] = defaultdict(int)
        """What the committed offsets of each instance take in memory."""

    def replay(self, record: Record) -> None:
        """Apply one record that is below the high watermark."""
        if isinstance(record, GroupRecord):
            if record.value is None:
                self._groups.pop(record.group_id, None)
            else:
                self._groups[record.group_id] = record.value
            return
        self._count_offset(record)
        if record.value is None:
            self._remove_offset(record)
        else:
            topics = self._offsets.setdefault(record.group_id, {})
            topics.setdefault(record.topic, {})[record.partition] = record.value

    def _count_offset(self, record: OffsetRecord) -> None:
        owner = owner_of(record.group_id)
        before = self.offset(record.group_id, record.topic, record.partition)
        self.offset_bytes[owner] += _bytes_of(record.value) - _bytes_of(before)
        if self.offset_bytes[owner] == 0:
            del self.offset_bytes[owner]

    def growth_bytes(self, records: Iterable[Record]) -> int:
        """How much more memory offsets take once these records are replayed; never below 0."""
        growth = 0
        for record in records:
            if isinstance(record, OffsetRecord):
                before = self.offset(record.group_id, record.topic, record.partition)
                growth += _bytes_of(record.value) - _bytes_of(before)
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
        return group_id in self._groups or group_id in self._offsets

    def group_ids(self) -> set[str]:
        """Every group with a live record."""
        return self._groups.keys() | self._offsets.keys()

    def live_records(self) -> Iterator[Record]:
        """What a rewritten log must hold: replaying it gives this state again."""
        for group_id, metadata in self._groups.items():
            yield GroupRecord(group_id, metadata)
        for group_id in self._offsets:
            yield from self._offset_records(group_id)

    def _offset_records(self, group_id: str) -> Iterator[OffsetRecord]:
        for topic, partitions in self._offsets[group_id].items():
            for partition, value in partitions.items():
                yield OffsetRecord(group_id, topic, partition, value)

    def tombstones(self, group_id: str) -> tuple[Record, ...]:
        """Records that remove everything of a group."""
        found: list[Record] = (
            [record._replace(value=None) for record in self._offset_records(group_id)]
            if group_id in self._offsets
            else []
        )
        if group_id in self._groups:
            found.append(GroupRecord(group_id, None))
        return tuple(found)
