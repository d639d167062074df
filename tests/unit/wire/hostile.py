"""Hostile frames of any API and version, made from its schema: where a message says how much comes, it lies.

A place is a length, a count, or a section of tagged fields. Around it is a right message: only this is wrong.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from wire.codec import is_flexible, request_class
from wire.schema import FORMATS, Field, fields_of
from wire.uvarint import pack_uvarint

TAGS_MANY: Final = 2_000
_UNKNOWN_TAG: Final = 100
_NUMBERS: Final = {"replica_id": -1, "acks": 1, "count": 2}
"""What a right client says."""
_OVERFLOWS: Final = b"\xff" * 12
"""A varint of more bytes than any number has."""
_COUNTS: Final = {"2^31": pack_uvarint(2**31 + 1), "the largest number": pack_uvarint(2**32 - 1)}


class Hostile(NamedTuple):
    """One frame, length prefix included."""

    what: str
    frame: bytes
    may_pass: bool
    """Whether it can be read all the same: unknown tagged fields can be left out."""


class _Place(NamedTuple):
    """A piece of a message that says how much comes."""

    where: str
    right: bytes
    kind: str
    """`tags`, `compact`, `i16` or `i32`."""
    nullable: bool


_Piece = bytes | _Place


def hostile_requests(api_key: int, version: int) -> Iterator[Hostile]:
    """Each place of the request with each lie about it."""
    flexible = is_flexible(api_key, version)
    pieces: list[_Piece] = [struct.pack(">hhih", api_key, version, 1, 1) + b"c"]
    if flexible:
        pieces.append(_Place("header", b"\0", "tags", nullable=False))
    pieces += _message(request_class(api_key, version), "", flexible=flexible)
    for number, piece in enumerate(pieces):
        if isinstance(piece, _Place):
            before, behind = _joined(pieces[:number]), _joined(pieces[number + 1 :])
            for what, lie, may_pass in _lies(piece, len(behind)):
                body = before + lie + behind
                yield Hostile(
                    f"{piece.where or 'message'}: {what}", struct.pack(">i", len(body)) + body, may_pass
                )


def right_request(api_key: int, version: int) -> bytes:
    """The frame that all of them are made of."""
    (tags,) = (b"\0",) if is_flexible(api_key, version) else (b"",)
    body = struct.pack(">hhih", api_key, version, 1, 1) + b"c" + tags
    body += _joined(_message(request_class(api_key, version), "", flexible=bool(tags)))
    return struct.pack(">i", len(body)) + body


def _joined(pieces: list[_Piece]) -> bytes:
    return b"".join(piece.right if isinstance(piece, _Place) else piece for piece in pieces)


def _lies(place: _Place, rest: int) -> Iterator[tuple[str, bytes, bool]]:
    """What it may say instead; whether that may pass."""
    if place.kind == "tags":
        yield from _lies_of_tags(rest)
        return
    if place.kind == "compact":
        yield "a varint that overflows", _OVERFLOWS, False
        yield "one more than there is", pack_uvarint(rest + 2), False
        for what, count in _COUNTS.items():
            yield what, count, False
    else:
        code, most = (">h", 2**15 - 1) if place.kind == "i16" else (">i", 2**31 - 1)
        yield "the largest number", struct.pack(code, most), False
        yield "-2", struct.pack(code, -2), False
        if rest + 1 < most:
            yield "one more than there is", struct.pack(code, rest + 1), False
    if not place.nullable:
        null = {"compact": b"\0", "i16": b"\xff\xff", "i32": b"\xff\xff\xff\xff"}[place.kind]
        yield "null", null, False


def _lies_of_tags(rest: int) -> Iterator[tuple[str, bytes, bool]]:
    unknown = pack_uvarint(_UNKNOWN_TAG)
    yield "a count that overflows", _OVERFLOWS, False
    for what, count in _COUNTS.items():
        yield f"tags: {what}", count, False
        yield f"a tag of {what} bytes", b"\1" + unknown + count, False
    yield "a tag that ends behind the frame", b"\1" + unknown + pack_uvarint(rest + 1), False
    yield "a tag of a size that overflows", b"\1" + unknown + _OVERFLOWS, False
    yield "the same tag by the thousand", pack_uvarint(TAGS_MANY) + (unknown + b"\0") * TAGS_MANY, True
    numbered = b"".join(pack_uvarint(_UNKNOWN_TAG + each) + b"\0" for each in range(TAGS_MANY))
    yield "unknown tags by the thousand", pack_uvarint(TAGS_MANY) + numbered, True


def _message(message_class: Any, path: str, *, flexible: bool) -> list[_Piece]:
    pieces: list[_Piece] = []
    for field in fields_of(message_class):
        if field.tag is None:
            pieces += _field(field, f"{path}.{field.name}", flexible=flexible)
    if flexible:
        pieces.append(_Place(path, b"\0", "tags", nullable=False))
    return pieces


def _field(field: Field, path: str, *, flexible: bool) -> list[_Piece]:
    if not field.is_array:
        return _value(field, path, flexible=flexible)
    count = _length(f"{path}[]", 1, "i32", field, flexible=flexible)
    element = field._replace(is_array=False, nullable=False)
    return [count, *_value(element, f"{path}[]", flexible=flexible)]


def _length(path: str, size: int, old: str, field: Field, *, flexible: bool) -> _Place:
    if flexible:
        return _Place(path, pack_uvarint(size + 1), "compact", field.nullable)
    return _Place(path, struct.pack(">h" if old == "i16" else ">i", size), old, field.nullable)


def _value(field: Field, path: str, *, flexible: bool) -> list[_Piece]:
    if field.kafka_type == "entity":
        present = [b"\1"] if field.nullable else []
        return [*present, *_message(field.value_type, path, flexible=flexible)]
    if field.kafka_type == "string":
        return [_length(path, 3, "i16", field, flexible=flexible), b"abc"]
    if field.kafka_type in ("bytes", "records"):
        return [_length(path, 3, "i32", field, flexible=flexible), b"abc"]
    number: Any = UUID(int=7).bytes if field.kafka_type == "uuid" else _NUMBERS.get(field.name, 0)
    return [struct.pack(">" + FORMATS[field.kafka_type], number)]
