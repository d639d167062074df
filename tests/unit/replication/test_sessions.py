"""Followers' sessions: what is ready, who is refused."""

from itertools import count

import pytest
from kio.schema.errors import ErrorCode

from broker.replication.remote import FollowerLink
from broker.replication.sessions import ReplicaSession, ReplicaSessions, SessionRefused
from wire.hot.fetch import FetchPartition, FetchScan

KEY = ("t", 0)


def _scan(
    session: tuple[int, int], *keys: tuple[str, int], forgotten: tuple[str, int] | None = None
) -> FetchScan:
    wanted = [FetchPartition(topic, index, 3, 10, 1000, 0) for topic, index in keys]
    return FetchScan(2, 500, 1, 10**6, 0, *session, wanted, [] if forgotten is None else [forgotten])


class Sessions:
    def __init__(self) -> None:
        self.left: list[tuple[int, tuple[str, int]]] = []
        numbers = count(1)
        self.all = ReplicaSessions(
            lambda: next(numbers), lambda link, key, _gives_up: self.left.append((link.replica_id, key))
        )

    def begin(self, *keys: tuple[str, int], epoch: int = 1, connection: int = 7) -> ReplicaSession:
        return self.all.begin(_scan((0, 0), *keys), FollowerLink(2, epoch), connection)


def test_everything_named_is_ready_once() -> None:
    sessions = Sessions()
    session = sessions.begin(KEY, ("t", 1))
    assert list(session.ready) == [KEY, ("t", 1)]
    session.ready.clear()
    sessions.all.go_on(_scan((session.session_id, 1), ("t", 1)), 7)
    assert list(session.ready) == [("t", 1)]


def test_what_was_told_before_a_partition_is_named_again_counts_no_longer() -> None:
    sessions = Sessions()
    session = sessions.begin(KEY)
    followed = session.partitions[KEY]
    followed.high_watermark = followed.log_start_offset = 8
    sessions.all.go_on(_scan((session.session_id, 1)), 7)
    assert (followed.high_watermark, followed.log_start_offset) == (8, 8)
    sessions.all.go_on(_scan((session.session_id, 2), KEY), 7)
    assert (followed.high_watermark, followed.log_start_offset) == (-1, -1)


def test_what_happens_to_a_partition_makes_it_ready() -> None:
    sessions = Sessions()
    session = sessions.begin(KEY)
    session.ready.clear()
    woken: list[bool] = []
    session.wake = woken.append
    sessions.all.noted(KEY)
    assert (list(session.ready), woken) == ([KEY], []), "told with the next answer"
    sessions.all.moved(KEY)
    sessions.all.moved(KEY)
    assert woken == [False], "once"
    sessions.all.moved(("unknown", 0))


def test_the_next_request_takes_the_waiting_one_back() -> None:
    sessions = Sessions()
    session = sessions.begin(KEY)
    woken: list[bool] = []
    session.wake = woken.append
    sessions.all.next_request_came(8)
    assert woken == []
    sessions.all.next_request_came(7)
    assert woken == [True]


@pytest.mark.parametrize(
    ("session", "connection", "error"),
    [
        ((9, 1), 7, ErrorCode.fetch_session_id_not_found),
        ((1, 1), 8, ErrorCode.fetch_session_id_not_found),
        ((1, 2), 7, ErrorCode.invalid_fetch_session_epoch),
    ],
)
def test_what_does_not_fit_is_refused(session: tuple[int, int], connection: int, error: ErrorCode) -> None:
    sessions = Sessions()
    sessions.begin(KEY)
    with pytest.raises(SessionRefused) as refused:
        sessions.all.go_on(_scan(session), connection)
    assert refused.value.error_code is error


def test_an_earlier_life_of_a_follower_is_refused() -> None:
    sessions = Sessions()
    sessions.begin(KEY, epoch=5, connection=8)
    with pytest.raises(SessionRefused) as refused:
        sessions.begin(KEY, epoch=4)
    assert refused.value.error_code is ErrorCode.stale_broker_epoch
    assert len(sessions.all) == 1
    sessions.begin(KEY, epoch=6)
    assert sessions.left == [(2, KEY)]


def test_leaving_is_told() -> None:
    sessions = Sessions()
    session = sessions.begin(KEY, ("t", 1))
    sessions.all.go_on(_scan((session.session_id, 1), forgotten=KEY), 7)
    assert sessions.left == [(2, KEY)]
    assert list(session.ready) == [("t", 1)]
    sessions.all.connection_closed(8)
    sessions.all.connection_closed(7)
    assert sessions.left == [(2, KEY), (2, ("t", 1))]
    assert len(sessions.all) == 0
    sessions.all.moved(KEY)
