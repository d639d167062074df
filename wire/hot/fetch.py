"""Fetch v0-18, from both ends. Pure.

The response is a header part, then per partition a header part and the record slice, so that records can
leave by sendfile. Source: Kafka FetchRequest.json, FetchResponse.json.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias

from wire.api_table import ApiKey
from wire.codec import request_class
from wire.faults import MalformedFrame
from wire.hot.values import framed, packed_string, read_name
from wire.layout import layout_of
from wire.read_compile import Read, Rows, Wanted, compile_read
from wire.request_bounds import bound_of
from wire.uvarint import pack_uvarint

FLEXIBLE_FROM: Final = 12
BY_ID_FROM: Final = 13
"""From here on topics are named by ids."""
HIGHEST: Final = 18
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_HEAD_V4: Final = struct.Struct(">iiiib")
_SESSION: Final = struct.Struct(">ii")
_ERROR_SESSION: Final = struct.Struct(">hi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_ANSWER_V0: Final = struct.Struct(">ihq")
_ANSWER_V4: Final = struct.Struct(">ihqq")
_ANSWER_V5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_REPLY_V4: Final = struct.Struct(">ihqqi")
_REPLY_V5: Final = struct.Struct(">ihqqqi")
"""Index, error code, high watermark, last stable offset, log start offset (v5), aborted transactions."""
NULL: Final = _I32.pack(-1)
NO_TAGS: Final = b"\0"
_COMPACT_NULL: Final = b"\0"
NO_PREFERRED_REPLICA: Final = _I32.pack(-1)
PREFERRED_REPLICA_FROM: Final = 11
FOLLOWER_VERSION: Final = 11
CLIENT_ENTRIES_MAX: Final = bound_of(ApiKey.FETCH).entries_max
"""Topics and partitions of one request of a consumer, and partitions of one of its sessions."""
_OF_REPLICA_MAX: Final = 20_000
"""The same of a broker that follows: as many replicas as one has."""


class AbortedTransaction(Protocol):
    """Of a producer, in the records that are fetched."""

    @property
    def producer_id(self) -> int:
        """Whose records are not to be read."""

    @property
    def first_offset(self) -> int:
        """From where on."""


TopicKey: TypeAlias = str | bytes
"""What a request calls a topic: its name, or the 16 bytes of its id."""


class FetchPartition(NamedTuple):
    """What a request asks of one partition."""

    topic: str
    """Empty where the request has an id that nobody has put a name to."""
    partition: int
    current_leader_epoch: int
    """-1: not checked."""
    fetch_offset: int
    max_bytes: int
    log_start_offset: int = -1
    """Of the replica that fetches; consumers have none."""
    topic_id: bytes = b""
    """Of 16 bytes from version 13 on."""

    @property
    def topic_key(self) -> TopicKey:
        """What the request calls the topic."""
        return self.topic_id or self.topic


class FetchedPartition(NamedTuple):
    """One partition of an answer; its records stand in the frame from `start` to `end`."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    start: int
    end: int
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset)."""


class FetchScan(NamedTuple):
    """A scanned request."""

    replica_id: int
    """A broker that follows, or below 0 a consumer."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[TopicKey, int]]


_REQUEST: Final = Wanted(
    FetchScan,
    "FetchScan(replica_id, max_wait, min_bytes, max_bytes, isolation_level, session_id, session_epoch,"
    " found, gone)",
    names={"FetchScan": FetchScan, "FetchPartition": FetchPartition},
    absent={
        "max_bytes": 2**31 - 1,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "current_leader_epoch": -1,
        "log_start_offset": -1,
        "found": [],
        "gone": [],
    },
    rows={
        "topics.partitions": Rows(
            "found.append(FetchPartition(topic, partition, current_leader_epoch, fetch_offset,"
            " partition_max_bytes, log_start_offset))"
        ),
        "forgotten_topics_data": Rows("pass", is_counted=False),
        "forgotten_topics_data.partitions": Rows("gone.append((topic, partitions))", is_counted=False),
    },
    entries_max=f"{_OF_REPLICA_MAX} if replica_id >= 0 else {CLIENT_ENTRIES_MAX}",
)
_REQUEST_BY_ID: Final = _REQUEST._replace(
    absent={**_REQUEST.absent, "replica_id": -1},
    rows={
        "topics.partitions": Rows(
            "found.append(FetchPartition('', partition, current_leader_epoch, fetch_offset,"
            " partition_max_bytes, log_start_offset, topic_id))"
        ),
        "forgotten_topics_data": Rows("pass", is_counted=False),
        "forgotten_topics_data.partitions": Rows("gone.append((topic_id, partitions))", is_counted=False),
    },
)


@lru_cache(maxsize=32)
def _request_reader(api_version: int) -> Read[FetchScan]:
    wanted = _REQUEST if api_version < BY_ID_FROM else _REQUEST_BY_ID
    return compile_read(layout_of(request_class(ApiKey.FETCH, api_version)), wanted)


def scan_fetch(frame: memoryview, at: int, api_version: int) -> FetchScan:
    """Scan the body that begins at `at`. Raises: MalformedFrame, from version 15 on for a replica's, too."""
    try:
        return _request_reader(api_version)(frame, at)
    except (struct.error, IndexError) as error:
        raise MalformedFrame(f"a Fetch request ends early: {error}") from error


def response_head(api_version: int, throttle_time_ms: int, error_code: int, session_id: int) -> bytes:
    """Everything between the correlation id and the topics: of flexible versions the header's tagged fields,
    which are none, too."""
    head = _I32.pack(throttle_time_ms) if api_version >= 1 else b""
    if api_version >= FLEXIBLE_FROM:
        head = NO_TAGS + head
    if api_version >= 7:
        head += _ERROR_SESSION.pack(error_code, session_id)
    return head


RESPONSE_HEAD_BYTES: Final = tuple(len(response_head(version, 0, 0, 0)) for version in range(HIGHEST + 1))
"""How long it is, by version."""


def partition_head(
    api_version: int,
    index: int,
    error_code: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    records_bytes: int,
    aborted: Sequence[AbortedTransaction] | None = None,
) -> bytes:
    """A partition up to its records, whose size stands last. `aborted` is None for read_uncommitted."""
    if api_version >= 5:
        head = _ANSWER_V5.pack(index, error_code, high_watermark, last_stable_offset, log_start_offset)
    elif api_version == 4:
        head = _ANSWER_V4.pack(index, error_code, high_watermark, last_stable_offset)
    else:
        return _ANSWER_V0.pack(index, error_code, high_watermark) + _I32.pack(records_bytes)
    if api_version >= FLEXIBLE_FROM:
        head += _COMPACT_NULL if aborted is None else _compact_aborted(aborted)
        return head + NO_PREFERRED_REPLICA + pack_uvarint(records_bytes + 1)
    if aborted is None:
        head += NULL
    else:
        head += _I32.pack(len(aborted))
        for each in aborted:
            head += _ABORTED.pack(each.producer_id, each.first_offset)
    if api_version >= PREFERRED_REPLICA_FROM:
        head += NO_PREFERRED_REPLICA
    return head + _I32.pack(records_bytes)


def _compact_aborted(aborted: Sequence[AbortedTransaction]) -> bytes:
    each = b"".join(_ABORTED.pack(one.producer_id, one.first_offset) + NO_TAGS for one in aborted)
    return pack_uvarint(len(aborted) + 1) + each


def _count(number: int) -> bytes:
    return _I32.pack(number)


def _compact_count(number: int) -> bytes:
    return pack_uvarint(number + 1)


def _topic_head(topic: TopicKey, partition_count: int) -> bytes:
    assert isinstance(topic, str)
    encoded = topic.encode()
    return _I16.pack(len(encoded)) + encoded + _I32.pack(partition_count)


def _topic_id_head(topic: TopicKey, partition_count: int) -> bytes:
    assert isinstance(topic, bytes)
    return topic + pack_uvarint(partition_count + 1)


def _compact_topic_head(topic: TopicKey, partition_count: int) -> bytes:
    assert isinstance(topic, str)
    encoded = topic.encode()
    return pack_uvarint(len(encoded) + 1) + encoded + pack_uvarint(partition_count + 1)


class Form(NamedTuple):
    """How an answer says what stands between its partitions."""

    packed_count: Callable[[int], bytes]
    """An array's count."""
    topic_head: Callable[[TopicKey, int], bytes]
    """A topic's name or id, and the number of its partitions."""
    end: bytes
    """What ends a partition, a topic and the answer: tagged fields, which are none."""


_PLAIN: Final = Form(_count, _topic_head, b"")
_COMPACT: Final = Form(_compact_count, _compact_topic_head, NO_TAGS)
_BY_ID: Final = Form(_compact_count, _topic_id_head, NO_TAGS)


def form_of(api_version: int) -> Form:
    """The form of a version's answers."""
    if api_version >= BY_ID_FROM:
        return _BY_ID
    return _COMPACT if api_version >= FLEXIBLE_FROM else _PLAIN


def frame_head(body_bytes: int, correlation_id: int) -> bytes:
    """Length prefix and correlation id; `body_bytes` are all behind them."""
    return _SESSION.pack(body_bytes + 4, correlation_id)


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
    """A follower's, v11. `session` is (id, epoch); `wanted` are partitions that are new or have moved."""
    out = bytearray(_HEAD_V4.pack(replica_id, max_wait_ms, 1, max_bytes, 0) + _SESSION.pack(*session))
    by_topic: dict[str, list[FetchPartition]] = {}
    for each in wanted:
        by_topic.setdefault(each.topic, []).append(each)
    out += _I32.pack(len(by_topic))
    for topic, partitions in by_topic.items():
        out += packed_string(topic)
        out += _I32.pack(len(partitions))
        for each in partitions:
            out += _PARTITION_V9.pack(
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
        out += packed_string(topic)
        out += struct.pack(f">{len(indexes) + 1}i", len(indexes), *indexes)
    out += _I16.pack(0)  # no rack: followers fetch from the leader
    return framed(ApiKey.FETCH, FOLLOWER_VERSION, correlation_id, client_id, bytes(out))


def read_answer(frame: memoryview, version: int) -> tuple[int, int, int, list[FetchedPartition]]:
    """(throttle_time_ms, error code, session id, partitions) of an answer v4-11, without length prefix.

    Raises: MalformedFrame.
    """
    try:
        (throttle_time_ms,) = _I32.unpack_from(frame, 4)
        if version < 7:
            error_code, session_id, at = 0, 0, 8
        else:
            error_code, session_id = _ERROR_SESSION.unpack_from(frame, 8)
            at = 14
        return throttle_time_ms, error_code, session_id, list(_fetched(frame, at, version))
    except struct.error as error:
        raise MalformedFrame(f"an answer to a Fetch ends early: {error}") from error


def _fetched(frame: memoryview, at: int, version: int) -> Iterator[FetchedPartition]:
    has_start, log_start = version >= 5, -1
    head_bytes = (_REPLY_V5 if has_start else _REPLY_V4).size
    preferred_bytes = 4 if version >= PREFERRED_REPLICA_FROM else 0
    (topics,) = _I32.unpack_from(frame, at)
    at += 4
    for _ in range(topics):
        topic, at = read_name(frame, at)
        (partitions,) = _I32.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            if has_start:
                index, error, high_watermark, _, log_start, count = _REPLY_V5.unpack_from(frame, at)
            else:
                index, error, high_watermark, _, count = _REPLY_V4.unpack_from(frame, at)
            at += head_bytes
            aborted: tuple[tuple[int, int], ...] = ()
            if count > 0:
                behind = at + _ABORTED.size * count
                aborted = tuple(_ABORTED.iter_unpack(frame[at:behind]))
                at = behind
            (size,) = _I32.unpack_from(frame, at + preferred_bytes)
            at += preferred_bytes + 4
            end = at + max(0, size)
            if end > len(frame):
                raise MalformedFrame("records run past the end")
            yield FetchedPartition(topic, index, error, high_watermark, log_start, at, end, aborted)
            at = end
