"""Strings and counts, plain and compact."""

import struct
from typing import Final

from wire.faults import MalformedFrame
from wire.readable import readable
from wire.uvarint import pack_uvarint

I16: Final = struct.Struct(">h")
I32: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ihhi")


def packed_string(text: str) -> bytes:
    """A string behind its length."""
    encoded = text.encode()
    return I16.pack(len(encoded)) + encoded


def framed(api_key: int, api_version: int, correlation_id: int, client_id: bytes, body: bytes) -> bytes:
    """A request that is not flexible, with its length prefix; `client_id` is packed."""
    size = _HEADER.size - 4 + len(client_id) + len(body)
    return _HEADER.pack(size, api_key, api_version, correlation_id) + client_id + body


def read_string(frame: memoryview, at: int) -> tuple[str | None, int]:
    """A nullable string and the offset behind it."""
    (size,) = I16.unpack_from(frame, at)
    at += 2
    if size < 0:
        if size != -1:
            raise MalformedFrame("negative string length")
        return None, at
    end = at + size
    if end > len(frame):
        raise MalformedFrame("a string runs past the end")
    try:
        return str(frame[at:end], "utf-8"), end
    except UnicodeDecodeError:
        return readable(frame[at:end]), end


def packed_compact_string(text: str) -> bytes:
    """A string behind its compact length."""
    encoded = text.encode()
    return pack_uvarint(len(encoded) + 1) + encoded


def read_name(frame: memoryview, at: int) -> tuple[str, int]:
    """A topic's name and the offset behind it."""
    name, at = read_string(frame, at)
    if name is None:
        raise MalformedFrame("a null topic name")
    return name, at
