"""How bytes of a message are shown: as JSON or text where they are, else as hex. Pure."""

import re
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from tenants.rules.decoding import Note
from tenants.rules.message_scan import Piece

_UNFINISHED_BYTES_MAX: Final = 3
"""Bytes of a character whose last is cut off."""
_NOT_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BEGINS_JSON: Final = re.compile(r"\s*[\[{]")
_AS_SENT: Final = Note()


class Encoding(StrEnum):
    """How bytes are wanted."""

    AUTO = "auto"
    TEXT = "text"
    HEX = "hex"


class Shown(StrEnum):
    """How bytes are shown."""

    JSON = "json"
    TEXT = "text"
    HEX = "hex"


class Text(NamedTuple):
    """Bytes as they are shown."""

    shown: Shown
    text: str


def text_of(piece: Piece, encoding: Encoding, note: Note = _AS_SENT) -> Text:
    """The bytes of a piece. What is no UTF-8 is replaced where text is wanted, and hex otherwise; what should
    have been decoded and was not is hex, too."""
    if encoding is Encoding.AUTO and note.problem and note.is_raw:
        encoding = Encoding.HEX
    is_cut = len(piece.data) < piece.size_bytes
    if encoding is Encoding.TEXT:
        return Text(Shown.TEXT, piece.data.decode(errors="replace"))
    text = None if encoding is Encoding.HEX else _decoded(piece.data, is_cut=is_cut)
    if text is None or _NOT_TEXT.search(text):
        return Text(Shown.HEX, piece.data.hex())
    is_json = not is_cut and _BEGINS_JSON.match(text) is not None and _is_json(piece.data)
    return Text(Shown.JSON if is_json else Shown.TEXT, text)


def _decoded(data: bytes, *, is_cut: bool) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(data) - _UNFINISHED_BYTES_MAX or "end of data" not in error.reason:
            return None
        return data[: error.start].decode()


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
