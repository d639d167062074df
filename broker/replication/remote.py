"""What a leader knows of one of its followers. Pure."""

from typing import Final

UNKNOWN_OFFSET: Final = -1


class FollowerLink:
    """The connection a follower fetches by: one for all partitions it follows here.

    An incremental fetch names only partitions whose offset moved, yet it speaks for all of the session.
    """

    __slots__ = ("broker_epoch", "last_fetch_ms", "replica_id")

    def __init__(self, replica_id: int, broker_epoch: int) -> None:
        self.replica_id: Final = replica_id
        self.broker_epoch: Final = broker_epoch
        """Epoch of the incarnation that logged in (czxid of its registration)."""
        self.last_fetch_ms = 0


class RemoteReplica:
    """One follower of one partition.

    `caught_up_ms` is the latest time at which it had everything the leader had then.
    """

    __slots__ = (
        "caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "link",
        "log_end_offset",
        "log_start_offset",
        "replica_id",
    )

    def __init__(self, replica_id: int, caught_up_ms: int) -> None:
        self.replica_id: Final = replica_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        self.last_fetch_ms = 0
        self.last_fetch_leader_end_offset = 0
        self.link: FollowerLink | None = None

    def fetched(
        self, link: FollowerLink, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """It has everything below `offset`.

        It was caught up when it last asked, if it now has what the leader had then: a follower that is
        always a little behind a busy leader is in sync.
        """
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        self.link = link

    def leader_appends(self, leader_end_offset: int) -> None:
        """The leader is about to grow from `leader_end_offset`: until its last fetch this one had it all."""
        if self.log_end_offset == leader_end_offset and self.link is not None:
            self.caught_up_ms = max(self.caught_up_ms, self.link.last_fetch_ms)

    def is_in_sync(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has everything, or had it within `replica.lag.time.max.ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms
