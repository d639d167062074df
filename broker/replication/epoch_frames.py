"""A follower's question where epochs ended, and the answer: OffsetForLeaderEpoch v3. Pure.

Source: Kafka OffsetForLeaderEpochRequest.json.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from wire.api_table import ApiKey
from wire.faults import MalformedFrame
from wire.hot.values import I32, framed, packed_string, read_name

EPOCHS_VERSION: Final = 3
_EPOCH_ASKED: Final = struct.Struct(">iii")
_EPOCH_ANSWER: Final = struct.Struct(">hiiq")


class EpochAsked(NamedTuple):
    """Where did this epoch end?"""

    topic: str
    partition: int
    current_leader_epoch: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The leader's answer: the largest epoch at or below the one asked, and where it ended; -1 unknown."""

    topic: str
    partition: int
    error_code: int
    leader_epoch: int
    end_offset: int


def epochs_request(
    correlation_id: int, client_id: bytes, replica_id: int, asked: Iterable[EpochAsked]
) -> bytes:
    """Ask where epochs ended."""
    by_topic: dict[str, list[EpochAsked]] = {}
    for each in asked:
        by_topic.setdefault(each.topic, []).append(each)
    out = bytearray(I32.pack(replica_id) + I32.pack(len(by_topic)))
    for topic, partitions in by_topic.items():
        out += packed_string(topic)
        out += I32.pack(len(partitions))
        for each in partitions:
            out += _EPOCH_ASKED.pack(each.partition, each.current_leader_epoch, each.leader_epoch)
    return framed(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCHS_VERSION, correlation_id, client_id, bytes(out))


def read_epochs_answer(frame: memoryview) -> list[EpochEnd]:
    """Of a frame without length prefix. Raises: MalformedFrame."""
    found: list[EpochEnd] = []
    try:
        (topics,) = I32.unpack_from(frame, 8)
        at = 12
        for _ in range(topics):
            topic, at = read_name(frame, at)
            (partitions,) = I32.unpack_from(frame, at)
            at += 4
            for _ in range(partitions):
                error_code, index, epoch, end_offset = _EPOCH_ANSWER.unpack_from(frame, at)
                at += _EPOCH_ANSWER.size
                found.append(EpochEnd(topic, index, error_code, epoch, end_offset))
    except struct.error as error:
        raise MalformedFrame(f"an answer about epochs ends early: {error}") from error
    return found
