"""One partition behind its leader: find where the logs diverge, cut, then fetch. Pure but for the log.

    new leader epoch -> TRUNCATING -> FETCHING
                           ^ |____ next older epoch, until both logs know the same one (KIP-279)
                           |
                        errors of epochs and offsets come back here, after a pause

Truncation is by leader epoch, never by high watermark (KIP-101), on every change of the epoch, also when the
leader stays (KAFKA-7164). Nothing is fetched, so no high watermark is taken over, before it is done
(KAFKA-14704).
"""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.log.results import AppendOrigin
from broker.replication.partition import Partition
from wire.batch import WritableBuffer
from wire.hot.fetch import FetchPartition

_UNDEFINED: Final = -1
_PAUSE_FIRST_MS: Final = 20
"""The leader may hear of its leadership a moment after us."""
_PAUSE_LAST_MS: Final = 1_000
_NONE: Final = int(ErrorCode.none.value)
_OUT_OF_RANGE: Final = int(ErrorCode.offset_out_of_range.value)


class FollowedPartition:
    """A partition in one leader epoch; a new epoch makes a new one."""

    __slots__ = (
        "asked_in",
        "awaits_epoch",
        "is_fetching",
        "key",
        "leader_epoch",
        "not_before_ms",
        "partition",
        "pause_ms",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition: Final = partition
        self.key: Final = partition.key
        self.leader_epoch: Final = partition.leader_epoch
        self.is_fetching = False
        """Else it is truncating."""
        self.awaits_epoch = False
        """The leader has been asked where our latest epoch ended."""
        self.asked_in = 0
        """Number of the request that last named it: what answers an earlier one is not for us."""
        self.not_before_ms = 0
        self.pause_ms = 0

    @property
    def is_current(self) -> bool:
        """Whether the partition is still in the epoch this was made for, and following."""
        return self.partition.leader_epoch == self.leader_epoch and not self.partition.is_leader

    # -- truncating --------------------------------------------------------------------------------------

    def epoch_to_ask(self) -> int | None:
        """Our latest epoch, to be looked up at the leader; None when there is nothing to compare.

        A log without epochs has no records to speak of: what is not committed goes. Raises: StorageFailed.
        """
        log = self.partition.log
        if log.leader_epoch != _UNDEFINED:
            return log.leader_epoch
        log.truncation.truncate_to(log.high_watermark)
        self.is_fetching = True
        return None

    def epoch_answered(self, epoch: int, end_offset: int) -> int:
        """The leader's lineage: its largest epoch at or below ours ended there. Cut what is not in it;
        returns how many offsets were cut. Raises: StorageFailed."""
        log = self.partition.log
        before = log.log_end_offset
        self.awaits_epoch = False
        if end_offset == _UNDEFINED:
            # It knows no such epoch, which only happens when it knows none: what is committed stays.
            log.truncation.truncate_to(log.high_watermark)
            self.is_fetching = True
            return before - log.log_end_offset
        if epoch == _UNDEFINED:
            log.truncation.truncate_to(end_offset)
            self.is_fetching = True
            return before - log.log_end_offset
        our_epoch, our_end = log.end_offset_for_epoch(epoch)
        if our_epoch == epoch:
            log.truncation.truncate_to(min(end_offset, our_end))
            self.is_fetching = True
        elif our_end == _UNDEFINED:
            log.truncation.truncate_to(end_offset)  # everything we have is newer than what it has
            self.is_fetching = True
        else:
            log.truncation.truncate_to(
                min(our_end, end_offset)
            )  # then we ask for the epoch that we end with now
        return before - log.log_end_offset

    # -- fetching ----------------------------------------------------------------------------------------

    def wanted(self, max_bytes: int) -> FetchPartition:
        """What to ask the leader for."""
        topic, index = self.key
        offsets = self.partition.log.offsets
        return FetchPartition(
            topic, index, self.leader_epoch, offsets.log_end_offset, max_bytes, offsets.log_start_offset
        )

    def fetched(
        self,
        records: WritableBuffer | None,
        high_watermark: int,
        log_start_offset: int,
        *,
        epoch_ms: int,
        origin: AppendOrigin,
    ) -> int:
        """Append what came and take over how far the leader is; bytes appended.

        Raises: AppendRefused for records that cannot be ours, StorageFailed.
        """
        log = self.partition.log
        appended_bytes = 0
        if records is not None:
            result = log.append(records, now_ms=epoch_ms, leader_epoch=self.leader_epoch, origin=origin)
            appended_bytes = result.appended_bytes
        self.pause_ms = 0
        log.advance_high_watermark(high_watermark)
        if log_start_offset > log.offsets.log_start_offset:
            log.retention.delete_records_before(min(log_start_offset, log.offsets.high_watermark))
        return appended_bytes

    def refused(self, error_code: int, leader_start_offset: int, now_ms: int) -> bool:
        """The leader answers with an error; whether we can go on at once.

        Behind the leader's log start we begin anew there (retention has overtaken us); ahead of its end we
        look for the divergence again. Epochs that do not fit, leaders that are none yet and everything else
        pass by themselves. Raises: StorageFailed.
        """
        log = self.partition.log
        lost = leader_start_offset > log.log_end_offset or log.leader_epoch == _UNDEFINED
        if error_code == _OUT_OF_RANGE and leader_start_offset >= 0 and lost:
            log.truncation.truncate_fully_and_start_at(leader_start_offset)
            return True
        self.pause(now_ms)
        return False

    def pause(self, now_ms: int) -> None:
        """Look for divergence again after a while, longer each time."""
        self.is_fetching = self.awaits_epoch = False
        self.pause_ms = min(max(_PAUSE_FIRST_MS, 2 * self.pause_ms), _PAUSE_LAST_MS)
        self.not_before_ms = now_ms + self.pause_ms
