"""Incremental fetch sessions (KIP-227)."""

import itertools

import pytest
from kio.schema.errors import ErrorCode

from broker.fetches.fetch_sessions import PARTITIONS_CACHED_MAX, FetchContext, FetchSessionCache, SessionError
from wire.hot.fetch import FetchPartition, FetchScan


def _cache(sessions_max: int = 3) -> FetchSessionCache:
    counter = itertools.count(1)
    return FetchSessionCache(sessions_max, lambda: next(counter))


def _partition(index: int, offset: int = 0) -> FetchPartition:
    return FetchPartition("topic", index, -1, offset, 1000)


def _scan(
    session_id: int,
    epoch: int,
    *partitions: FetchPartition,
    forgotten: list[tuple[str | bytes, int]] | None = None,
) -> FetchScan:
    return FetchScan(-1, 0, 1, 1000, 0, session_id, epoch, list(partitions), forgotten or [])


def _wanted(context: FetchContext) -> list[int]:
    return [each.partition for each in context.wanted]


def test_without_a_session() -> None:
    cache = _cache()
    context = cache.context(_scan(0, -1, _partition(0)), 0)
    assert (context.session, context.session_id, context.is_incremental) == (None, 0, False)
    assert len(cache) == 0


def test_a_session_remembers_adds_updates_and_forgets() -> None:
    cache = _cache()
    opened = cache.context(_scan(0, 0, _partition(0), _partition(1)), 0)
    assert opened.session_id == 1
    assert not opened.is_incremental
    next_one = cache.context(_scan(1, 1, _partition(1, 50), _partition(2)), 1)
    assert next_one.is_incremental
    assert [(each.partition, each.fetch_offset) for each in next_one.wanted] == [(0, 0), (1, 50), (2, 0)]
    fewer = cache.context(_scan(1, 2, forgotten=[("topic", 0)]), 2)
    assert _wanted(fewer) == [1, 2]
    assert cache.partitions_cached == 2


def _by_id(index: int, topic_id: bytes) -> FetchPartition:
    return FetchPartition("", index, -1, 0, 1000, -1, topic_id)


def test_a_session_of_topic_ids_takes_names_as_they_become_known() -> None:
    cache, names = _cache(), {b"a": "x"}

    def context(scan: FetchScan) -> FetchContext:
        return cache.context(scan, 0, is_by_id=True, name_of=lambda topic_id: names.get(topic_id, ""))

    opened = context(_scan(0, 0, _by_id(0, b"a"), _by_id(0, b"b")))
    assert [(each.topic, each.topic_id) for each in opened.wanted] == [("x", b"a"), ("", b"b")]
    names[b"b"] = "y"
    names[b"a"] = "what has the name now"
    went_on = context(_scan(1, 1))
    assert [(each.topic, each.topic_id) for each in went_on.wanted] == [("x", b"a"), ("y", b"b")]
    names[b"c"] = "x"
    replaced = context(_scan(1, 2, _by_id(0, b"c"), forgotten=[(b"a", 0)]))
    assert [(each.topic, each.topic_id) for each in replaced.wanted] == [("y", b"b"), ("x", b"c")]


@pytest.mark.parametrize("began_by_id", [True, False])
def test_a_session_goes_on_as_it_began(began_by_id: bool) -> None:
    cache = _cache()
    cache.context(_scan(0, 0, _partition(0)), 0, is_by_id=began_by_id)
    with pytest.raises(SessionError) as other:
        cache.context(_scan(1, 1), 0, is_by_id=not began_by_id)
    assert other.value.error_code is ErrorCode.fetch_session_topic_id_error
    assert cache.context(_scan(1, 1), 0, is_by_id=began_by_id).is_incremental


def test_errors() -> None:
    cache = _cache()
    cache.context(_scan(0, 0, _partition(0)), 0)
    with pytest.raises(SessionError) as wrong_epoch:
        cache.context(_scan(1, 5), 0)
    assert wrong_epoch.value.error_code is ErrorCode.invalid_fetch_session_epoch
    with pytest.raises(SessionError) as unknown:
        cache.context(_scan(9, 1), 0)
    assert unknown.value.error_code is ErrorCode.fetch_session_id_not_found


def test_closing_and_replacing() -> None:
    cache = _cache()
    cache.context(_scan(0, 0, _partition(0)), 0)
    cache.context(_scan(1, 0, _partition(0)), 0)
    assert len(cache) == 1
    cache.context(_scan(2, -1, _partition(0)), 0)
    assert (len(cache), cache.partitions_cached) == (0, 0)


def test_the_epoch_wraps_to_one() -> None:
    cache = _cache()
    opened = cache.context(_scan(0, 0, _partition(0)), 0)
    assert opened.session is not None
    opened.session.epoch = 2**31 - 1
    cache.context(_scan(1, 2**31 - 1), 0)
    assert opened.session.epoch == 1


def test_partitions_with_records_go_to_the_back() -> None:
    cache = _cache()
    opened = cache.context(_scan(0, 0, *map(_partition, range(3))), 0)
    assert opened.session is not None
    opened.session.served(("topic", 0))
    assert _wanted(cache.context(_scan(1, 1), 0)) == [1, 2, 0]


def test_only_changes_are_told() -> None:
    cache = _cache()
    opened = cache.context(_scan(0, 0, _partition(0)), 0)
    assert opened.session is not None
    cached = opened.session.partitions["topic", 0]
    assert cached.must_answer(0, 0, 5, 0)
    assert not cached.must_answer(0, 0, 5, 0)
    assert cached.must_answer(0, 10, 5, 0)
    assert cached.must_answer(0, 0, 6, 0)
    assert cached.must_answer(0, 0, 6, 1)
    assert cached.must_answer(1, 0, 6, 1)
    assert cached.must_answer(1, 0, 6, 1), "an error is told as long as it lasts"
    assert cached.must_answer(0, 0, 6, 1), "and its end"


def test_the_cache_is_bounded() -> None:
    cache = _cache(2)
    for _ in range(2):
        assert cache.context(_scan(0, 0, _partition(0)), 0).session_id
    assert cache.context(_scan(0, 0, _partition(0)), 60_000).session_id == 0, "nobody gives way yet"
    cache.context(_scan(1, 1), 100_000)
    opened = cache.context(_scan(0, 0, _partition(0)), 120_001)
    assert opened.session_id == 3, "the one that was idle for two minutes gives way"
    larger = cache.context(_scan(0, 0, _partition(0), _partition(1)), 120_500)
    assert larger.session_id == 4, "and the smaller one that is older than that"
    assert len(cache) == 2


def test_cached_partitions_are_bounded() -> None:
    cache = _cache(1000)
    many = [_partition(index) for index in range(PARTITIONS_CACHED_MAX)]
    assert cache.context(_scan(0, 0, *many), 0).session_id == 1
    assert cache.context(_scan(0, 0, _partition(0)), 0).session_id == 0
    with pytest.raises(SessionError):
        cache.context(_scan(1, 1, _partition(-1)), 0)
    assert cache.partitions_cached == 0
