"""Follows the partitions of one leader: what to ask next, and what to do with the answers. The connection
is `link.py`.

One incremental session for all partitions. The next request leaves when the answer to the one before is in
the logs, so it acknowledges what it brought. Only what is new or moved is named, and only that is looked at.
"""

from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from broker.log.errors import LogError, StorageFailed
from broker.log.results import AppendOrigin
from broker.replication.epoch_frames import EpochAsked, epochs_request, read_epochs_answer
from broker.replication.follower import FollowedPartition
from broker.replication.partition import Partition
from broker.replication.throttle import ReplicationThrottle
from runtime.logs import get_logger
from wire.hot.fetch import FOLLOWER_VERSION, FetchedPartition, fetch_request, read_answer
from wire.hot.values import packed_string

_log = get_logger(__name__)
_MAX_WAIT_MS: Final = 500
_RESPONSE_BYTES_MAX: Final = 8 * 1024 * 1024
EPOCHS_ASKED_MAX: Final = 2_000
"""Partitions of one request for epochs: the leader's bound on list entries holds for brokers, too."""
_PARTITION_BYTES_MIN: Final = 1024 * 1024
"""Of one partition in an answer; more when few have moved: one that catches up gets all of it."""
_EPOCH_MAX: Final = 2**31 - 1
_NONE: Final = int(ErrorCode.none.value)

Key = tuple[str, int]


class Fetcher:
    """The partitions that one broker leads and we follow, and the session with it."""

    def __init__(
        self,
        replica_id: int,
        *,
        now_ms: Callable[[], int],
        epoch_ms: Callable[[], int],
        storage_failed: Callable[[str, Exception], None],
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        self._replica_id = replica_id
        self._client_id = packed_string(f"broker-{replica_id}")
        self._now_ms = now_ms
        self._epoch_ms = epoch_ms
        self._storage_failed = storage_failed
        self._throttle = throttle
        self.fetched_bytes = 0
        self._followed: dict[Key, FollowedPartition] = {}
        self._unsettled: dict[Key, FollowedPartition] = {}
        """Those to truncate, or to try again later."""
        self._moved: dict[Key, FollowedPartition] = {}
        """Those whose offset the leader's session does not know."""
        self._in_session: set[Key] = set()
        self._forgotten: dict[Key, None] = {}
        self._session_id = 0
        self._session_epoch = 0
        """What the next request carries."""
        self._is_opening = False
        """The first request of a session is on its way: until its answer the session has no name."""
        self._asked = 0
        """Number of the last request."""
        self._answered = 0
        """Number of the last request that was answered: the leader answers in order."""

    def __len__(self) -> int:
        return len(self._followed)

    # -- what is followed --------------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Follow from now on, in the partition's epoch: first of all look for divergence."""
        self.unfollow(partition.key)
        followed = FollowedPartition(partition)
        self._followed[partition.key] = self._unsettled[partition.key] = followed

    def unfollow(self, key: Key) -> None:
        """Stop; an answer that is on its way is ignored."""
        if self._followed.pop(key, None) is not None:
            self._unsettled.pop(key, None)
            self._leave_session(key)

    def _leave_session(self, key: Key) -> None:
        self._moved.pop(key, None)
        if key in self._in_session:
            self._in_session.discard(key)
            self._forgotten[key] = None

    def reconnected(self) -> None:
        """The leader knows nothing of us: a new session names everything."""
        self._session_id = self._session_epoch = 0
        self._is_opening = False
        self._in_session.clear()
        self._forgotten.clear()
        self._moved = {key: each for key, each in self._followed.items() if each.is_fetching}
        for each in self._unsettled.values():
            each.awaits_epoch = False
        self._answered = self._asked

    # -- asking ------------------------------------------------------------------------------------------

    def next_request(self) -> tuple[bytes, bool] | None:
        """(frame, whether it asks for epochs), or None when nothing can be asked before `pause_ms`."""
        now_ms = self._now_ms()
        asked = self._settle(now_ms) if self._unsettled else []
        if asked:
            self._asked += 1
            frame = epochs_request(self._asked % 2**31, self._client_id, self._replica_id, asked)
            return frame, True
        if self._is_opening:
            return None
        going, held = self._within_limit(now_ms)
        if not (going or self._forgotten or self._in_session - held.keys()):
            return None
        self._asked += 1
        wanted = []
        share_bytes = max(_PARTITION_BYTES_MIN, _RESPONSE_BYTES_MAX // max(1, len(going)))
        for each in going.values():
            each.asked_in = self._asked
            wanted.append(each.wanted(share_bytes))
        forgotten = [key for key in self._forgotten if key not in going]
        self._in_session.update(going)
        self._moved, self._forgotten = held, {}
        frame = fetch_request(
            self._asked % 2**31,
            self._client_id,
            replica_id=self._replica_id,
            max_wait_ms=self._max_wait_ms(now_ms),
            max_bytes=_RESPONSE_BYTES_MAX,
            session=(self._session_id, self._session_epoch),
            wanted=wanted,
            forgotten=forgotten,
        )
        self._is_opening = self._session_epoch == 0
        self._session_epoch = 1 if self._session_epoch == _EPOCH_MAX else self._session_epoch + 1
        return frame, False

    def _within_limit(self, now_ms: int) -> tuple[dict[Key, FollowedPartition], dict[Key, FollowedPartition]]:
        """(those to name, those an operator's limit holds back): a partition that has moved gets nothing
        until it is named again."""
        throttle = self._throttle
        if throttle is None:
            return self._moved, {}
        limited = [key for key in self._moved if throttle.applies(*key, self._replica_id)]
        if not limited or throttle.allowance(now_ms) > 0:
            return self._moved, {}
        held = {key: self._moved[key] for key in limited}
        return {key: each for key, each in self._moved.items() if key not in held}, held

    def _max_wait_ms(self, now_ms: int) -> int:
        return min(_MAX_WAIT_MS, self.pause_ms(now_ms))

    def pause_ms(self, now_ms: int) -> int:
        """How long until something is due by itself."""
        due_ms = min(
            (each.not_before_ms for each in self._unsettled.values() if not each.awaits_epoch),
            default=now_ms + _MAX_WAIT_MS,
        )
        wait_ms = _MAX_WAIT_MS if self._throttle is None or not self._moved else self._throttle.wait_ms()
        return max(1, min(due_ms - now_ms, wait_ms))

    def _settle(self, now_ms: int) -> list[EpochAsked]:
        """Move on those that are due; what must be asked of the leader for the others, or for the first of
        them: the rest is due at once with the next request."""
        asked: list[EpochAsked] = []
        for key, each in list(self._unsettled.items()):
            if len(asked) == EPOCHS_ASKED_MAX:
                break
            if each.not_before_ms > now_ms or each.awaits_epoch:
                continue
            try:
                epoch = each.epoch_to_ask()
            except StorageFailed as error:
                self._give_up(each, error)
                continue
            if epoch is None:
                del self._unsettled[key]
                self._moved[key] = each
            else:
                each.awaits_epoch = True
                each.asked_in = self._asked + 1
                asked.append(EpochAsked(*key, each.leader_epoch, epoch))
        return asked

    # -- answers -----------------------------------------------------------------------------------------

    def epochs_answered(self, frame: memoryview) -> None:
        """Cut what the leader does not have. Raises: MalformedFrame."""
        now_ms = self._now_ms()
        self._answered += 1
        for end in read_epochs_answer(frame):
            each = self._unsettled.get((end.topic, end.partition))
            if each is None or each.asked_in != self._answered or not each.is_current:
                continue
            if end.error_code != _NONE:
                each.pause(now_ms)
                continue
            try:
                cut = each.epoch_answered(end.leader_epoch, end.end_offset)
            except StorageFailed as error:
                self._give_up(each, error)
                continue
            if cut:
                log = each.partition.log
                _log.info("truncated", log=f"{log.topic}-{log.partition}", to=log.log_end_offset, offsets=cut)
            if each.is_fetching:
                del self._unsettled[each.key]
                self._moved[each.key] = each

    def fetch_answered(self, frame: memoryview) -> bool:
        """Append what came; False when the session is lost and another must begin. Raises: MalformedFrame."""
        _, error_code, session_id, partitions = read_answer(frame, FOLLOWER_VERSION)
        self._answered += 1
        if error_code != _NONE:
            _log.info("the leader refuses the session", error_code=ErrorCode(error_code).name)
            return False
        if self._is_opening:
            self._session_id, self._is_opening = session_id, False
        for answer in partitions:
            each = self._followed.get((answer.topic, answer.partition))
            if each is not None and self._answers(each):
                self._take(each, answer, frame)
        return True

    def _answers(self, each: FollowedPartition) -> bool:
        """Whether the answer knows of our last word about the partition: not when it has moved since."""
        key = each.key
        return (
            key in self._in_session
            and key not in self._moved
            and each.asked_in <= self._answered
            and each.is_current
        )

    def _take(self, each: FollowedPartition, answer: FetchedPartition, frame: memoryview) -> None:
        try:
            if answer.error_code != _NONE:
                self._refused(each, answer)
                return
            records = frame[answer.start : answer.end] if answer.end > answer.start else None
            appended_bytes = each.fetched(
                records,
                answer.high_watermark,
                answer.log_start_offset,
                epoch_ms=self._epoch_ms(),
                origin=AppendOrigin.REPLICATION,
            )
        except StorageFailed as error:
            self._give_up(each, error)
        except LogError as error:
            self._unfit(each, error)
        else:
            if appended_bytes:
                self.fetched_bytes += appended_bytes
                if self._throttle is not None and self._throttle.applies(*each.key, self._replica_id):
                    self._throttle.charge(appended_bytes)
                self._moved[each.key] = each

    def _refused(self, each: FollowedPartition, answer: FetchedPartition) -> None:
        if each.refused(answer.error_code, answer.log_start_offset, self._now_ms()):
            self._moved[each.key] = each
            return
        self._leave_session(each.key)
        self._unsettled[each.key] = each

    def _unfit(self, each: FollowedPartition, error: LogError) -> None:
        """Records that cannot be appended: damaged on the way or at the leader, or not what follows."""
        log = each.partition.log
        _log.warning("fetched records are refused", log=f"{log.topic}-{log.partition}", error=error.message)
        each.pause(self._now_ms())
        self._leave_session(each.key)
        self._unsettled[each.key] = each

    def _give_up(self, each: FollowedPartition, error: StorageFailed) -> None:
        """The disk refused: tried again slowly; the leader drops us from the ISR meanwhile."""
        self._storage_failed("a replica cannot be written", error)
        each.pause_ms = 2**30
        each.pause(self._now_ms())
        self._leave_session(each.key)
        self._unsettled[each.key] = each
