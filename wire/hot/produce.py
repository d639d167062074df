"""Produce v0-13: requests are scanned without touching record bytes. Pure.

Request: transactional_id (from v3 on), acks, timeout_ms, topics of (name, or from v13 on id, partitions of
(index, records)).
Source: Kafka ProduceRequest.json, ProduceResponse.json.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from wire.api_table import ApiKey
from wire.codec import request_class, response_class
from wire.faults import MalformedFrame
from wire.hot.values import packed_compact_string
from wire.layout import layout_of
from wire.read_compile import Read, Rows, Wanted, compile_read
from wire.request_bounds import bound_of
from wire.scope import COMPACT_GROWTH, SCOPE_BYTES
from wire.tags import skip_tags
from wire.uvarint import pack_uvarint

FLEXIBLE_FROM: Final = 9
BY_ID_FROM: Final = 13
"""From here on topics are named by ids."""
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
ONE_HEAD: Final = struct.Struct(">hhiih")
"""Size of the transactional id, acks, timeout, topics, size of the first one's name."""
ONE_PARTITION: Final = struct.Struct(">iii")
"""Partitions, index, size of the records."""
_NO_TAGS: Final = b"\0"
_NO_ERRORS: Final = b"\1\0"
"""No record_errors, and a null message."""
_MESSAGE_BYTES_MAX: Final = 1000
_V0: Final = struct.Struct(">ihq")
_V2: Final = struct.Struct(">ihqq")
_V5: Final = struct.Struct(">ihqqq")
_SINGLE_HEAD: Final = struct.Struct(">iiih")
_SINGLE_TAIL: Final = struct.Struct(">iihqqqi")
_SINGLE_TAIL_V8: Final = struct.Struct(">iihqqqihi")
_V8_TAIL: Final = struct.Struct(">ih")


TopicKey: TypeAlias = str | bytes
"""What a request calls a topic: its name, or the 16 bytes of its id."""


class ProducePartition(NamedTuple):
    """One partition's records: where they stand in the frame. `end` < 0: null."""

    partition: int
    start: int
    end: int


class ProduceScan(NamedTuple):
    """A scanned request."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[ProducePartition]]]


class PartitionAnswer(NamedTuple):
    """One partition of the response."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_indexes: tuple[int, ...] = ()
    """Records that are named one by one, by their place in the batch (v8, KIP-467)."""


_REQUEST: Final = Wanted(
    ProduceScan,
    "ProduceScan(transactional_id, acks, timeout, topics)",
    names={"ProduceScan": ProduceScan, "ProducePartition": ProducePartition},
    absent={"transactional_id": None, "topics": []},
    rows={
        "topic_data": Rows("topics.append((name, partitions))"),
        "topic_data.partition_data": Rows(
            "partitions.append(ProducePartition(index, records_start, records_end))",
            before="partitions = []",
        ),
    },
    entries_max=str(bound_of(ApiKey.PRODUCE).entries_max),
)
_REQUEST_BY_ID: Final = _REQUEST._replace(
    rows={**_REQUEST.rows, "topic_data": Rows("topics.append((topic_id, partitions))")}
)
_THROTTLE_TIME_PLACE: Final = Wanted(int, "throttle_time_at", names={}, absent={}, rows={})


def request_growth(api_version: int, topics: int, transactional_id: str | None) -> int:
    """Bytes that a gateway adds to a request of so many topics: to each name in it."""
    names = (topics if api_version < BY_ID_FROM else 0) + (transactional_id is not None)
    return names * (COMPACT_GROWTH if api_version >= FLEXIBLE_FROM else SCOPE_BYTES)


@lru_cache(maxsize=32)
def _request_reader(api_version: int) -> Read[ProduceScan]:
    wanted = _REQUEST if api_version < BY_ID_FROM else _REQUEST_BY_ID
    return compile_read(layout_of(request_class(ApiKey.PRODUCE, api_version)), wanted)


@lru_cache(maxsize=32)
def _place_reader(api_version: int) -> Read[int]:
    return compile_read(layout_of(response_class(ApiKey.PRODUCE, api_version)), _THROTTLE_TIME_PLACE)


def scan_produce(frame: memoryview, at: int, api_version: int) -> ProduceScan:
    """Scan the body that begins at `at`. Raises: MalformedFrame."""
    try:
        one = _scan_one(frame, at) if 3 <= api_version < FLEXIBLE_FROM else None
        return one or _request_reader(api_version)(frame, at)
    except (struct.error, IndexError) as error:
        raise MalformedFrame(f"a Produce request ends early: {error}") from error


def _scan_one(frame: memoryview, at: int) -> ProduceScan | None:
    """What most requests are: one partition, no transactional id, a name in UTF-8. None: it is another."""
    try:
        id_size, acks, timeout_ms, topic_count, name_size = ONE_HEAD.unpack_from(frame, at)
        if id_size != -1 or topic_count != 1 or name_size < 0:
            return None
        name_at = at + ONE_HEAD.size
        name_end = name_at + name_size
        partition_count, index, size = ONE_PARTITION.unpack_from(frame, name_end)
        start = name_end + ONE_PARTITION.size
        if partition_count != 1 or size < 0 or start + size != len(frame):
            return None
        name = str(frame[name_at:name_end], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    return ProduceScan(None, acks, timeout_ms, [(name, [ProducePartition(index, start, start + size)])])


def produce_response(
    correlation_id: int,
    api_version: int,
    topics: Sequence[tuple[TopicKey, list[PartitionAnswer]]],
    throttle_time_ms: int,
) -> bytes:
    """The framed response; topics are called what the request called them."""
    if api_version >= FLEXIBLE_FROM:
        return _flexible_response(correlation_id, topics, throttle_time_ms)
    if len(topics) == 1 and len(topics[0][1]) == 1 and api_version >= 5:
        name, (answer,) = topics[0]
        assert isinstance(name, str)
        if answer.error_message is None:
            return _single_response(correlation_id, api_version, name.encode(), answer, throttle_time_ms)
    out = bytearray(8)
    _I32.pack_into(out, 4, correlation_id)
    out += _I32.pack(len(topics))
    for name, answers in topics:
        assert isinstance(name, str)
        encoded = name.encode()
        out += _I16.pack(len(encoded))
        out += encoded
        out += _I32.pack(len(answers))
        for answer in answers:
            if api_version >= 5:
                out += _V5.pack(*answer[:5])
            elif api_version >= 2:
                out += _V2.pack(*answer[:4])
            else:
                out += _V0.pack(*answer[:3])
            if api_version >= 8:
                out += _v8_tail(answer.record_indexes, answer.error_message)
    if api_version >= 1:
        out += _I32.pack(throttle_time_ms)
    _I32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _single_response(
    correlation_id: int, api_version: int, name: bytes, answer: PartitionAnswer, throttle_time_ms: int
) -> bytes:
    """What most answers are: one partition, v5-8, no message."""
    size = len(name)
    if api_version < 8:
        head = _SINGLE_HEAD.pack(size + 48, correlation_id, 1, size)
        return head + name + _SINGLE_TAIL.pack(1, *answer[:5], throttle_time_ms)
    head = _SINGLE_HEAD.pack(size + 54, correlation_id, 1, size)
    return head + name + _SINGLE_TAIL_V8.pack(1, *answer[:5], 0, -1, throttle_time_ms)


def _flexible_response(
    correlation_id: int, topics: Sequence[tuple[TopicKey, list[PartitionAnswer]]], throttle_time_ms: int
) -> bytes:
    """v9-13, without tagged fields: where leaders are is for Metadata to tell."""
    out = bytearray(8)
    _I32.pack_into(out, 4, correlation_id)
    out += _NO_TAGS + pack_uvarint(len(topics) + 1)
    for key, answers in topics:
        out += packed_compact_string(key) if isinstance(key, str) else key
        out += pack_uvarint(len(answers) + 1)
        for answer in answers:
            out += _V5.pack(*answer[:5])
            out += _flexible_errors(answer.record_indexes, answer.error_message) + _NO_TAGS
        out += _NO_TAGS
    out += _I32.pack(throttle_time_ms) + _NO_TAGS
    _I32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _flexible_errors(record_indexes: tuple[int, ...], message: str | None) -> bytes:
    """record_errors, each with the message of them all, and error_message."""
    if message is None:
        return _NO_ERRORS
    text = packed_compact_string(_readable_start(message))
    errors = b"".join(_I32.pack(index) + text + _NO_TAGS for index in record_indexes)
    return pack_uvarint(len(record_indexes) + 1) + errors + text


def _readable_start(message: str) -> str:
    return message.encode()[:_MESSAGE_BYTES_MAX].decode(errors="ignore")


def throttle_place(frame: memoryview, api_version: int) -> int:
    """Where throttle_time_ms stands in a flexible response with its length prefix: behind the topics and
    before tagged fields. Raises: MalformedFrame."""
    try:
        return _place_reader(api_version)(frame, skip_tags(frame, 8)[0])
    except (struct.error, IndexError) as error:
        raise MalformedFrame(f"a Produce response ends early: {error}") from error


def _v8_tail(record_indexes: tuple[int, ...], message: str | None) -> bytes:
    """record_errors, each with the message of them all, and error_message."""
    if message is None:
        return _V8_TAIL.pack(0, -1)
    encoded = message.encode()[:_MESSAGE_BYTES_MAX]
    text = _I16.pack(len(encoded)) + encoded
    errors = b"".join(_I32.pack(index) + text for index in record_indexes)
    return _I32.pack(len(record_indexes)) + errors + text
