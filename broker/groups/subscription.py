"""The topics a consumer subscribed to, read from the consumer protocol inside JoinGroup.

Version 0 (`version i16, topics [string], user data bytes`) is the prefix of every later version.
"""

import struct
from typing import Final

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


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
