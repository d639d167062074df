"""Offsets committed inside transactions whose markers have not come yet. Part of the durable state.

An offset takes effect when its transaction's commit marker is in the log, but its age is that of its own
record: what was written for the same partition later, in whatever way, wins. So a pending offset is forgotten
as soon as a later one has taken effect, as compaction will forget it too.
Source: KIP-98, GroupMetadata.pendingTransactionalOffsetCommits and CommitRecordMetadataAndOffset.olderThan.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.groups.records import OffsetAndMetadata, OffsetRecord
from contracts.names import owner_of

_OFFSET_BYTES: Final = 256
"""About what an offset takes besides its metadata."""


def bytes_of(value: OffsetAndMetadata | None) -> int:
    """About what an offset takes in memory."""
    return 0 if value is None else _OFFSET_BYTES + len(value.metadata)


class OffsetKey(NamedTuple):
    """What a committed offset is about."""

    group_id: str
    topic: str
    partition: int


class _Pending(NamedTuple):
    log_offset: int
    value: OffsetAndMetadata | None


class PendingOffsets:
    """Pending offsets by producer id, and by group. Invariant: the two views hold the same keys."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, _Pending]] = {}
        self._by_group: dict[str, dict[OffsetKey, set[int]]] = {}
        self.size_bytes: Counter[str | None] = Counter()
        """What the pending offsets of each instance take in memory."""

    def add(self, producer_id: int, record: OffsetRecord, log_offset: int) -> None:
        """A record of an open transaction."""
        key = OffsetKey(record.group_id, record.topic, record.partition)
        if key in self._by_producer.get(producer_id, ()):
            self._forget(producer_id, key)
        self.size_bytes[owner_of(key.group_id)] += bytes_of(record.value)
        self._by_producer.setdefault(producer_id, {})[key] = _Pending(log_offset, record.value)
        self._by_group.setdefault(key.group_id, {}).setdefault(key, set()).add(producer_id)

    def supersede(self, key: OffsetKey, log_offset: int) -> None:
        """A record for the key that stands at `log_offset` took effect: older pending ones never will."""
        for producer_id in tuple(self._by_group.get(key.group_id, {}).get(key, ())):
            if self._by_producer[producer_id][key].log_offset < log_offset:
                self._forget(producer_id, key)

    def end(self, producer_id: int) -> list[tuple[OffsetRecord, int]]:
        """The producer's transaction has ended: its records, with where they stand, in log order."""
        ended = sorted(self._by_producer.get(producer_id, {}).items(), key=lambda item: item[1].log_offset)
        for key, _ in ended:
            self._forget(producer_id, key)
        return [(OffsetRecord(*key, pending.value), pending.log_offset) for key, pending in ended]

    def _forget(self, producer_id: int, key: OffsetKey) -> None:
        owner = owner_of(key.group_id)
        self.size_bytes[owner] -= bytes_of(self._by_producer[producer_id].pop(key).value)
        if self.size_bytes[owner] == 0:
            del self.size_bytes[owner]
        if not self._by_producer[producer_id]:
            del self._by_producer[producer_id]
        keys = self._by_group[key.group_id]
        keys[key].discard(producer_id)
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._by_group[key.group_id]

    def of_group(self, group_id: str) -> Iterator[OffsetKey]:
        """What is pending for a group."""
        return iter(self._by_group.get(group_id, ()))

    def has(self, key: OffsetKey) -> bool:
        """Whether an offset is pending for the key."""
        return key in self._by_group.get(key.group_id, ())

    def group_ids(self) -> set[str]:
        """Groups that have pending offsets."""
        return set(self._by_group)
