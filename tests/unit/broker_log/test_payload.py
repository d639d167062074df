"""Looking into a compressed batch."""

import pytest

from broker.log.errors import AppendRefused
from broker.log.payload import check_keys, records_of
from tests.unit.broker_log.builders import records, values
from wire.batch import CODEC_SNAPPY, Record, build_batch, encode_records, parse_header
from wire.compression import compress


def test_records_of_a_compressed_batch() -> None:
    rows = records("a", "b")
    data = build_batch(rows, attributes=CODEC_SNAPPY, payload=compress(encode_records(rows), CODEC_SNAPPY))
    assert values(list(records_of(data, parse_header(data)))) == ["a", "b"]


def test_a_record_without_key_is_found() -> None:
    rows = [Record(0, 0, b"k", b"v"), Record(1, 0, None, b"v")]
    data = build_batch(rows, attributes=CODEC_SNAPPY, payload=compress(encode_records(rows), CODEC_SNAPPY))
    with pytest.raises(AppendRefused, match="without key"):
        check_keys(data, parse_header(data))
