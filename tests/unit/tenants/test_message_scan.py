"""Looking through partitions: what is found, how far one view looks, and what hostile records can do."""

import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.rules import message_scan
from tenants.rules.message_begin import Ends, From, begun
from tenants.rules.message_filter import Filter
from tenants.rules.message_scan import Asked, Budget, Look, LookBack, page_of
from wire.batch import (
    CODEC_GZIP,
    CODEC_ZSTD,
    TRANSACTIONAL_BIT,
    Record,
    build_batch,
    encode_records,
    iterate_batches,
)
from wire.compression import compress
from wire.control import EndMarker, build_marker

_NOW_MS = 1_700_000_000_000


def batch(base_offset: int, values: Iterable[bytes | None], **more: Any) -> bytes:
    records = [Record(0, _NOW_MS + base_offset + n, b"k", value) for n, value in enumerate(values)]
    return bytes(build_batch(records, base_offset=base_offset, **more))


def compressed(base_offset: int, records: list[Record], codec: int) -> bytes:
    payload = compress(encode_records(records), codec)
    return bytes(build_batch(records, base_offset=base_offset, attributes=codec, payload=payload))


class Log:
    """A partition as a broker answers it: from the batch that holds an offset on, whole batches."""

    def __init__(self, *batches: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> None:
        self._batches = [(next(iterate_batches(each))[1], each) for each in batches]
        self.end_offset = self._batches[-1][0].next_offset if batches else 0
        self.aborted = aborted
        self.answers = 0

    def read(self, position: int, bytes_max: int) -> bytes:
        self.answers += 1
        found = b""
        for header, data in self._batches:
            if header.next_offset > position and (not found or len(found) + len(data) <= bytes_max):
                found += data
        return found

    def look(self, look: Look) -> Look:
        """As a view does it, until the look is done or its budget spent."""
        while not look.is_done and not look.budget.is_spent:
            answered = self.read(look.position, look.answer_bytes_max)
            if answered:
                for _ in look.take(memoryview(answered), self.aborted):
                    pass
            else:
                look.nothing()
        return look


def new_budget() -> Budget:
    """Of a thread that takes no time."""
    return Budget(lambda: 0)


def slow_budget(ms_each: int) -> Budget:
    """Of a thread whose clock goes on by so much each time that it is read."""
    clock = itertools.count(0, ms_each * 1_000_000)
    return Budget(lambda: next(clock))


def asked(limit: int = 5, *, newest_first: bool = False, **filters: Any) -> Asked:
    return Asked(limit, 100, Filter(**filters), newest_first)


def offsets(look: Look) -> list[int]:
    return [one.offset for one in look.found]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=12),
    st.integers(1, 40),
    st.randoms(),
)
def test_pages_tell_every_message_once(
    gaps: list[tuple[int, int]], limit: int, chance: random.Random
) -> None:
    """Backwards and forwards, over gaps, from any log start, page for page."""
    base, batches, there = 0, list[bytes](), list[int]()
    for gap, count in gaps:
        base += gap
        batches.append(batch(base, [b"v"] * count))
        there += range(base, base + count)
        base += count
    log = Log(*batches)
    start = chance.randint(0, log.end_offset)
    there = [offset for offset in there if offset >= start]
    for newest_first in (True, False):
        told: list[int] = []
        at, has_more = (log.end_offset if newest_first else 0), True
        while has_more:
            wanted = asked(limit, newest_first=newest_first)
            kind = LookBack if newest_first else Look
            look = log.look(kind(0, start, log.end_offset, at, wanted, new_budget()))
            page = page_of([look], limit, newest_first=newest_first)
            told += [one.offset for one in page.messages]
            at, has_more = page.next_offsets[0] or 0, page.has_more
        assert told == (there[::-1] if newest_first else there)


def test_a_gap_of_millions_is_stepped_over_in_few_answers() -> None:
    log = Log(batch(0, [b"old"]), batch(50_000_000, [b"new"]))
    look = log.look(LookBack(0, 0, log.end_offset, log.end_offset, asked(newest_first=True), new_budget()))
    assert offsets(look) == [0, 50_000_000]
    assert log.answers < 20


def test_markers_aborted_and_open_transactions_are_not_seen() -> None:
    def data(base: int, producer_id: int) -> bytes:
        transactional = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL_BIT}
        return batch(base, [b"x", b"y"], producer_id=producer_id, **transactional)

    def marker(base: int, producer_id: int, *, commits: bool) -> bytes:
        made = build_marker(producer_id, 0, EndMarker(commits, 0), now_ms=_NOW_MS)
        made[:8] = base.to_bytes(8, "big")
        return bytes(made)

    log = Log(
        data(0, 7),
        data(2, 8),
        batch(4, [b"plain"]),
        marker(5, 7, commits=False),
        marker(6, 8, commits=True),
        data(7, 7),
        marker(9, 7, commits=True),
        aborted=((0, 7),),
    )
    for newest_first in (False, True):
        kind, at = (LookBack, log.end_offset) if newest_first else (Look, 0)
        look = log.look(kind(0, 0, log.end_offset, at, asked(50, newest_first=newest_first), new_budget()))
        assert offsets(look) == [2, 3, 4, 7, 8]
        assert not look.has_more


@pytest.mark.parametrize("codec", [CODEC_GZIP, CODEC_ZSTD])
def test_a_bomb_is_told_and_stepped_over(codec: int) -> None:
    bomb = compressed(1, [Record(0, _NOW_MS, b"k", bytes(64 * 1024 * 1024))], codec)
    assert len(bomb) < 100_000
    log = Log(batch(0, [b"before"]), bomb, batch(2, [b"behind"]))
    for newest_first in (False, True):
        kind, at = (LookBack, 3) if newest_first else (Look, 0)
        found: list[int] = []
        told: list[tuple[int, int]] = []
        views, has_more = 0, True
        while has_more:
            budget = new_budget()
            look = log.look(kind(0, 0, 3, at, asked(newest_first=newest_first), budget))
            assert budget.is_spent == bool(look.unreadable), "what it decompressed to is charged"
            page = page_of([look], 5, newest_first=newest_first)
            found += [one.offset for one in page.messages]
            told += [(one.first_offset, one.last_offset) for one in look.unreadable]
            views += 1
            at, has_more = page.next_offsets[0] or 0, page.has_more
        assert found == ([2, 0] if newest_first else [0, 2])
        assert (told, views) == ([(1, 1)], 1 if newest_first else 2)


def test_damaged_batches_are_told_and_stepped_over() -> None:
    damaged = bytearray(batch(1, [b"x" * 50]))
    damaged[-10] ^= 1
    lying = bytearray(build_batch([Record(0, _NOW_MS, None, b"v")], base_offset=2, payload=b"\x7f" * 9))
    log = Log(batch(0, [b"a"]), bytes(damaged), bytes(lying), batch(3, [b"d"]))
    look = log.look(Look(0, 0, 4, 0, asked(), new_budget()))
    assert offsets(look) == [0, 3]
    assert [one.first_offset for one in look.unreadable] == [1, 2]


def test_messages_of_an_old_format_are_told() -> None:
    old = bytearray(batch(0, [b"a"]))
    old[16] = 1
    look = Look(0, 0, 1, 0, asked(), new_budget())
    assert list(look.take(memoryview(old), ())) == []
    assert look.is_done and "message format 1" in str(look.fault)


def test_a_record_of_a_million_headers_and_one_without_key() -> None:
    headers = tuple(("", None) for _ in range(1_000_000))
    made = compressed(0, [Record(0, _NOW_MS, None, None, headers)], CODEC_ZSTD)
    [found] = Log(made).look(Look(0, 0, 1, 0, asked(), new_budget())).found
    assert (found.key, found.value, found.header_count) == (None, None, 1_000_000)
    assert len(found.headers) == 20
    [alone] = Log(made).look(Look(0, 0, 1, 0, asked(1), new_budget())).found
    assert len(alone.headers) == 100


def test_large_fields_are_cut_with_their_size_told() -> None:
    record = Record(0, _NOW_MS, b"k" * 500, b"v" * 500, (("n" * 5000, b"v" * 5000), ("next", b"")))
    log = Log(bytes(build_batch([record])))
    [found] = log.look(Look(0, 0, 1, 0, asked(), new_budget())).found
    assert found.value is not None and found.key is not None
    assert (len(found.value.data), found.value.size_bytes, found.key.size_bytes) == (100, 500, 500)
    ((name, value),) = found.headers
    assert value is not None
    assert (len(name.data), name.size_bytes, value.size_bytes) == (4096, 5000, 5000)


def test_a_filter_looks_so_far_and_the_next_page_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_scan, "RECORDS_MAX", 100)
    log = Log(*(batch(base, [b"v%d" % (base + n) for n in range(40)]) for base in range(0, 1000, 40)))
    for newest_first in (False, True):
        at, has_more, found, pages = (log.end_offset if newest_first else 0), True, list[int](), 0
        while has_more:
            wanted = asked(newest_first=newest_first, text=b"v77")
            budget = new_budget()
            kind = LookBack if newest_first else Look
            look = log.look(kind(0, 0, log.end_offset, at, wanted, budget))
            assert budget.records <= 100
            page = page_of([look], 5, newest_first=newest_first)
            found += [one.offset for one in page.messages]
            assert page.next_offsets[0] != at or not page.has_more
            at, has_more, pages = page.next_offsets[0] or 0, page.has_more, pages + 1
        expected = [77, *range(770, 780)]
        assert found == (expected[::-1] if newest_first else expected)
        assert pages >= 10


def test_one_batch_of_very_many_records_is_looked_through_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_scan, "RECORDS_MAX", 100)
    log = Log(compressed(0, [Record(0, _NOW_MS, None, b"v")] * 1000, CODEC_ZSTD))
    at, pages = 1000, 0
    while at > 0:
        look = log.look(LookBack(0, 0, 1000, at, asked(newest_first=True, text=b"none"), new_budget()))
        assert look.low_offset < at
        at, pages = look.low_offset, pages + 1
    assert pages <= 25


def test_a_view_ends_by_its_time_in_the_middle_of_a_batch() -> None:
    log = Log(batch(0, [b"v"] * 1000))
    look = Look(0, 0, 1000, 0, asked(1000, text=b"none"), slow_budget(100))
    steps = 0
    while not look.is_done and not look.budget.is_spent:
        steps += sum(1 for _ in look.take(memoryview(log.read(look.position, 10**6)), ()))
    assert look.budget.is_late and look.budget.records <= 21
    assert look.position == look.budget.records
    assert steps >= look.budget.records - 1, "others have their turn after each"


def test_a_view_that_is_out_of_time_reads_no_more() -> None:
    log = Log(batch(0, [b"v"] * 10), batch(10, [b"v"] * 10))
    budget = new_budget()
    budget.end()
    look = log.look(Look(0, 0, 20, 0, asked(50), budget))
    assert budget.is_spent and (offsets(look), log.answers) == ([], 0)


@pytest.mark.parametrize("ms_each", [3, 30, 3000])
def test_backwards_each_view_comes_further_however_slow_it_is(ms_each: int) -> None:
    """Nothing is left out, though the time is over in the first window, which is a batch."""
    log = Log(compressed(0, [Record(0, _NOW_MS, None, b"v")] * 300, CODEC_ZSTD))
    at, told = 300, list[int]()
    while at > 0:
        look = log.look(LookBack(0, 0, 300, at, asked(50, newest_first=True), slow_budget(ms_each)))
        page = page_of([look], 50, newest_first=True)
        told += [one.offset for one in page.messages]
        assert page.next_offsets[0] is not None and page.next_offsets[0] < at
        at = page.next_offsets[0]
    assert told == list(range(299, -1, -1))


NO_ANSWER = Ends(None, None, None)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("begin", "place"),
    [
        (From(), None),
        (From(offset=17), 17),
        (From(at_ms=1), None),
        (From(at_ms=1, next_offsets={0: 9, 1: 4711}), 4711),
        (From(at_ms=1, next_offsets={0: 9, 1: None}), None),
        (From(at_ms=1, next_offsets={0: 9}), None),
    ],
)
def test_a_partition_without_an_answer_goes_on_where_it_was_to_begin(
    begin: From, place: int | None, *, newest_first: bool
) -> None:
    wanted, budget = asked(newest_first=newest_first), new_budget()
    answered = begun(0, From(next_offsets={0: 9}), Ends(0, 9, None), wanted, budget)
    silent = begun(1, begin, NO_ANSWER, wanted, budget)
    assert silent.is_done and silent.fault is not None
    page = page_of([answered, silent], 5, newest_first=newest_first)
    assert page.next_offsets == {0: 9, 1: place}


def test_a_partition_that_answers_again_begins_with_the_time_of_the_first_view() -> None:
    def at(begin: From, ends: Ends, *, newest_first: bool = False) -> int:
        return begun(1, begin, ends, asked(newest_first=newest_first), new_budget()).low_offset

    lost = From(at_ms=5, next_offsets={1: None})
    assert at(lost, Ends(10, 90, 40)) == 40
    assert at(lost, Ends(10, 90, 40), newest_first=True) == 40
    assert at(lost, Ends(10, 90, -1)) == 90
    assert begun(1, lost, Ends(10, 90, None), asked(), new_budget()).fault is not None
    made_later = From(at_ms=5, next_offsets={0: 3})
    assert at(made_later, Ends(0, 90, None)) == 0
    assert (at(From(), Ends(10, 90, None)), at(From(at_ms=5), Ends(10, 90, 40))) == (90, 40)


def test_partitions_are_told_together_by_time_each_in_its_own_order() -> None:
    def look(partition: int, times: list[int]) -> Look:
        made = [Record(0, time, None, b"v") for time in times]
        log = Log(bytes(build_batch(made)))
        return log.look(Look(partition, 0, log.end_offset, 0, asked(), new_budget()))

    looks = [look(0, [10, 30, 20]), look(1, [15, 25])]
    page = page_of(looks, 4, newest_first=False)
    assert [(one.partition, one.offset) for one in page.messages] == [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert (page.next_offsets, page.has_more) == ({0: 2, 1: 2}, True)


@given(st.binary(max_size=300))
def test_any_bytes_are_either_read_or_told(noise: bytes) -> None:
    look = Look(0, 0, 10**6, 0, asked(), new_budget())
    for _ in look.take(memoryview(noise), ()):
        pass
    sealed = bytes(build_batch([Record(0, _NOW_MS, None, b"v")], payload=noise))
    look = Log(sealed).look(Look(0, 0, 1, 0, asked(), new_budget()))
    assert look.is_done
