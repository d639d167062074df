"""Incremental fetch sessions (KIP-227): the broker remembers what a consumer fetches. Pure; ids are given in.

A full fetch (epoch 0) opens a session; each later request carries the next epoch and only what changed; the
answer names only partitions that have something new. The cache is bounded like Kafka's: a session gives way
when it was idle for two minutes, or when it is older than that and smaller than the newcomer. A session calls
its topics by names or by ids, and goes on as it began (KIP-516).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.hot.fetch import CLIENT_ENTRIES_MAX, FetchPartition, FetchScan, TopicKey

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_EVICTION_MS: Final = 120_000
PARTITIONS_CACHED_MAX: Final = 100_000
"""Of all sessions together: their memory is bounded whatever clients ask for."""
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[TopicKey, int]
NameOf = Callable[[bytes], str]
"""The name of a topic by its id; empty: there is none."""


def named(wanted: FetchPartition, name_of: NameOf) -> FetchPartition:
    """With the topic's name, where the request has but its id."""
    if wanted.topic or not wanted.topic_id:
        return wanted
    name = name_of(wanted.topic_id)
    return wanted._replace(topic=name) if name else wanted


class CachedPartition:
    """One partition of a session: what is asked, and what was answered last."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_answer(
        self, error_code: int, records_bytes: int, high_watermark: int, start_offset: int
    ) -> bool:
        """Whether an incremental answer names this partition; remembers what is told."""
        changed = (
            records_bytes > 0
            or error_code != 0
            or high_watermark != self.high_watermark
            or start_offset != self.log_start_offset
        )
        self.high_watermark, self.log_start_offset = high_watermark, start_offset
        if error_code != 0:
            self.high_watermark = -1  # told again until it is well
        return changed


class FetchSession:
    """A consumer's partitions in the order in which they are served."""

    __slots__ = ("created_ms", "epoch", "is_by_id", "partitions", "session_id", "used_ms")

    def __init__(
        self, session_id: int, wanted: Iterable[FetchPartition], now_ms: int, *, is_by_id: bool
    ) -> None:
        self.session_id = session_id
        self.is_by_id = is_by_id
        """Whether its topics are called by their ids."""
        self.epoch = 1
        """What the next request must carry."""
        self.created_ms = self.used_ms = now_ms
        self.partitions: OrderedDict[Key, CachedPartition] = OrderedDict(
            ((each.topic_key, each.partition), CachedPartition(each)) for each in wanted
        )

    def update(self, scan: FetchScan) -> None:
        """Take what the request changes."""
        for wanted in scan.partitions:
            key = (wanted.topic_key, wanted.partition)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(wanted)
            else:
                cached.wanted = wanted
        for key in scan.forgotten:
            self.partitions.pop(key, None)

    def wanted(self, name_of: NameOf) -> list[FetchPartition]:
        """All of it, with the names that are known now."""
        found = []
        for cached in self.partitions.values():
            if not cached.wanted.topic:
                cached.wanted = named(cached.wanted, name_of)
            found.append(cached.wanted)
        return found

    def served(self, key: Key) -> None:
        """A partition had records: others come first next time."""
        self.partitions.move_to_end(key)


class FetchContext(NamedTuple):
    """What one request fetches, and how its answer is told."""

    wanted: list[FetchPartition]
    session: FetchSession | None
    session_id: int
    is_incremental: bool


class SessionError(Exception):
    """The request's session cannot be used; the client fetches in full next."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


def _no_name(_topic_id: bytes) -> str:
    return ""


class FetchSessionCache:
    """All sessions of the broker. `draw_id` gives random numbers in 1..2**31-1."""

    def __init__(self, sessions_max: int, draw_id: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._draw_id = draw_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """By last use."""
        self.partitions_cached = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def context(
        self, scan: FetchScan, now_ms: int, *, is_by_id: bool = False, name_of: NameOf = _no_name
    ) -> FetchContext:
        """What a request means. `is_by_id`: it calls topics by their ids. Raises: SessionError."""
        if scan.session_epoch in (_INITIAL_EPOCH, _FINAL_EPOCH):
            if scan.session_id != NO_SESSION:
                self._forget(scan.session_id)
            wanted = [named(each, name_of) for each in scan.partitions] if is_by_id else scan.partitions
            opens = scan.session_epoch == _INITIAL_EPOCH
            session = self._open(wanted, now_ms, is_by_id=is_by_id) if opens else None
            session_id = session.session_id if session is not None else NO_SESSION
            return FetchContext(wanted, session, session_id, is_incremental=False)
        session = self._sessions.get(scan.session_id)
        if session is None:
            raise SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != scan.session_epoch:
            raise SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.is_by_id != is_by_id:
            raise SessionError(ErrorCode.fetch_session_topic_id_error)
        before = len(session.partitions)
        session.update(scan)
        self.partitions_cached += len(session.partitions) - before
        if self.partitions_cached > PARTITIONS_CACHED_MAX or len(session.partitions) > CLIENT_ENTRIES_MAX:
            # Every fetch of a session looks at all of its partitions, however little it asks for.
            self._forget(scan.session_id)
            raise SessionError(ErrorCode.fetch_session_id_not_found)
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        self._sessions.move_to_end(scan.session_id)
        if not session.partitions:
            self._forget(scan.session_id)
            return FetchContext([], session, NO_SESSION, is_incremental=True)
        return FetchContext(session.wanted(name_of), session, session.session_id, is_incremental=True)

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions_cached -= len(session.partitions)

    def _open(self, wanted: list[FetchPartition], now_ms: int, *, is_by_id: bool) -> FetchSession | None:
        count = len(wanted)
        if count == 0 or not self._make_room(count, now_ms):
            return None
        if self.partitions_cached + count > PARTITIONS_CACHED_MAX:
            return None
        session_id = self._draw_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._draw_id()
        session = FetchSession(session_id, wanted, now_ms, is_by_id=is_by_id)
        self._sessions[session_id] = session
        self.partitions_cached += len(session.partitions)
        return session

    def _make_room(self, partitions: int, now_ms: int) -> bool:
        if len(self._sessions) < self._sessions_max:
            return True
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > _EVICTION_MS:
            self._forget(oldest.session_id)
            return True
        smaller = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > _EVICTION_MS and len(session.partitions) < partitions
        ]
        if not smaller:
            return False
        self._forget(min(smaller, key=lambda session: len(session.partitions)).session_id)
        return True
