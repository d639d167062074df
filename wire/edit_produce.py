"""Produce 0-13, edited as whole frames: topic names or (13) ids, the transactional id, error texts,
addresses."""

import struct
from collections.abc import Container
from functools import lru_cache
from typing import Final, NamedTuple

from wire.api_table import ApiKey
from wire.codec import payload_class
from wire.edit_compile import CLIENT_ID_AT, Scan, assembled, compile_scan, with_client_id
from wire.faults import ForeignName, MalformedFrame
from wire.framing import Buffer
from wire.hot.produce import FLEXIBLE_FROM, ONE_HEAD, ONE_PARTITION
from wire.layout import TOPIC_ID_BYTES, layout_of
from wire.request_bounds import bound_of
from wire.scope import SCOPE_BYTES, STRING_BYTES_MAX, Scope
from wire.tags import skip_tags
from wire.uvarint import read_uvarint

_REQUEST_HEAD: Final = struct.Struct(">ihhih").unpack_from
_RESPONSE_HEAD: Final = struct.Struct(">ii").unpack_from
_I16: Final = struct.Struct(">h")
_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_ONE_FROM: Final = 3
_ONE_HEAD: Final = ONE_HEAD.unpack_from
_ONE_PARTITION: Final = ONE_PARTITION.unpack_from
_PACK_I16: Final = struct.Struct(">h").pack


class ProduceRequestEdit(NamedTuple):
    """A Produce request as the backend gets it."""

    buffers: list[Buffer]
    correlation_id: int
    acks: int
    """-1, 0 or 1 of a right client; any i16 of a wrong one. 0 has no reply."""
    topics: list[bytes]
    """The tenant's topic names as they stood in the frame, or the ids."""


class ProduceResponseEdit(NamedTuple):
    """A Produce response as the tenant gets it."""

    buffers: list[Buffer]
    correlation_id: int
    throttle_time_ms: int
    """0 where the version has none."""


@lru_cache(maxsize=32)
def _scan(version: int, response: bool) -> Scan:
    layout = layout_of(payload_class(ApiKey.PRODUCE, version, response=response))
    if response:
        return compile_scan(layout, {"throttle_time": 0}, strip=True)
    return compile_scan(layout, {"acks": 0}, strip=False, entries_max=bound_of(ApiKey.PRODUCE).entries_max)


def edit_produce_request(
    frame: memoryview, scope: Scope, client_id: bytes | None = None
) -> ProduceRequestEdit:
    """Put the scope into one whole Produce request; `frame` begins with its length prefix. `client_id`, a
    field of the header, replaces the client's.

    Raises: MalformedFrame, NameTooLong, EmptyName (transactional id).
    """
    try:
        _, _, version, correlation_id, client_id_bytes = _REQUEST_HEAD(frame)
        body_at = client_id_end = 14 + client_id_bytes if client_id_bytes >= 0 else 14
        if client_id_bytes < -1:
            raise MalformedFrame("negative client id length")
        if version >= FLEXIBLE_FROM:
            body_at, _ = skip_tags(frame, client_id_end)
            one = None
        else:
            one = _scan_one(frame, body_at, scope) if version >= _ONE_FROM else None
        pieces, grown, topics, acks = one or _scan(version, False)(frame, body_at, scope)
    except (struct.error, IndexError) as error:
        raise MalformedFrame("a Produce request ends early") from error
    if client_id is not None:
        pieces, grown = with_client_id(frame, client_id_end, pieces, grown, client_id)
    return ProduceRequestEdit(assembled(frame, pieces, grown), correlation_id, acks, topics)


def _scan_one(frame: memoryview, at: int, scope: Scope) -> tuple[list[Buffer], int, list[bytes], int] | None:
    """What the scanner finds in what most requests are: one partition, no transactional id. None: it is
    another, or wrong."""
    try:
        id_size, acks, _, topics, name_size = _ONE_HEAD(frame, at)
        if id_size != -1 or topics != 1 or not 0 < name_size <= STRING_BYTES_MAX - SCOPE_BYTES:
            return None
        name_at = at + ONE_HEAD.size
        name_end = name_at + name_size
        partitions, _, size = _ONE_PARTITION(frame, name_end)
    except struct.error:
        return None
    if partitions != 1 or size < 0 or name_end + ONE_PARTITION.size + size != len(frame):
        return None
    scoped = _PACK_I16(name_size + SCOPE_BYTES) + scope.prefix_bytes
    pieces: list[Buffer] = [frame[4 : name_at - 2], scoped, frame[name_at:]]
    return pieces, SCOPE_BYTES, [bytes(frame[name_at:name_end])], acks


def only_topic_id(begun: memoryview) -> bytes | None:
    """Of a request by ids, of which perhaps only the beginning is here: the id of its topic, if it is for
    one. None: it is for several, or too little is here to say."""
    try:
        (client_id_bytes,) = _I16.unpack_from(begun, CLIENT_ID_AT)
        at, _ = skip_tags(begun, CLIENT_ID_AT + _I16.size + max(client_id_bytes, 0))
        coded, at = read_uvarint(begun, at)
        count, at = read_uvarint(begun, at + max(coded - 1, 0) + _ACKS_TIMEOUT.size)
    except (struct.error, IndexError, MalformedFrame):
        return None
    topic_id = bytes(begun[at : at + TOPIC_ID_BYTES])
    return topic_id if count == 2 and len(topic_id) == TOPIC_ID_BYTES else None


def edit_produce_response(
    frame: memoryview, version: int, scope: Scope, topic_ids: Container[bytes] = ()
) -> ProduceResponseEdit:
    """Take the scope out of one whole Produce response; `frame` begins with its length prefix. `topic_ids`
    are those that it may tell of.

    Raises: MalformedFrame, ForeignName.
    """
    try:
        _, correlation_id = _RESPONSE_HEAD(frame)
        body_at = 8 if version < FLEXIBLE_FROM else skip_tags(frame, 8)[0]
        pieces, grown, ids, throttle_ms = _scan(version, True)(frame, body_at, scope)
    except (struct.error, IndexError) as error:
        raise MalformedFrame("a Produce response ends early") from error
    for topic_id in ids:
        if topic_id not in topic_ids:
            raise ForeignName("a topic id of another instance in a response")
    return ProduceResponseEdit(assembled(frame, pieces, grown), correlation_id, throttle_ms)
