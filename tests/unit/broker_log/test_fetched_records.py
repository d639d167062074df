"""What a follower takes of a leader's answer, and what a leader takes of a client's header alone."""

import struct

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.log_config import LogConfig
from broker.log.validation import check_client_records, check_fetched_records
from tests.unit.broker_log.builders import NOW_MS, batch
from wire.batch import HEADER_SIZE, LOG_OVERHEAD

_CRC_AT, _LAST_DELTA_AT, _COUNT_AT = 17, 23, 57


def _sealed(content: bytearray) -> bytearray:
    """With the length and the checksum of what it holds now."""
    struct.pack_into(">i", content, 8, len(content) - LOG_OVERHEAD)
    struct.pack_into(">I", content, _CRC_AT, crc32c(bytes(content[_CRC_AT + 4 :])))
    return content


def _emptied() -> bytearray:
    """A batch of which compaction has left the header."""
    content = bytearray(batch("a", "b")[:HEADER_SIZE])
    struct.pack_into(">i", content, _COUNT_AT, 0)
    return _sealed(content)


def _fetched(content: bytes | bytearray) -> list[int]:
    found = check_fetched_records(content, log_end_offset=0, latest_epoch=-1, leader_epoch=5)
    return [at for at, _ in found]


def test_a_batch_that_compaction_has_emptied_is_one_also_at_the_end() -> None:
    empty = _emptied()
    following = bytearray(empty)
    struct.pack_into(">q", following, 0, 2)
    assert _fetched(empty) == [0]
    assert _fetched(empty + following) == [0, HEADER_SIZE]
    assert _fetched(empty + following[:-1]) == [0], "what is cut off is left out"


@pytest.mark.parametrize(("at", "value"), [(_LAST_DELTA_AT, -1), (8, 48), (8, -1)])
def test_a_header_that_cannot_be_is_damage(at: int, value: int) -> None:
    content = _sealed(bytearray(batch("a")))
    struct.pack_into(">i", content, at, value)
    if at > _CRC_AT:
        _sealed(content)
    with pytest.raises(AppendRefused) as refused:
        _fetched(content)
    assert refused.value.error_code is ErrorCode.corrupt_message


@pytest.mark.parametrize("walks", [False, True])
def test_a_count_that_the_bytes_cannot_hold_is_refused_however_it_is_looked_at(walks: bool) -> None:
    content = bytearray(batch("a"))
    struct.pack_into(">i", content, _LAST_DELTA_AT, 999)
    struct.pack_into(">i", content, _COUNT_AT, 1_000)
    with pytest.raises(AppendRefused) as refused:
        check_client_records(_sealed(content), LogConfig(), NOW_MS, walks=walks)
    assert refused.value.error_code is ErrorCode.invalid_record
