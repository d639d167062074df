"""Looking into the batches that clients send."""

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.log_config import LogConfig
from broker.log.payload import check_payload, look_at, records_of
from tests.unit.broker_log.builders import append, new_log, records, values
from tests.unit.wire.malformed import malformed_batches
from wire.batch import CODEC_SNAPPY, Record, build_batch, encode_records, parse_header
from wire.compression import compress

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


def test_records_of_a_compressed_batch() -> None:
    rows = records("a", "b")
    data = build_batch(rows, attributes=CODEC_SNAPPY, payload=compress(encode_records(rows), CODEC_SNAPPY))
    assert values(list(records_of(data, parse_header(data)))) == ["a", "b"]


@pytest.mark.parametrize("codec", [0, CODEC_SNAPPY])
def test_a_record_without_key_is_found(codec: int) -> None:
    rows = [Record(0, 0, b"k", b"v"), Record(1, 0, None, b"v")]
    payload = compress(encode_records(rows), codec)
    data = build_batch(rows, attributes=codec, payload=payload)
    with pytest.raises(AppendRefused, match="without key") as refused:
        check_payload(data, parse_header(data), look_at(parse_header(data), COMPACTED))
    assert refused.value.record_indexes == (1,)


@pytest.mark.parametrize("name", malformed_batches())
@pytest.mark.parametrize("is_compacted", [False, True])
def test_malformed_batches_are_not_appended(tmp_path: Path, name: str, is_compacted: bool) -> None:
    log = new_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact" if is_compacted else "delete"})))
    with pytest.raises(AppendRefused) as refused:
        append(log, bytearray(malformed_batches()[name]))
    assert refused.value.error_code is ErrorCode.invalid_record
    assert log.log_end_offset == 0
