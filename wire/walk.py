"""Walks a message by its schema before kio decodes it, and takes out tagged fields the schema does not know.

kio 0.6.5 must not see hostile bytes first: its native decoder reserves memory for as many elements as an
array claims to have, and a claim of two milliards aborts the whole process. It also raises KeyError for
tags it does not know, which a newer peer may send at any time. So every length and count is checked
against the bytes that are there, null only stands where the schema allows it, and the number of elements
of a message is bounded.
"""

import struct
from typing import Any, Final

from kio.static.constants import EntityType

from wire.faults import MalformedFrame, TooManyEntries
from wire.readable import Text, readable
from wire.request_bounds import bound_of
from wire.uvarint import pack_uvarint
from wire.walk_compile import step_of

RESPONSE_ELEMENTS_MAX: Final = 5_000_000
_I16: Final = struct.Struct(">h")


class Walk:
    """The state of one walk: what is left of the budget, and what the message is without unknown tags."""

    __slots__ = ("budget", "cut", "flexible", "frame", "pieces")

    def __init__(self, frame: memoryview, budget: list[int], cut: int, *, flexible: bool) -> None:
        self.frame = frame
        self.flexible = flexible
        self.budget = budget
        """One number, shared by the walks of one message."""
        self.pieces: list[bytes | memoryview] = []
        self.cut = cut

    def charge(self, elements: int) -> None:
        """Count entries against the message's budget."""
        self.budget[0] -= elements
        if self.budget[0] < 0:
            raise TooManyEntries("more list entries than one message of this API may have")

    def replace(self, start: int, end: int, replacement: bytes) -> None:
        """The bytes from `start` to `end` become others."""
        self.pieces += (self.frame[self.cut : start], replacement)
        self.cut = end

    def text(self, start: int, at: int, size: int, treatment: Text | None) -> None:
        """Put a string that is not UTF-8 into readable form. Raises: MalformedFrame where it has none."""
        raw = self.frame[at : at + size]
        try:
            str(raw, "utf-8")
        except UnicodeDecodeError as error:
            if treatment is None:
                raise MalformedFrame("a string is not UTF-8") from error
            text = readable(raw).encode() if treatment is Text.SHOWN else b""
            length = pack_uvarint(len(text) + 1) if self.flexible else _I16.pack(len(text))
            self.replace(start, at + size, length + text)

    def within(self, start: int) -> "Walk":
        """A walk of a part that begins at `start`, on the same budget."""
        return Walk(self.frame, self.budget, start, flexible=self.flexible)

    def changed(self, end: int) -> bytes | None:
        """The part up to `end` as it became, None when nothing was replaced."""
        return b"".join((*self.pieces, self.frame[self.cut : end])) if self.pieces else None


def clean_message(
    message_class: Any, frame: Any, at: int, entries_max: int | None = None, *, reads_texts: bool = False
) -> tuple[Any, int]:
    """(buffer, offset) of a message that kio can decode: `frame` and `at` unless something had to go.

    Bytes behind a request go, too: Kafka's own parser ignores them, and librdkafka (2.16 among others) sends
    three behind a Metadata request of version 9 and later for all topics.
    With `reads_texts`, strings that are not UTF-8 become readable where they may (`wire.readable`).
    Raises: MalformedFrame, also when a response does not fill the frame to its end.
    """
    view = memoryview(frame)
    is_request = message_class.__type__ is EntityType.request
    if not is_request:
        entries_max = RESPONSE_ELEMENTS_MAX
    elif entries_max is None:
        entries_max = bound_of(message_class.__api_key__).physical_entries_max
    walk = Walk(view, [entries_max], at, flexible=message_class.__flexible__)
    try:
        behind = step_of(message_class, reads_texts=reads_texts)(walk, at)
        if behind > len(view):
            raise MalformedFrame("a field runs past the end")
    except TooManyEntries:
        raise
    except (MalformedFrame, IndexError, struct.error) as fault:
        raise MalformedFrame(f"{message_class.__name__} v{message_class.__version__}: {fault}") from fault
    if behind != len(view) and not is_request:
        raise MalformedFrame(
            f"{message_class.__name__} v{message_class.__version__}: {len(view) - behind} bytes left over"
        )
    changed = walk.changed(behind)
    if changed is not None:
        return changed, 0
    return (frame, at) if behind == len(view) else (bytes(view[at:behind]), 0)
