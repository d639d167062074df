"""Which logs and segments are compacted, and when."""

from dataclasses import replace

import pytest

from broker.log.cleaning import clean
from broker.log.compaction import Cleanable, SealedSegment, find_cleanable, group_segments
from broker.log.log_config import LogConfig
from broker.storage.log_cleaner import LogCleaner
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    TOPIC_ID,
)
from tests.unit.broker_log.compaction.compacted_log import COMPACT, compact, roll, write


def sealed(*sizes: int, at_ms: int = NOW_MS) -> list[SealedSegment]:
    return [
        SealedSegment(10 * number, 10 * number + 10, size, 100, at_ms + number, at_ms + number)
        for number, size in enumerate(sizes)
    ]


def test_the_dirty_share_decides() -> None:
    found = find_cleanable(sealed(50, 30, 20), COMPACT, cleaned_to=10, stable_to=30, now_ms=NOW_MS)
    assert found == Cleanable(10, 30, 50, 50, False)
    assert not found.is_worth_it(COMPACT)
    assert found.is_worth_it(replace(COMPACT, min_cleanable_dirty_ratio=0.4))
    nothing = find_cleanable(sealed(50), COMPACT, cleaned_to=10, stable_to=30, now_ms=NOW_MS)
    assert not nothing.is_worth_it(replace(COMPACT, min_cleanable_dirty_ratio=0.0))
    assert not find_cleanable([], COMPACT, cleaned_to=5, stable_to=9, now_ms=NOW_MS).is_worth_it(COMPACT)


@pytest.mark.parametrize("cleaned_to", [-1, 5, 1000])
def test_a_pointer_that_is_not_in_the_log_means_all_of_it(cleaned_to: int) -> None:
    segments = sealed(50, 50, 50)[1:]
    found = find_cleanable(segments, COMPACT, cleaned_to=cleaned_to, stable_to=99, now_ms=NOW_MS)
    assert (found.first_dirty, found.up_to, found.clean_bytes) == (10, 30, 0)


def test_young_records_wait() -> None:
    config = replace(COMPACT, min_compaction_lag_ms=100)
    found = find_cleanable(sealed(1, 1, 1), config, cleaned_to=0, stable_to=30, now_ms=NOW_MS + 101)
    assert found.up_to == 20
    assert find_cleanable(sealed(1), config, cleaned_to=0, stable_to=30, now_ms=NOW_MS).dirty_bytes == 0


def test_old_records_do_not() -> None:
    config = replace(COMPACT, max_compaction_lag_ms=100)
    segments = sealed(1000, 1)
    for later_ms, overdue in ((101, False), (102, True)):
        found = find_cleanable(segments, config, cleaned_to=10, stable_to=20, now_ms=NOW_MS + later_ms)
        assert (found.overdue, found.is_worth_it(config)) == (overdue, overdue)
    assert replace(COMPACT, max_compaction_lag_ms=5, segment_ms=9).roll_ms == 5
    assert LogConfig(max_compaction_lag_ms=5, segment_ms=9).roll_ms == 9


def test_segments_are_grouped_up_to_a_segments_size() -> None:
    groups = group_segments(sealed(40, 40, 40, 90, 10), segment_bytes=100, index_bytes=10**6)
    assert [[s.size_bytes for s in group] for group in groups] == [[40, 40], [40], [90, 10]]
    assert len(group_segments(sealed(1, 1, 1), segment_bytes=100, index_bytes=150)) == 3
    far = [SealedSegment(0, 2**31, 1, 0, 0, 0), SealedSegment(2**31, 2**31 + 2, 1, 0, 0, 0)]
    assert len(group_segments(far, segment_bytes=100, index_bytes=150)) == 2


def test_the_filthiest_log_comes_first(manager: LogManager) -> None:
    logs = [manager.create(TOPIC, number, TOPIC_ID, COMPACT, NOW_MS) for number in range(3)]
    for number, log in enumerate(logs):
        write(log, ("a", "x" * 500))
        roll(log)
        compact(log)
        for _ in range(number * 2):
            write(log, ("a", "x" * 500))
        if number:
            roll(log)
    cleaner = LogCleaner(manager.logs)
    order = []
    while (found := cleaner.begin(NOW_MS)) is not None:
        found.run(clean)
        assert cleaner.complete(found) is not None
        order.append(found.log.partition)
    assert order == [2, 1]
