"""Where a copy at an Apache Kafka goes on after whoever made it died: its end is looked for in the source."""

from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from tenants.backend.copy_links import Links, Stored, whole_batches
from tenants.backend.copy_targets import ApacheTarget
from tenants.rules.replays import Aborted, steps
from wire.batch import TRANSACTIONAL_BIT, Record, assign_offset, build_batch, parse_header

TARGET = ApacheTarget(cast(Links, None), fills_gaps=True)
COUNT = 5
KEY = ("orders", 0)


def stored(data: bytes | bytearray, *aborted: Aborted) -> Stored:
    view = memoryview(data)
    return Stored(ErrorCode.none, 1_000, view, list(whole_batches(view)), list(aborted))


def batch(base: int, **fields: Any) -> bytearray:
    records = [Record(0, 1_000 + number, b"k", b"%d" % (base + number)) for number in range(COUNT)]
    return build_batch(records, base_offset=base, producer_id=7, producer_epoch=0, base_sequence=0, **fields)


def at_the_target(source: bytearray, base: int) -> Stored:
    """What was put there, as a broker stores it."""
    (one,) = steps(parse_header(source), memoryview(source), is_aborted=False)
    assert one.batch is not None
    data = bytearray(one.batch)
    assign_offset(data, 0, base, 3)
    return stored(data)


@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL_BIT])
def test_a_log_that_ends_with_a_batch_of_the_source(attributes: int) -> None:
    source = batch(40, attributes=attributes)
    assert TARGET.is_copy(KEY, stored(source + batch(45)), at_the_target(source, 40))


def test_a_compacted_topics_batch_went_without_its_producer() -> None:
    target = ApacheTarget(cast(Links, None), fills_gaps=True)
    target.compacted = frozenset({"orders"})
    source = batch(40)
    (one,) = steps(parse_header(source), memoryview(source), is_aborted=False, forgets_producer=True)
    assert one.batch is not None
    data = bytearray(one.batch)
    assign_offset(data, 0, 40, 3)
    assert target.is_copy(KEY, stored(source), stored(data))
    assert not target.is_copy(("others", 0), stored(source), stored(data))


def test_a_log_that_ends_with_something_else() -> None:
    source = batch(40)
    other = build_batch([Record(0, 1, b"k", b"other")] * COUNT)
    assert not TARGET.is_copy(KEY, stored(source), at_the_target(other, 40))
    assert not TARGET.is_copy(KEY, stored(source), at_the_target(source, 38)), "at another offset"
    aborted = stored(batch(40, attributes=TRANSACTIONAL_BIT), Aborted(7, 12))
    assert not TARGET.is_copy(KEY, aborted, at_the_target(source, 40)), "what is aborted does not go over"


def test_a_log_that_ends_with_a_filler() -> None:
    """Somewhere inside what the source has no records for."""
    filler = stored(build_batch([Record(0, 1, b"", b"")], base_offset=42, attributes=0x30))
    assert TARGET.is_copy(KEY, stored(batch(40, attributes=TRANSACTIONAL_BIT), Aborted(7, 40)), filler)
    assert TARGET.is_copy(KEY, stored(batch(60)), filler), "between batches"
    assert not TARGET.is_copy(KEY, stored(batch(38)), filler), "where the source has a record"
