"""What a log knows of its producers, and the snapshots that keep it over a restart."""

from pathlib import Path
from typing import Final, NamedTuple

from broker.log.producer_loading import load_producers
from broker.log.producer_state import ProducerStates
from broker.log.segment_list import SegmentList
from broker.log.snapshot_files import SnapshotFiles

SNAPSHOT_BYTES: Final = 16 * 1024 * 1024
"""Producer snapshots are written with a flush after so much was appended, and at every roll."""
SNAPSHOTS_KEPT: Final = 16
"""Newest segments with a snapshot: a truncation that goes further back reads the log instead."""


class ActiveProducer(NamedTuple):
    """One producer of a log (DescribeProducers)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 when it is not known."""
    last_active_ms: int
    """Time of its last batch, by our clock."""
    coordinator_epoch: int
    """-1 before the first marker."""
    txn_start_offset: int
    """First offset of the open transaction, -1 without one."""


class LogProducers:
    """`states` is what is known now."""

    __slots__ = ("_segments", "_snapshots", "bytes_since_snapshot", "states")

    def __init__(self, states: ProducerStates, snapshots: SnapshotFiles, segments: SegmentList) -> None:
        self.states: Final = states
        self._snapshots = snapshots
        self._segments = segments
        self.bytes_since_snapshot = 0

    def __len__(self) -> int:
        return len(self.states.entries)

    # Transactions

    def needs_verification(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the coordinator must confirm the transaction before a batch of it is appended (KIP-890)."""
        return not self.states.is_ongoing(producer_id, producer_epoch)

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        now_ms: int,
        *,
        starts_at_zero: bool = False,
    ) -> int | None:
        """The guard to show to `append` once the coordinator has confirmed; None when none is needed.

        A marker that is appended meanwhile makes it void. `starts_at_zero`: the transaction has an epoch of
        its own, so that its first batch here has sequence 0.
        """
        if not self.needs_verification(producer_id, producer_epoch):
            return None
        return self.states.verifications.begin(
            producer_id, producer_epoch, base_sequence, now_ms, starts_at_zero=starts_at_zero
        )

    def describe(self) -> list[ActiveProducer]:
        """Every producer that the log remembers (DescribeProducers, find-hanging)."""
        first_offset = self.states.transactions.first_offset
        return [
            ActiveProducer(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.active_ms,
                entry.coordinator_epoch,
                -1 if (began := first_offset(producer_id)) is None else began,
            )
            for producer_id, entry in self.states.entries.items()
        ]

    # Snapshots

    def write_snapshot(self, log_end_offset: int) -> None:
        """Raises: OSError."""
        self._snapshots.write(log_end_offset, self.states)
        self.prune_snapshots()
        self.bytes_since_snapshot = 0

    def write_snapshot_if_due(self, log_end_offset: int) -> None:
        """Raises: OSError."""
        if self.bytes_since_snapshot >= SNAPSHOT_BYTES:
            self.write_snapshot(log_end_offset)

    def close(self, log_end_offset: int) -> Path:
        """The snapshot of the log's end, to be synced. Raises: OSError."""
        if self._snapshots.newest != log_end_offset:
            self.write_snapshot(log_end_offset)
        return self._snapshots.path(log_end_offset)

    def rolls(self, base_offset: int) -> None:
        """A segment begins at the log's end: it gets its snapshot first. Raises: OSError."""
        self._snapshots.write(base_offset, self.states)

    def rolled(self) -> None:
        """Raises: OSError."""
        self.bytes_since_snapshot = 0
        self.prune_snapshots()

    def prune_snapshots(self) -> None:
        """Raises: OSError."""
        self._snapshots.prune(self._segments.base_offsets()[-SNAPSHOTS_KEPT:])

    def outlive(self, log_end_offset: int) -> None:
        """Producers stay known when the segments that knew them have gone."""
        try:
            if self._snapshots.newest < self._segments.first.base_offset:
                self.write_snapshot(log_end_offset)
            self.prune_snapshots()
        except OSError:
            # A full disk must not keep records from being deleted; the next flush writes the snapshot.
            self.bytes_since_snapshot = SNAPSHOT_BYTES

    # Truncation

    def forget_all(self) -> None:
        """Raises: OSError."""
        self.states.become(ProducerStates())
        self._snapshots.remove_all()

    def return_to(self, log_end_offset: int, high_watermark: int) -> None:
        """What the log knew at its new end. Raises: OSError."""
        active_ms = {producer_id: entry.active_ms for producer_id, entry in self.states.entries.items()}
        end, latest_ms = log_end_offset, max(active_ms.values(), default=0)
        states = self.states
        states.become(
            load_producers(self._segments, self._snapshots, end, latest_ms, index_from=end, until=end)
        )
        states.transactions.committed_to(high_watermark)
        for producer_id, entry in states.entries.items():
            entry.active_ms = active_ms.get(producer_id, entry.active_ms)
