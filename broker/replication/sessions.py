"""What followers fetch here: one incremental session (KIP-227) per follower, with what is ready for it. Pure.

A session has hundreds of partitions of which few move, so nothing walks over all of them: whatever happens to
a partition marks it ready in the sessions that hold it, and only what is ready is looked at. A session ends
with its connection.
"""

from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from broker.replication.remote import FollowerLink
from wire.hot.fetch import FetchPartition, FetchScan

INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[str, int]


class SessionRefused(Exception):  # noqa: N818 - a verdict
    """The follower's session cannot be used; it begins anew."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


class Followed:
    """One partition of a session: what is asked, and what was told since it was asked."""

    __slots__ = ("high_watermark", "log_start_offset", "session", "wanted")

    def __init__(self, session: "ReplicaSession", wanted: FetchPartition) -> None:
        self.session: Final = session
        self.asks(wanted)

    def asks(self, wanted: FetchPartition) -> None:
        """The follower names the partition. It drops answers to what it asked before: nothing is told yet."""
        self.wanted = wanted
        self.high_watermark = self.log_start_offset = -1


class ReplicaSession:
    """A follower's session. `wake` is set while its fetch waits and is called once; with True it must
    answer."""

    def __init__(self, session_id: int, link: FollowerLink, connection_id: int) -> None:
        self.session_id: Final = session_id
        self.link: Final = link
        self.connection_id: Final = connection_id
        self.epoch = 1
        """What the next request must carry."""
        self.partitions: dict[Key, Followed] = {}
        self.ready: dict[Key, Followed] = {}
        """In the order in which they became ready; those that found no room come first next time."""
        self.wake: Callable[[bool], None] | None = None

    def rouse(self, *, final: bool = False) -> None:
        """Let a waiting fetch look again, or answer whatever there is."""
        wake, self.wake = self.wake, None
        if wake is not None:
            wake(final)


class ReplicaSessions:
    """All followers of this broker. `draw_id` gives random numbers in 1..2**31-1."""

    def __init__(
        self, draw_id: Callable[[], int], on_left: Callable[[FollowerLink, Key, bool], None]
    ) -> None:
        """`on_left(link, partition, gives up)`: a follower fetches a partition no longer, because it said so
        or because its connection is gone."""
        self._draw_id = draw_id
        self._on_left = on_left
        self._by_replica: dict[int, ReplicaSession] = {}
        self._watchers: dict[Key, dict[int, Followed]] = {}
        """By partition: who follows it, by replica id."""

    def __len__(self) -> int:
        return len(self._by_replica)

    def begin(self, scan: FetchScan, link: FollowerLink, connection_id: int) -> ReplicaSession:
        """A new session with what the request names; the follower's earlier one ends.

        Raises: SessionRefused when a later incarnation of the follower is here already (KIP-903).
        """
        before = self._by_replica.get(link.replica_id)
        if before is not None:
            if before.link.broker_epoch > link.broker_epoch:
                raise SessionRefused(ErrorCode.stale_broker_epoch)
            self._end(before)
        session = ReplicaSession(self._draw_id(), link, connection_id)
        self._by_replica[link.replica_id] = session
        self._take(session, scan)
        return session

    def go_on(self, scan: FetchScan, connection_id: int) -> ReplicaSession:
        """The session a request continues, with what it changes. Raises: SessionRefused."""
        session = self._by_replica.get(scan.replica_id)
        if session is None or session.session_id != scan.session_id or session.connection_id != connection_id:
            raise SessionRefused(ErrorCode.fetch_session_id_not_found)
        if session.epoch != scan.session_epoch:
            raise SessionRefused(ErrorCode.invalid_fetch_session_epoch)
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        self._take(session, scan)
        return session

    def _take(self, session: ReplicaSession, scan: FetchScan) -> None:
        for topic, partition in scan.forgotten:
            assert isinstance(topic, str), "followers call topics by their names"
            key = (topic, partition)
            if session.partitions.pop(key, None) is not None:
                session.ready.pop(key, None)
                self._unwatch(session, key, gives_up=True)
        for wanted in scan.partitions:
            key = (wanted.topic, wanted.partition)
            followed = session.partitions.get(key)
            if followed is None:
                followed = session.partitions[key] = Followed(session, wanted)
                self._watchers.setdefault(key, {})[scan.replica_id] = followed
            else:
                followed.asks(wanted)
            session.ready[key] = followed

    def _unwatch(self, session: ReplicaSession, key: Key, *, gives_up: bool) -> None:
        watchers = self._watchers[key]
        del watchers[session.link.replica_id]
        if not watchers:
            del self._watchers[key]
        self._on_left(session.link, key, gives_up)

    def _end(self, session: ReplicaSession) -> None:
        del self._by_replica[session.link.replica_id]
        session.wake = None
        for key in session.partitions:
            self._unwatch(session, key, gives_up=False)

    def connection_closed(self, connection_id: int) -> None:
        """The session that lived on this connection ends."""
        for session in self._by_replica.values():
            if session.connection_id == connection_id:
                self._end(session)
                return

    # -- what happens to partitions ----------------------------------------------------------------------

    def moved(self, key: Key) -> None:
        """There may be records, or the answer is an error now: whoever waits looks again."""
        watchers = self._watchers.get(key)
        if watchers:
            for followed in watchers.values():
                followed.session.ready[key] = followed
                followed.session.rouse()

    def noted(self, key: Key) -> None:
        """High watermark or log start moved: told with the next answer, which is due for it within the
        follower's max_wait."""
        watchers = self._watchers.get(key)
        if watchers:
            for followed in watchers.values():
                followed.session.ready[key] = followed

    def rouse_all(self) -> None:
        """Answer every waiting fetch."""
        for session in list(self._by_replica.values()):
            session.rouse(final=True)

    def next_request_came(self, connection_id: int) -> None:
        """A follower has more to ask than its waiting fetch: that one is answered now."""
        for session in self._by_replica.values():
            if session.connection_id == connection_id:
                session.rouse(final=True)
