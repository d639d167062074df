"""Sections of tagged fields, as flexible versions have them at the end of headers, messages and parts."""

from typing import Final

from wire.faults import MalformedFrame
from wire.uvarint import read_uvarint

TAGGED_FIELDS_MAX: Final = 1000
"""Tagged fields of one section: Kafka's messages have three at most, and skipping one costs a microsecond."""


def skip_tags(
    frame: bytes | bytearray | memoryview, at: int, refused: frozenset[int] = frozenset()
) -> tuple[int, int]:
    """(the offset behind a section, how many fields it has). Raises: MalformedFrame, for a field that is
    `refused`, too."""
    count, at = read_uvarint(frame, at)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedFrame(f"{count} tagged fields")
    for _ in range(count):
        tag, at = read_uvarint(frame, at)
        if tag in refused:
            raise MalformedFrame(f"tagged field {tag} is not served here")
        size, at = read_uvarint(frame, at)
        at += size
    if at > len(frame):
        raise MalformedFrame("a tagged field runs past the end")
    return at, count
