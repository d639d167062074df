"""Walks a message by its schema before kio decodes it, and takes out tagged fields the schema does not know.

kio 0.6.5 must not see hostile bytes first: its native decoder reserves memory for as many elements as an
array claims to have, and a claim of two milliards aborts the whole process. It also raises KeyError for
tags it does not know, which a newer peer may send at any time. So every length and count is checked
against the bytes that are there, null only stands where the schema allows it, and the number of elements
of a message is bounded.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from kio.static.constants import EntityType

from wire.faults import MalformedFrame
from wire.schema import SIZES, Field, fields_of
from wire.scope import STRING_BYTES_MAX
from wire.uvarint import pack_uvarint, read_uvarint

REQUEST_ELEMENTS_MAX: Final = 50_000
"""List entries of one request, all lists together: what a client of 10,000 partitions sends is far below."""

RESPONSE_ELEMENTS_MAX: Final = 5_000_000

Step: TypeAlias = Callable[["Walk", int], int]
"""step(walk, where the value begins) -> where it ends."""


class Walk:
    """The state of one walk: what is left of the budget, and what the message is without unknown tags."""

    __slots__ = ("cut", "elements_left", "end", "frame", "pieces")

    def __init__(self, frame: memoryview, end: int, elements_left: int, cut: int) -> None:
        self.frame = frame
        self.end = end
        self.elements_left = elements_left
        self.pieces: list[bytes | memoryview] = []
        self.cut = cut

    def replace(self, start: int, end: int, replacement: bytes) -> None:
        """The bytes from `start` to `end` become others."""
        self.pieces += (self.frame[self.cut : start], replacement)
        self.cut = end


def _fixed(size: int) -> Step:
    def step(walk: Walk, at: int) -> int:
        at += size
        if at > walk.end:
            raise MalformedFrame("a field runs past the end")
        return at

    return step


Length: TypeAlias = Callable[[Walk, int], tuple[int, int]]
"""length(walk, at) -> (bytes or entries, -1 for null; where they begin)."""


def _length(width: int, *, flexible: bool, nullable: bool) -> Length:
    lowest = -1 if nullable else 0

    def compact(walk: Walk, at: int) -> tuple[int, int]:
        raw, at = read_uvarint(walk.frame, at)
        if raw <= lowest:
            raise MalformedFrame("null where the schema has no null")
        return raw - 1, at

    def legacy(walk: Walk, at: int) -> tuple[int, int]:
        behind = at + width
        if behind > walk.end:
            raise MalformedFrame("a length runs past the end")
        size = int.from_bytes(walk.frame[at:behind], "big", signed=True)
        if size < lowest:
            raise MalformedFrame(f"a length of {size}")
        return size, behind

    return compact if flexible else legacy


def _sized(length: Length, size_max: int) -> Step:
    """A string or bytes behind its length."""

    def step(walk: Walk, at: int) -> int:
        size, at = length(walk, at)
        if size > 0:
            at += size
        if at > walk.end or size > size_max:
            raise MalformedFrame(f"a field of {size} bytes does not fit")
        return at

    return step


def _list(length: Length, element: Step, element_size: int | None) -> Step:
    """A list. An entry takes at least one byte, so the count is checked before anything is walked."""

    def step(walk: Walk, at: int) -> int:
        count, at = length(walk, at)
        if count <= 0:
            return at
        walk.elements_left -= count
        if count * (element_size or 1) > walk.end - at or walk.elements_left < 0:
            raise MalformedFrame(f"a list of {count} entries does not fit")
        if element_size is not None:
            return at + count * element_size
        for _ in range(count):
            at = element(walk, at)
        return at

    return step


def _nullable_struct(struct: Step) -> Step:
    """A struct behind a byte that is negative for null (KIP-893)."""

    def step(walk: Walk, at: int) -> int:
        if at >= walk.end:
            raise MalformedFrame("a struct runs past the end")
        return at + 1 if walk.frame[at] >= 0x80 else struct(walk, at + 1)

    return step


def _value(field: Field, flexible: bool, *, tagged: bool) -> Step:
    if field.kafka_type == "entity":
        step = struct_step(field.value_type)
        if field.nullable and not field.is_array and not tagged:
            step = _nullable_struct(step)
    elif field.kafka_type in SIZES:
        step = _fixed(SIZES[field.kafka_type])
    else:
        is_string = field.kafka_type == "string"
        nullable = field.nullable and not field.is_array
        length = _length(2 if is_string else 4, flexible=flexible, nullable=nullable)
        step = _sized(length, STRING_BYTES_MAX if is_string else 1 << 31)
    if not field.is_array:
        return step
    counts = _length(4, flexible=flexible, nullable=field.nullable)
    return _list(counts, step, SIZES.get(field.kafka_type))


def _tags(known: dict[int, Step]) -> Step:
    """The tagged fields at the end of a struct, unknown ones taken out."""

    def step(walk: Walk, start: int) -> int:
        count, at = read_uvarint(walk.frame, start)
        if count == 0:
            return at
        walk.elements_left -= count
        if walk.elements_left < 0:
            raise MalformedFrame(f"{count} tagged fields")
        kept: list[bytes] = []
        changed = False
        for _ in range(count):
            tag_at = at
            tag, at = read_uvarint(walk.frame, at)
            size, at = read_uvarint(walk.frame, at)
            value_at, at = at, at + size
            if at > walk.end:
                raise MalformedFrame("a tagged field runs past the end")
            if tag not in known:
                changed = True
                continue
            value = _tagged_value(walk, value_at, at, known[tag])
            changed = changed or value is not None
            kept.append(
                bytes(walk.frame[tag_at:at])
                if value is None
                else pack_uvarint(tag) + pack_uvarint(len(value)) + value
            )
        if changed:
            walk.replace(start, at, pack_uvarint(len(kept)) + b"".join(kept))
        return at

    return step


def _tagged_value(walk: Walk, start: int, end: int, step: Step) -> bytes | None:
    """The value without unknown tags of its own, or None when it has none."""
    inner = Walk(walk.frame, end, walk.elements_left, start)
    if step(inner, start) != end:
        raise MalformedFrame("a tagged field is longer than its value")
    walk.elements_left = inner.elements_left
    if not inner.pieces:
        return None
    return b"".join((*inner.pieces, walk.frame[inner.cut : end]))


@lru_cache(maxsize=8192)
def struct_step(message_class: Any) -> Step:
    """Walks one message or nested message."""
    flexible = bool(message_class.__flexible__)
    steps: list[Step] = []
    known: dict[int, Step] = {}
    run = 0
    for field in fields_of(message_class):
        if field.tag is not None:
            known[field.tag] = _value(field, flexible, tagged=True)
        elif field.kafka_type in SIZES and not field.is_array:
            run += SIZES[field.kafka_type]
        else:
            steps += [_fixed(run)] if run else []
            run = 0
            steps.append(_value(field, flexible, tagged=False))
    steps += [_fixed(run)] if run else []
    if flexible:
        steps.append(_tags(known))

    def step(walk: Walk, at: int) -> int:
        for part in steps:
            at = part(walk, at)
        return at

    return step


def clean_message(message_class: Any, frame: Any, at: int) -> tuple[Any, int]:
    """(buffer, offset) of a message that kio can decode: `frame` and `at` unless something had to go.

    Bytes behind a request go, too: Kafka's own parser ignores them, and librdkafka (2.16 among others) sends
    three behind a Metadata request of version 9 and later for all topics.
    Raises: MalformedFrame, also when a response does not fill the frame to its end.
    """
    view = memoryview(frame)
    is_request = message_class.__type__ is EntityType.request
    walk = Walk(view, len(view), REQUEST_ELEMENTS_MAX if is_request else RESPONSE_ELEMENTS_MAX, at)
    try:
        behind = struct_step(message_class)(walk, at)
    except MalformedFrame as fault:
        raise MalformedFrame(f"{message_class.__name__} v{message_class.__version__}: {fault}") from fault
    if behind != len(view) and not is_request:
        raise MalformedFrame(
            f"{message_class.__name__} v{message_class.__version__}: {len(view) - behind} bytes left over"
        )
    if not walk.pieces:
        return (frame, at) if behind == len(view) else (bytes(view[at:behind]), 0)
    return b"".join((*walk.pieces, view[walk.cut : behind])), 0
