"""Decode and encode whole Kafka messages through kio, versions loaded as they are met.

Frames here have no 4-byte length prefix unless a name says `framed`.
"""

import datetime
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import kio.schema.index
from kio.index import load_payload_module
from kio.schema.index import PayloadEntityType
from kio.serial import entity_reader
from kio.serial.errors import InvalidUnicode, SerialError
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity, Payload

from wire.encode_compile import encoder_of
from wire.faults import MalformedFrame as MalformedFrame
from wire.legacy.messages import is_legacy, legacy_class
from wire.mended import MENDED_RESPONSES
from wire.tags import skip_tags
from wire.uvarint import pack_uvarint
from wire.uvarint import read_uvarint as read_uvarint
from wire.walk import clean_message

_HEADER: Final = struct.Struct(">hhi")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
API_VERSIONS: Final = 18


class RequestHeader(NamedTuple):
    """What every request starts with. `body_at` is where its body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int
    flexible: bool


def parse_request_prefix(frame: Any) -> tuple[int, int, int]:
    """(api key, api version, correlation id) from the first 8 bytes of a request frame."""
    if len(frame) < 8:
        raise MalformedFrame(f"a request of {len(frame)} bytes has no header")
    return _HEADER.unpack_from(frame, 0)


def skip_tagged_fields(frame: Any, at: int) -> int:
    """The offset behind a tagged-field section. Raises: MalformedFrame."""
    return skip_tags(frame, at)[0]


def parse_request_header(frame: Any, flexible: bool) -> RequestHeader:
    """The header of a request; `flexible` (header v2) follows from API and version: see `is_flexible`."""
    return request_header(*parse_request_prefix(frame), frame, flexible)


def request_header(
    api_key: int, api_version: int, correlation_id: int, frame: Any, flexible: bool
) -> RequestHeader:
    """The header of a request whose prefix was read before."""
    if len(frame) < 10:
        raise MalformedFrame("a request header without client id")
    (size,) = _I16.unpack_from(frame, 8)
    at = 10
    client_id = None
    if size >= 0:
        if at + size > len(frame):
            raise MalformedFrame("the client id runs past the end")
        client_id = str(frame[at : at + size], "utf-8", "replace")  # as Java does; only shown
        at += size
    elif size != -1:
        raise MalformedFrame("negative client id length")
    if flexible:
        at = skip_tagged_fields(frame, at)
    return RequestHeader(api_key, api_version, correlation_id, client_id, at, flexible)


@lru_cache(maxsize=2048)
def payload_class(api_key: int, api_version: int, *, response: bool) -> type[Payload]:
    """kio's message class, or ours where it has none or a wrong one. Raises KeyError for what neither has."""
    if is_legacy(api_key, api_version):
        return legacy_class(api_key, api_version, response=response)
    if response and (api_key, api_version) in MENDED_RESPONSES:
        return MENDED_RESPONSES[api_key, api_version]
    name = kio.schema.index.api_key_map[api_key]
    kind: PayloadEntityType = EntityType.response if response else EntityType.request
    path = kio.schema.index.schema_name_map[name][api_version][kind]
    module = load_payload_module(api_key, api_version, kind)
    found: type[Payload] = getattr(module, path.split(":", 1)[1])
    return found


def request_class(api_key: int, api_version: int) -> type[Payload]:
    """kio's request class of one API and version."""
    return payload_class(api_key, api_version, response=False)


def response_class(api_key: int, api_version: int) -> type[Payload]:
    """kio's response class of one API and version."""
    return payload_class(api_key, api_version, response=True)


@lru_cache(maxsize=2048)
def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether requests of this API and version carry header v2 and compact fields."""
    return bool(request_class(api_key, api_version).__flexible__)


@lru_cache(maxsize=2048)
def response_header_size(api_key: int, api_version: int) -> int:
    """4, or 5 with the empty tagged fields of header v1. ApiVersions always answers with v0."""
    flexible = response_class(api_key, api_version).__flexible__ and api_key != API_VERSIONS
    return 5 if flexible else 4


def decode(cls: Any, frame: Any, at: int = 0, *, entries_max: int | None = None) -> Any:
    """Decode one entity that must fill the frame from `at` to its end. Unknown tagged fields are left out.
    `entries_max` bounds a request's lists; None: what a broker takes (`wire.request_bounds`).

    Raises: MalformedFrame for whatever is not the message, hostile bytes included (`wire.walk` says how).
    """
    given, given_at = frame, at
    frame, at = clean_message(cls, frame, at, entries_max)
    try:
        try:
            entity, size = entity_reader(cls)(frame, at)
        except InvalidUnicode:
            if cls.__type__ is not EntityType.request:
                raise
            frame, at = clean_message(cls, given, given_at, entries_max, reads_texts=True)
            entity, size = entity_reader(cls)(frame, at)
    except (SerialError, ValueError, TypeError, KeyError, OverflowError, IndexError) as error:
        raise MalformedFrame(f"{cls.__name__} v{cls.__version__}: {error}") from error
    if at + size != len(frame):
        raise MalformedFrame(f"{cls.__name__} v{cls.__version__}: {len(frame) - at - size} bytes left over")
    return entity


def encode(entity: Entity) -> bytes:
    """The bytes of one entity, without header."""
    out = bytearray()
    encoder_of(type(entity))(entity, out)
    return bytes(out)


def framed_request(entity: Payload, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request with length prefix and header."""
    api_key, api_version = entity.__api_key__, entity.__version__
    body = encode(entity)
    client = b"" if client_id is None else client_id.encode()
    head = _HEADER.pack(api_key, api_version, correlation_id)
    head += _I16.pack(-1 if client_id is None else len(client)) + client
    if entity.__flexible__:
        head += b"\0"
    return _I32.pack(len(head) + len(body)) + head + body


def framed_response(entity: Payload, correlation_id: int) -> bytes:
    """A whole response with length prefix and header."""
    body = _header_tags(entity) + encode(entity)
    return _I32.pack(4 + len(body)) + _I32.pack(correlation_id) + body


def listing_body(entity: Payload, entries: Sequence[bytes]) -> bytes:
    """What a response has behind its correlation id, whose last field is a list: empty in `entity`, here
    with entries that were encoded before."""
    body = encode(entity)
    if not entity.__flexible__:
        return b"".join((body[: -_I32.size], _I32.pack(len(entries)), *entries))
    count = pack_uvarint(len(entries) + 1)
    return b"".join((_header_tags(entity), body[:-2], count, *entries, b"\0"))


def _header_tags(entity: Payload) -> bytes:
    return b"\0" if response_header_size(entity.__api_key__, entity.__version__) == 5 else b""


def decode_response(frame: Any, api_key: int, api_version: int) -> tuple[int, Any]:
    """(correlation id, message) of a response frame."""
    if len(frame) < 4:
        raise MalformedFrame("a response without correlation id")
    (correlation_id,) = _I32.unpack_from(frame, 0)
    at = 4
    if response_header_size(api_key, api_version) == 5:
        at = skip_tagged_fields(frame, at)
    return correlation_id, decode(response_class(api_key, api_version), frame, at)


def milliseconds(duration: datetime.timedelta) -> int:
    """kio's durations as whole milliseconds."""
    return round(duration.total_seconds() * 1000)


def duration(value_ms: int) -> i32Timedelta:
    """Whole milliseconds as kio wants them."""
    return i32Timedelta.parse(datetime.timedelta(milliseconds=value_ms))
