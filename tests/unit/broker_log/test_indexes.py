"""The sparse indexes against a linear search."""

from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.offset_index import OffsetIndex
from broker.log.time_index import TimeIndex

increasing = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60)


@given(st.integers(0, 2**50), increasing, st.integers(-5, 3500))
@settings(max_examples=60)
def test_an_offset_is_found_behind_the_last_entry_at_or_below_it(
    base: int, steps: list[tuple[int, int]], wanted: int
) -> None:
    index = OffsetIndex(base)
    offset, position = base, 0
    entries = []
    for offset_step, position_step in steps:
        offset += offset_step
        position += position_step
        index.append(offset, position)
        entries.append((offset, position))
    expected = max((p for o, p in entries if o <= base + wanted), default=0)
    assert index.lookup(base + wanted) == expected
    again = OffsetIndex(base, index.to_bytes())
    assert again.lookup(base + wanted) == expected
    assert again.to_bytes() == index.to_bytes()
    assert index.is_sound(position + 1)
    assert index.floor_position(position // 2) == max(
        (p for _, p in entries if p <= position // 2), default=0
    )


def test_the_bytes_are_kafkas() -> None:
    index = OffsetIndex(1000)
    index.append(1009, 4200)
    index.append(1300, 9000)
    assert index.to_bytes().hex() == "0000000900001068" + "0000012c00002328"
    assert index.to_bytes(1).hex() == "0000012c00002328"
    times = TimeIndex(1000)
    times.maybe_append(0x0102030405, 1009)
    assert times.to_bytes().hex() == "0000000102030405" + "00000009"


def test_preallocated_zeros_are_no_entries() -> None:
    index = OffsetIndex(0)
    index.append(5, 5000)
    assert len(OffsetIndex(0, index.to_bytes() + bytes(800))) == 1
    times = TimeIndex(0)
    times.maybe_append(17, 5)
    assert len(TimeIndex(0, times.to_bytes() + bytes(1200))) == 1


@pytest.mark.parametrize("entries", ["0000000500001000" + "0000000400002000", "00" * 8 + "0000000900002000"])
def test_disorder_is_unsound(entries: str) -> None:
    assert not OffsetIndex(0, bytes.fromhex(entries)).is_sound(1 << 20)


def test_positions_behind_the_file_are_unsound() -> None:
    index = OffsetIndex(0)
    index.append(5, 5000)
    assert not index.is_sound(5000)
    assert index.is_sound(5001)


def test_truncating_drops_what_points_there_or_behind() -> None:
    index = OffsetIndex(0)
    for number in range(1, 6):
        index.append(number * 10, number * 1000)
    index.truncate(3000)
    assert index.last == (20, 2000)
    times = TimeIndex(0)
    for number in range(1, 6):
        times.maybe_append(number * 7, number * 10)
    times.truncate(30)
    assert times.last == (14, 20)


@given(st.lists(st.integers(0, 100), max_size=50), st.integers(0, 110))
@settings(max_examples=60)
def test_no_timestamp_before_the_found_offset_is_late_enough(timestamps: list[int], wanted: int) -> None:
    times = TimeIndex(0)
    largest, largest_at = -1, 0
    for offset, timestamp in enumerate(timestamps):
        if timestamp > largest:
            largest, largest_at = timestamp, offset
        times.maybe_append(largest, largest_at)
    assert times.is_sound()
    first = times.lookup(wanted)
    assert all(timestamp < wanted for timestamp in timestamps[:first])
    stored = [times.entry(number) for number in range(len(times))]
    assert [t for t, _ in stored] == sorted({t for t, _ in stored})
    at = bisect_right([t for t, _ in stored], wanted)
    assert first == (stored[at - 1][1] if at else 0)
