"""Fetch 0-18, edited as whole frames: topic names or (13) ids, and the fetch session, which is watched."""

import struct
from collections.abc import Container
from functools import lru_cache
from typing import Final, NamedTuple

from wire.api_table import ApiKey
from wire.codec import payload_class
from wire.edit_compile import Scan, assembled, compile_scan, with_client_id
from wire.edit_stream import AddedTopics, FrameEditor, fetch_response_editor
from wire.faults import ForeignName, MalformedFrame, NotMappable
from wire.framing import Buffer
from wire.hot.fetch import FLEXIBLE_FROM
from wire.layout import Fixed, layout_of
from wire.request_bounds import bound_of
from wire.scope import Scope
from wire.tags import skip_tags

_REQUEST_HEAD: Final = struct.Struct(">ihhih").unpack_from
_RESPONSE_HEAD: Final = struct.Struct(">ii").unpack_from
_CONSUMER: Final = -1
"""The replica id of clients; others read what is not committed, or from followers."""
_SESSION: Final = struct.Struct(">ii")

NO_SESSION: Final = (0, -1)
"""Session id and epoch of a request without session, which is also what versions below 7 mean."""


class FetchRequestEdit(NamedTuple):
    """A Fetch request as the backend gets it."""

    buffers: list[Buffer]
    correlation_id: int
    session_id: int
    """The session id that goes up, that is after a replacement."""
    session_epoch: int
    max_wait_ms: int
    topics: list[bytes]
    """The tenant's topic names as they stood in the frame, or the ids, forgotten ones too."""


class FetchResponseEdit(NamedTuple):
    """A Fetch response as the tenant gets it."""

    buffers: list[Buffer]
    correlation_id: int
    error_code: int
    session_id: int
    throttle_time_ms: int


@lru_cache(maxsize=32)
def _scan(version: int, response: bool) -> Scan:
    layout = layout_of(payload_class(ApiKey.FETCH, version, response=response))
    if response:
        return compile_scan(layout, {"session_id": 0, "error_code": 0, "throttle_time": 0}, strip=True)
    captured = {"replica_id": -1, "max_wait": 0, "session_id": 0, "session_epoch": -1}
    return compile_scan(layout, captured, strip=False, entries_max=bound_of(ApiKey.FETCH).entries_max)


@lru_cache(maxsize=32)
def _session_offset(version: int) -> int | None:
    """Where the session id stands in the body of a request, the epoch behind it."""
    head = layout_of(payload_class(ApiKey.FETCH, version, response=False))[0]
    assert isinstance(head, Fixed)
    names = [name for name, _ in head.parts]
    if "session_id" not in names:
        return None
    at = names.index("session_id")
    assert names[at + 1] == "session_epoch"
    return head.offset_behind(at)


def _session_at(frame: memoryview) -> int | None:
    _, _, version, _, client_id_bytes = _REQUEST_HEAD(frame)
    if client_id_bytes < -1:
        raise MalformedFrame("negative client id length")
    offset = _session_offset(version)
    if offset is None:
        return None
    at = 14 + max(client_id_bytes, 0)
    return offset + (at if version < FLEXIBLE_FROM else skip_tags(frame, at)[0])


def fetch_session(frame: memoryview) -> tuple[int, int]:
    """(session id, session epoch) of a whole Fetch request, `NO_SESSION` below version 7.

    Raises: MalformedFrame.
    """
    try:
        at = _session_at(frame)
        return NO_SESSION if at is None else _SESSION.unpack_from(frame, at)
    except (struct.error, IndexError) as error:
        raise MalformedFrame("a Fetch request ends early") from error


def _with_session(frame: memoryview, session_id: int) -> memoryview:
    at = _session_at(frame)
    if at is None or at + 4 > len(frame):
        return frame
    changed = bytearray(frame)
    struct.pack_into(">i", changed, at, session_id)
    return memoryview(changed)


def edit_fetch_request(
    frame: memoryview, scope: Scope, *, session_id: int | None = None, client_id: bytes | None = None
) -> FetchRequestEdit:
    """Put the scope into one whole Fetch request; `session_id` replaces the client's (from version 7 on), and
    so does `client_id`, a field of the header.

    Raises: MalformedFrame, NameTooLong, NotMappable for a client that claims to be a broker's replica.
    """
    try:
        if session_id is not None:
            frame = _with_session(frame, session_id)
        _, _, version, correlation_id, client_id_bytes = _REQUEST_HEAD(frame)
        body_at = client_id_end = 14 + client_id_bytes if client_id_bytes >= 0 else 14
        if client_id_bytes < -1:
            raise MalformedFrame("negative client id length")
        if version >= FLEXIBLE_FROM:
            body_at, _ = skip_tags(frame, client_id_end)
        scanned = _scan(version, False)(frame, body_at, scope)
    except (struct.error, IndexError) as error:
        raise MalformedFrame("a Fetch request ends early") from error
    pieces, grown, topics, replica_id, max_wait_ms, session, epoch = scanned
    if replica_id != _CONSUMER:
        raise NotMappable("a fetch in the name of a replica")
    if client_id is not None:
        pieces, grown = with_client_id(frame, client_id_end, pieces, grown, client_id)
    buffers = assembled(frame, pieces, grown)
    return FetchRequestEdit(buffers, correlation_id, session, epoch, max_wait_ms, topics)


def edit_fetch_response(
    frame: memoryview,
    version: int,
    scope: Scope,
    added: AddedTopics | None = None,
    topic_ids: Container[bytes] = (),
) -> FetchResponseEdit:
    """Take the scope out of one whole Fetch response; `frame` begins with its length prefix. `added` comes
    behind its last topic; `topic_ids` are those that it may tell of.

    Raises: MalformedFrame, ForeignName.
    """
    if added is not None:
        return _edit_with(frame, fetch_response_editor(version, scope, added, topic_ids))
    try:
        _, correlation_id = _RESPONSE_HEAD(frame)
        body_at = 8 if version < FLEXIBLE_FROM else skip_tags(frame, 8)[0]
        pieces, grown, ids, session_id, error_code, throttle_ms = _scan(version, True)(frame, body_at, scope)
    except (struct.error, IndexError) as error:
        raise MalformedFrame("a Fetch response ends early") from error
    for topic_id in ids:
        if topic_id not in topic_ids:
            raise ForeignName("a topic id of another instance in a response")
    buffers = assembled(frame, pieces, grown)
    return FetchResponseEdit(buffers, correlation_id, error_code, session_id, throttle_ms)


def _edit_with(frame: memoryview, editor: FrameEditor) -> FetchResponseEdit:
    buffers, used = editor.feed(frame)
    if not editor.done or used != len(frame):
        raise MalformedFrame("a Fetch response ends early")
    facts = editor.facts
    return FetchResponseEdit(
        buffers,
        editor.correlation_id,
        facts.get("error_code", 0),
        facts.get("session_id", 0),
        facts.get("throttle_time", 0),
    )
