"""throttle_time_ms of a response, raised in its encoded form: replies pass through without being decoded.

In nearly all versions that have the field only fields of fixed size stand before it; in Produce and
ApiVersions it is the last one. There are no tagged fields behind it in old versions and in what we make
ourselves; a flexible Produce, which another cluster may have answered, is looked through.
"""

import struct
from functools import lru_cache
from typing import Final

from wire.api_table import ApiKey
from wire.codec import is_flexible, response_class, response_header_size
from wire.faults import MalformedFrame
from wire.framing import PREFIX_BYTES
from wire.hot.produce import throttle_place
from wire.schema import SIZES, Field, fields_of

_BEHIND_TOPICS: Final = -(1 << 31)
"""Instead of a place: behind entries of unknown size, and before tagged fields that another cluster wrote."""
_FIELD: Final = "throttle_time"
_I32: Final = struct.Struct(">i")
HEAD_BYTES_MAX: Final = PREFIX_BYTES + 9
"""Bytes of a Fetch response up to the end of the field: so much of it is needed to raise it."""


@lru_cache(maxsize=512)
def place(api_key: int, api_version: int) -> int | None:
    """Where the field is in a frame with its length prefix; below zero from the end, or `_BEHIND_TOPICS`.
    None: there is none."""
    if api_key == ApiKey.PRODUCE and is_flexible(api_key, api_version):
        return _BEHIND_TOPICS
    fields = fields_of(response_class(api_key, api_version))
    names = [field.name for field in fields]
    if _FIELD not in names:
        return None
    at = names.index(_FIELD)
    before = _size(fields[:at])
    if before is not None:
        return PREFIX_BYTES + response_header_size(api_key, api_version) + before
    behind = _size([field for field in fields[at:] if field.tag is None])
    assert behind is not None, f"{api_key} v{api_version}: the field stands between others of unknown size"
    return -behind - (1 if is_flexible(api_key, api_version) else 0)


@lru_cache(maxsize=64)
def behind_field(api_key: int, api_version: int) -> int:
    """Where what an answer says begins in a frame with its length prefix: behind its header and, in versions
    that have it, the field. Only for APIs where the field comes first."""
    at = place(api_key, api_version)
    before = PREFIX_BYTES + response_header_size(api_key, api_version)
    assert at is None or at == before, f"{api_key} v{api_version}: the field is not the first"
    return before if at is None else at + _I32.size


def _size(fields: "list[Field] | tuple[Field, ...]") -> int | None:
    """Bytes of fields that all have a fixed size; None when one has not."""
    if any(field.is_array or field.kafka_type not in SIZES for field in fields):
        return None
    return sum(SIZES[field.kafka_type] for field in fields)


def told_in(frame: bytes | memoryview, api_key: int, api_version: int) -> int:
    """The field of a response with its length prefix; 0 where the version has none.

    Raises: MalformedFrame.
    """
    at = place(api_key, api_version)
    if at is None:
        return 0
    if at < 0:
        at = throttle_place(memoryview(frame), api_version) if at == _BEHIND_TOPICS else at + len(frame)
    if at < 0 or at + _I32.size > len(frame):
        raise MalformedFrame(f"an answer of {len(frame)} bytes")
    told_ms: int = _I32.unpack_from(frame, at)[0]
    return told_ms


def raise_in(frame: bytearray | memoryview, api_key: int, api_version: int, throttle_ms: int) -> None:
    """Make the field at least `throttle_ms`, where the version has one. `frame` has its length prefix.

    Raises: MalformedFrame.
    """
    at = place(api_key, api_version)
    if at is None:
        return
    if at < 0:
        at = throttle_place(memoryview(frame), api_version) if at == _BEHIND_TOPICS else at + len(frame)
    (told_ms,) = _I32.unpack_from(frame, at)
    if told_ms < throttle_ms:
        _I32.pack_into(frame, at, throttle_ms)


def raised(frame: bytes, api_key: int, api_version: int, throttle_ms: int) -> bytes:
    """A copy of the frame with the field raised."""
    if place(api_key, api_version) is None:
        return frame
    changed = bytearray(frame)
    raise_in(changed, api_key, api_version, throttle_ms)
    return bytes(changed)
