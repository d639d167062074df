"""Which segments retention takes."""

import pytest

from broker.log.log_config import LogConfig
from broker.log.retention import SegmentFacts, segments_to_delete

NOW = 1_000_000
FACTS = [
    SegmentFacts(10, 100, NOW - 500, NOW - 500),
    SegmentFacts(20, 100, NOW - 300, NOW - 300),
    SegmentFacts(30, 100, NOW - 200, NOW - 200),
    SegmentFacts(35, 50, NOW - 10, NOW - 10),
]
KEEP = LogConfig(retention_ms=-1)


def count(
    config: LogConfig, *, start: int = 0, high_watermark: int = 35, facts: list[SegmentFacts] = FACTS
) -> int:
    return segments_to_delete(
        facts, config, log_start_offset=start, high_watermark=high_watermark, now_ms=NOW
    )


@pytest.mark.parametrize(
    ("retention_ms", "expected"), [(-1, 0), (500, 0), (499, 1), (250, 2), (100, 3), (9, 4)]
)
def test_by_time(retention_ms: int, expected: int) -> None:
    assert count(LogConfig(retention_ms=retention_ms)) == expected


@pytest.mark.parametrize(
    ("retention_ms", "written_ago_ms", "expected"),
    [
        (7 * 24 * 3_600_000, 300_000, 0),
        (7 * 24 * 3_600_000, 300_001, 1),
        (400, 400, 0),
        (400, 401, 1),
        (7 * 24 * 3_600_000, -300_001, 1),
    ],
    ids=[
        "five minutes",
        "and more",
        "a shorter retention",
        "and more than that",
        "a clock that was set back",
    ],
)
def test_records_of_1970_can_be_read_for_a_while(
    retention_ms: int, written_ago_ms: int, expected: int
) -> None:
    now_ms = 1_800_000_000_000
    facts = [SegmentFacts(10, 100, 49, now_ms - written_ago_ms)]
    assert (
        segments_to_delete(
            facts,
            LogConfig(retention_ms=retention_ms),
            log_start_offset=0,
            high_watermark=10,
            now_ms=now_ms,
            readable_ms=300_000,
        )
        == expected
    )


@pytest.mark.parametrize(
    ("retention_bytes", "expected"), [(-1, 0), (350, 0), (251, 0), (250, 1), (100, 2), (0, 4)]
)
def test_by_size_what_remains_is_at_least_retention_bytes(retention_bytes: int, expected: int) -> None:
    assert count(LogConfig(retention_ms=-1, retention_bytes=retention_bytes)) == expected


def test_a_younger_segment_protects_those_behind_it() -> None:
    facts = [FACTS[3]._replace(next_offset=10), *FACTS[1:]]
    assert count(LogConfig(retention_ms=100), facts=facts) == 0


@pytest.mark.parametrize(("start", "expected"), [(9, 0), (10, 1), (34, 3), (35, 4)])
def test_what_lies_below_the_log_start_goes_under_any_policy(start: int, expected: int) -> None:
    assert count(KEEP, start=start) == expected
    assert count(LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=0), start=start) == expected


def test_nothing_uncommitted_goes() -> None:
    assert count(LogConfig(retention_ms=0), high_watermark=29) == 2


def test_an_empty_active_segment_stays() -> None:
    facts = [FACTS[0], SegmentFacts(10, 0, NOW - 10**6, NOW - 10**6)]
    assert count(LogConfig(retention_ms=0), facts=facts, high_watermark=10) == 1
