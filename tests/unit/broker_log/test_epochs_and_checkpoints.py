"""The leader-epoch cache and Kafka's text files."""

import uuid

import pytest

from broker.log.checkpoint_text import (
    CheckpointCorrupt,
    decode_uuid,
    encode_uuid,
    format_epochs,
    format_offsets,
    format_partition_metadata,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
    parse_properties,
)
from broker.log.epoch_cache import EpochCache


def test_epoch_zero_counts() -> None:
    epochs = EpochCache()
    assert epochs.latest == -1
    assert epochs.end_offset_for(0, 5) == (-1, -1)
    assert epochs.assign(0, 0)
    assert epochs.end_offset_for(0, 5) == (0, 5)
    assert epochs.epoch_of(3) == 0


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, (0, 10)), (1, (0, 10)), (2, (2, 40)), (3, (2, 40)), (5, (5, 99)), (6, (-1, -1)), (-1, (-1, -1))],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(asked: int, answer: tuple[int, int]) -> None:
    assert EpochCache([(0, 0), (2, 10), (5, 40)]).end_offset_for(asked, 99) == answer


def test_an_epoch_below_all_known_ends_where_they_begin() -> None:
    assert EpochCache([(4, 30), (5, 40)]).end_offset_for(2, 99) == (2, 30)


def test_an_epoch_without_records_gives_way() -> None:
    epochs = EpochCache([(1, 0), (3, 10)])
    assert epochs.assign(4, 10)
    assert epochs.entries == [(1, 0), (4, 10)]
    assert not epochs.assign(4, 12)


def test_truncation_at_both_ends() -> None:
    epochs = EpochCache([(0, 0), (1, 10), (2, 20)])
    assert epochs.truncate_end(20)
    assert epochs.entries == [(0, 0), (1, 10)]
    assert epochs.truncate_start(5)
    assert epochs.entries == [(0, 5), (1, 10)]
    assert epochs.truncate_start(10)
    assert epochs.entries == [(1, 10)]
    assert epochs.truncate_start(15)
    assert epochs.entries == [(1, 15)]
    assert not epochs.truncate_start(15)


def test_offset_checkpoints_are_kafkas_text() -> None:
    offsets = {("i0.a-b", 0): 17, ("x", 12): 2**40}
    text = format_offsets(offsets)
    assert text == f"0\n2\ni0.a-b 0 17\nx 12 {2**40}\n"
    assert parse_offsets(text) == offsets
    assert parse_epochs(format_epochs([(0, 0), (7, 9)])) == [(0, 0), (7, 9)]


@pytest.mark.parametrize(
    "text", ["", "0", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "0\n0\na 0 1\n"]
)
def test_torn_checkpoints_are_noticed(text: str) -> None:
    with pytest.raises(CheckpointCorrupt):
        parse_offsets(text)


def test_topic_ids_are_written_as_kafka_does() -> None:
    topic_id = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert encode_uuid(topic_id) == "ABEiM0RVZneImaq7zN3u_w"
    assert decode_uuid("ABEiM0RVZneImaq7zN3u_w") == topic_id
    text = format_partition_metadata(topic_id)
    assert text == "version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert parse_partition_metadata(text) == topic_id
    for broken in ("", "version: 1\ntopic_id: ABEiM0RVZneImaq7zN3u_w", "version: 0\ntopic_id: AB"):
        with pytest.raises(CheckpointCorrupt):
            parse_partition_metadata(broken)


def test_properties() -> None:
    assert parse_properties("#c\n#d\ncluster.id=x=y\nversion=1\n") == {"cluster.id": "x=y", "version": "1"}
