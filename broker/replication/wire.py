"""A follower's requests and their answers on the wire: Fetch v11 and OffsetForLeaderEpoch v3. Pure.

The mirror of what the handlers speak. Source: Kafka FetchRequest.json, OffsetForLeaderEpochRequest.json.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.frames.fetch_wire import FetchPartition
from broker.frames.produce_wire import read_string
from wire.codec import MalformedFrame

FETCH_VERSION: Final = 11
EPOCHS_VERSION: Final = 3
_FETCH_KEY: Final = 1
_EPOCHS_KEY: Final = 23

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ihhi")
_FETCH: Final = struct.Struct(">iiiibii")
_PARTITION: Final = struct.Struct(">iiqqi")
_EPOCH_ASKED: Final = struct.Struct(">iii")
_EPOCH_ANSWER: Final = struct.Struct(">hiiq")
_ANSWER_HEAD: Final = struct.Struct(">iihii")
"""Correlation id, throttle time, error code, session id, topics."""
_ANSWER: Final = struct.Struct(">ihqqqi")
"""Index, error code, high watermark, last stable offset, log start offset, aborted transactions."""
_ABORTED_BYTES: Final = 16
_SIZES: Final = struct.Struct(">ii")
"""Preferred replica, size of the records."""


class FetchedPartition(NamedTuple):
    """One partition of an answer; its records stand in the frame from `start` to `end`."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    start: int
    end: int


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


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _I16.pack(len(encoded)) + encoded


def _framed(api_key: int, api_version: int, correlation_id: int, client_id: bytes, body: bytes) -> bytes:
    size = _HEADER.size - 4 + len(client_id) + len(body)
    return _HEADER.pack(size, api_key, api_version, correlation_id) + client_id + body


def encode_client_id(client_id: str) -> bytes:
    """As request headers carry it."""
    return _string(client_id)


def fetch_request(
    correlation_id: int,
    client_id: bytes,
    *,
    replica_id: int,
    max_wait_ms: int,
    max_bytes: int,
    session: tuple[int, int],
    wanted: Iterable[FetchPartition],
    forgotten: Iterable[tuple[str, int]],
) -> bytes:
    """`session` is (id, epoch); `wanted` are partitions that are new or have moved."""
    out = bytearray(_FETCH.pack(replica_id, max_wait_ms, 1, max_bytes, 0, *session))
    by_topic: dict[str, list[FetchPartition]] = {}
    for each in wanted:
        by_topic.setdefault(each.topic, []).append(each)
    out += _I32.pack(len(by_topic))
    for topic, partitions in by_topic.items():
        out += _string(topic)
        out += _I32.pack(len(partitions))
        for each in partitions:
            out += _PARTITION.pack(
                each.partition,
                each.current_leader_epoch,
                each.fetch_offset,
                each.log_start_offset,
                each.max_bytes,
            )
    gone: dict[str, list[int]] = {}
    for topic, partition in forgotten:
        gone.setdefault(topic, []).append(partition)
    out += _I32.pack(len(gone))
    for topic, indexes in gone.items():
        out += _string(topic)
        out += struct.pack(f">{len(indexes) + 1}i", len(indexes), *indexes)
    out += _I16.pack(0)  # no rack: followers fetch from the leader
    return _framed(_FETCH_KEY, FETCH_VERSION, correlation_id, client_id, bytes(out))


def epochs_request(
    correlation_id: int, client_id: bytes, replica_id: int, asked: Iterable[EpochAsked]
) -> bytes:
    """Ask where epochs ended."""
    by_topic: dict[str, list[EpochAsked]] = {}
    for each in asked:
        by_topic.setdefault(each.topic, []).append(each)
    out = bytearray(_I32.pack(replica_id) + _I32.pack(len(by_topic)))
    for topic, partitions in by_topic.items():
        out += _string(topic)
        out += _I32.pack(len(partitions))
        for each in partitions:
            out += _EPOCH_ASKED.pack(each.partition, each.current_leader_epoch, each.leader_epoch)
    return _framed(_EPOCHS_KEY, EPOCHS_VERSION, correlation_id, client_id, bytes(out))


def read_fetch_answer(frame: memoryview) -> tuple[int, int, list[FetchedPartition]]:
    """(error code, session id, partitions) of a frame without length prefix. Raises: MalformedFrame."""
    try:
        _, _, error_code, session_id, topics = _ANSWER_HEAD.unpack_from(frame, 0)
        found = list(_fetched(frame, _ANSWER_HEAD.size, topics))
    except struct.error as error:
        raise MalformedFrame(f"an answer to a Fetch ends early: {error}") from error
    return error_code, session_id, found


def _fetched(frame: memoryview, at: int, topics: int) -> Iterator[FetchedPartition]:
    for _ in range(topics):
        topic, at = _topic(frame, at)
        (partitions,) = _I32.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            index, error_code, high_watermark, _, log_start, aborted = _ANSWER.unpack_from(frame, at)
            at += _ANSWER.size + _ABORTED_BYTES * max(0, aborted)
            _, size = _SIZES.unpack_from(frame, at)
            at += _SIZES.size
            end = at + max(0, size)
            if end > len(frame):
                raise MalformedFrame("records run past the end")
            yield FetchedPartition(topic, index, error_code, high_watermark, log_start, at, end)
            at = end


def _topic(frame: memoryview, at: int) -> tuple[str, int]:
    topic, at = read_string(frame, at)
    if topic is None:
        raise MalformedFrame("a null topic name")
    return topic, at


def read_epochs_answer(frame: memoryview) -> list[EpochEnd]:
    """Of a frame without length prefix. Raises: MalformedFrame."""
    found: list[EpochEnd] = []
    try:
        (topics,) = _I32.unpack_from(frame, 8)
        at = 12
        for _ in range(topics):
            topic, at = _topic(frame, at)
            (partitions,) = _I32.unpack_from(frame, at)
            at += 4
            for _ in range(partitions):
                error_code, index, epoch, end_offset = _EPOCH_ANSWER.unpack_from(frame, at)
                at += _EPOCH_ANSWER.size
                found.append(EpochEnd(topic, index, error_code, epoch, end_offset))
    except struct.error as error:
        raise MalformedFrame(f"an answer about epochs ends early: {error}") from error
    return found
