"""The time of the first record that a group has not consumed, against logs whose times are known."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.rules import record_time
from tenants.rules.record_time import RECORDS_WALKED_MAX, UNKNOWN_MS, first_times, lag_seconds, largest
from wire.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Record,
    assign_offset,
    build_batch,
    encode_records,
)
from wire.compression import compress
from wire.control import EndMarker, build_marker

_T = 1_700_000_000_000
_LAST_OFFSET_DELTA_AT = 23
_CODECS = (CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD)


def batch(base_offset: int, times_ms: list[int], attributes: int = 0, **more: Any) -> bytes:
    records = [Record(0, time_ms, None, b"v" * 20) for time_ms in times_ms]
    payload = compress(encode_records(records), attributes & 7)
    return bytes(
        build_batch(records, base_offset=base_offset, attributes=attributes, payload=payload, **more)
    )


def marker(base_offset: int, producer_id: int, *, committed: bool) -> bytes:
    built = build_marker(producer_id, 0, EndMarker(committed, 0), now_ms=_T)
    assign_offset(built, 0, base_offset, 0)
    return bytes(built)


@given(st.data())
def test_every_offset_has_the_time_of_its_record(data: st.DataObject) -> None:
    chance = random.Random(data.draw(st.integers()))
    log, times = b"", []
    for _ in range(chance.randint(1, 6)):
        own = [_T + chance.randint(-10_000_000, 10_000_000) for _ in range(chance.randint(1, 9))]
        log += batch(len(times), own, chance.choice(_CODECS))
        times += own
    offsets = sorted({chance.randrange(len(times)) for _ in range(5)})
    found = first_times(memoryview(log), (), offsets)
    assert found.found == {offset: times[offset] for offset in offsets}


def test_what_the_broker_stamped_is_one_time_of_a_batch() -> None:
    log = batch(10, [_T, _T + 1, _T + 9_000], LOG_APPEND_TIME_BIT | CODEC_ZSTD)
    assert first_times(log, (), [10, 12]).found == {10: _T + 9_000, 12: _T + 9_000}


def test_markers_and_aborted_transactions_are_passed_over() -> None:
    own: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log = (
        batch(0, [_T, _T + 1], TRANSACTIONAL_BIT, **own)
        + marker(2, 7, committed=False)
        + batch(3, [_T + 50_000], TRANSACTIONAL_BIT, **own)
        + marker(4, 7, committed=True)
    )
    assert first_times(log, [(0, 7)], [0, 1, 2, 3]).found == dict.fromkeys(range(4), _T + 50_000)
    nothing_left = first_times(log, [(0, 7)], [4])
    assert nothing_left.found == {} and nothing_left.position == 5


def test_gaps_of_compaction_lead_to_the_next_record_there_is() -> None:
    records = [Record(0, _T + 1_000 * number, b"k", b"v") for number in range(6)]
    encoded = [encode_records(records[:number]) if number else b"" for number in range(7)]
    left = b"".join(encoded[number + 1][len(encoded[number]) :] for number in (2, 4))
    batch_left = build_batch(records[:2], base_offset=100, payload=left)
    batch_left[_LAST_OFFSET_DELTA_AT : _LAST_OFFSET_DELTA_AT + 4] = (5).to_bytes(4, "big")
    log = bytes(batch_left) + batch(110, [_T + 77_000])
    assert first_times(log, (), [100, 103, 105]).found == {100: _T + 2_000, 103: _T + 4_000, 105: _T + 77_000}


def test_what_cannot_be_looked_into_is_unknown_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [_T + number for number in range(5_000)]
    damaged = bytearray(batch(0, times, CODEC_ZSTD))
    damaged[70:90] = bytes(20)
    assert first_times(damaged, (), [3]).found == {3: UNKNOWN_MS}
    monkeypatch.setattr(record_time, "INFLATED_BYTES_MAX", 1_000)
    assert first_times(batch(0, times, CODEC_ZSTD), (), [0, 3]).found == {0: _T, 3: UNKNOWN_MS}
    assert first_times(b"\0" * 200, (), [3]).found == {3: UNKNOWN_MS}


def test_in_a_batch_of_very_many_records_each_has_the_time_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = batch(10, [_T + number for number in range(RECORDS_WALKED_MAX)], CODEC_GZIP)
    assert first_times(log, (), [15]).found == {15: _T + 5}
    log = batch(10, [_T + number for number in range(RECORDS_WALKED_MAX + 1)], CODEC_GZIP)

    def inflated(*_: Any) -> bytes:
        raise AssertionError("it is not to be looked into")

    monkeypatch.setattr(record_time, "decompress", inflated)
    assert first_times(log, (), [10, 15]).found == {10: _T, 15: _T}


@pytest.mark.parametrize(
    ("time_ms", "seconds"), [(_T - 1_500, 1.5), (_T, 0.0), (_T + 10**15, 0.0), (-62_135_596_800_000, None)]
)
def test_wild_times_are_clamped_or_unknown(time_ms: int, seconds: float | None) -> None:
    [found] = first_times(batch(0, [_T, time_ms]), (), [1]).found.values()
    assert lag_seconds(found, _T) == seconds


def test_a_group_is_not_known_until_all_of_it_is() -> None:
    assert largest([]) == 0 and largest([1.0, 3.0]) == 3.0 and largest([1.0, None]) is None
