"""The topics a consumer subscribed to, read from the consumer protocol inside JoinGroup.

Version 0 (`version i16, topics [string], user data bytes`) is the prefix of every later version.
"""

import struct
from typing import Final

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def names_in(metadata: bytes) -> int:
    """How many topic names a subscription has, subscribed and (from version 1 on) owned, as far as it can be
    read: that many a gateway finds in it."""
    found = 0
    try:
        (version,) = _I16.unpack_from(metadata, 0)
        (count,) = _I32.unpack_from(metadata, 2)
        at = 6
        for _ in range(count):
            at = _behind_name(metadata, at)
            found += 1
        (size,) = _I32.unpack_from(metadata, at)
        at += 4 + max(0, size)
        if version < 1:
            return found
        (count,) = _I32.unpack_from(metadata, at)
        at += 4
        for _ in range(count):
            at = _behind_name(metadata, at)
            (partitions,) = _I32.unpack_from(metadata, at)
            at += 4 + 4 * max(0, partitions)
            found += 1
    except struct.error:
        pass  # a subscription of another kind, or a damaged one: gateways read no further either
    return found


def _behind_name(metadata: bytes, at: int) -> int:
    """Raises: struct.error where no name is."""
    (size,) = _I16.unpack_from(metadata, at)
    if size < 0 or at + 2 + size > len(metadata):
        raise struct.error("a name ends behind the end")
    return at + 2 + int(size)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription, or None when the bytes are not one."""
    try:
        (version,) = _I16.unpack_from(metadata, 0)
        (count,) = _I32.unpack_from(metadata, 2)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics = []
        at = 6
        for _ in range(count):
            (size,) = _I16.unpack_from(metadata, at)
            at += 2
            if size < 0 or at + size > len(metadata):
                return None
            topics.append(metadata[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
