"""Compiles a message class into straight-line Python that walks its bytes without decoding them.

A step never checks an offset against the end: lengths cannot be negative, so offsets only grow, the next
read behind the end raises IndexError or struct.error, and the caller compares where the walk came out.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from wire.faults import MalformedFrame
from wire.readable import Text, treatment_of
from wire.schema import SIZES, Field, fields_of
from wire.scope import STRING_BYTES_MAX
from wire.uvarint import pack_uvarint, read_uvarint

_FREE_ENTRIES: Final = 16
"""Lists of numbers up to here are not charged: an enclosing entry of several bytes is."""


class Walk(Protocol):
    """The state of one walk (`wire.walk`)."""

    frame: memoryview

    def charge(self, elements: int) -> None:
        """Count entries against the message's budget."""

    def replace(self, start: int, end: int, replacement: bytes) -> None:
        """The bytes from `start` to `end` become others."""

    def text(self, start: int, at: int, size: int, treatment: Text | None) -> None:
        """A string of `size` bytes at `at`, its length at `start`: put into readable form if need be."""

    def within(self, start: int) -> "Walk":
        """A walk of a part that begins at `start`, on the same budget."""

    def changed(self, end: int) -> bytes | None:
        """The part up to `end` as it became, None when nothing was replaced."""


Step: TypeAlias = Callable[[Walk, int], int]
"""step(walk, where the value begins) -> where it ends."""


class _Source:
    """Collects the walker's source and the constants it uses."""

    def __init__(self, flexible: bool, *, reads_texts: bool) -> None:
        self.flexible = flexible
        self.reads_texts = reads_texts
        self.lines = ["def step(walk, at):", "    frame = walk.frame"]
        self.constants: dict[str, Any] = {"MalformedFrame": MalformedFrame, "uvarint": read_uvarint}
        self.run = 0

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def constant(self, value: Any) -> str:
        name = f"C{len(self.constants)}"
        self.constants[name] = value
        return name

    def jump(self, depth: int) -> None:
        """Go behind the fixed fields met since the last length."""
        if self.run:
            self.add(depth, f"at += {self.run}")
        self.run = 0

    def length(self, depth: int, code: str, *, nullable: bool) -> None:
        """Read a length or count into `n`; null becomes 0."""
        if self.flexible:
            self.jump(depth)
            self.add(depth, "n = frame[at] - 1; at += 1")
            self.add(depth, "if n > 126: n, at = uvarint(frame, at - 1); n -= 1")
        else:
            pad = f"{self.run}x" if self.run else ""
            reader = struct.Struct(f">{pad}{code}")
            self.add(depth, f"(n,) = {self.constant(reader.unpack_from)}(frame, at); at += {reader.size}")
            self.run = 0
        if nullable:
            self.add(depth, "if n < 0:")
            self.add(depth + 1, "if n < -1: raise MalformedFrame(f'a length of {n}')")
            self.add(depth + 1, "n = 0")
        else:
            self.add(depth, "if n < 0: raise MalformedFrame(f'a length of {n}, where null is not allowed')")

    def value(self, depth: int, field: Field, *, nullable: bool) -> None:
        """One value, or one entry of a list."""
        if field.kafka_type in SIZES:
            self.run += SIZES[field.kafka_type]
        elif field.kafka_type == "entity":
            self.jump(depth)
            step = self.constant(step_of(field.value_type, reads_texts=self.reads_texts))
            if nullable:  # a struct behind a byte that is negative for null (KIP-893)
                self.add(depth, f"at = at + 1 if frame[at] >= 0x80 else {step}(walk, at + 1)")
            else:
                self.add(depth, f"at = {step}(walk, at)")
        else:
            is_string = field.kafka_type == "string"
            if is_string and self.reads_texts:
                self.jump(depth)
                self.add(depth, "start = at")
            self.length(depth, "h" if is_string else "i", nullable=nullable)
            if is_string and self.flexible:
                self.add(
                    depth, f"if n > {STRING_BYTES_MAX}: raise MalformedFrame(f'a string of {{n}} bytes')"
                )
            if is_string and self.reads_texts:
                self.add(depth, f"if n: walk.text(start, at, n, {self.constant(treatment_of(field))})")
            self.add(depth, "at += n")

    def list(self, field: Field) -> None:
        self.length(1, "i", nullable=field.nullable)
        if field.kafka_type in SIZES:
            self.add(1, f"if n > {_FREE_ENTRIES}: walk.charge(n)")
            self.add(1, f"at += n * {SIZES[field.kafka_type]}")
            return
        self.add(1, "if n:")
        self.add(2, "walk.charge(n)")
        self.add(2, "for _ in range(n):")
        self.value(3, field, nullable=False)
        assert self.run == 0


def _tags(known: dict[int, Step]) -> Step:
    """The tagged fields at the end of a struct when there are any; unknown ones are taken out."""

    def step(walk: Walk, start: int) -> int:
        count, at = read_uvarint(walk.frame, start)
        walk.charge(count)
        kept: list[bytes] = []
        changed = False
        for _ in range(count):
            tag_at = at
            tag, at = read_uvarint(walk.frame, at)
            size, at = read_uvarint(walk.frame, at)
            value_at, at = at, at + size
            if at > len(walk.frame):
                raise MalformedFrame("a tagged field runs past the end")
            if tag not in known:
                changed = True
                continue
            inner = walk.within(value_at)
            if known[tag](inner, value_at) != at:
                raise MalformedFrame("a tagged field has another size than its value")
            value = inner.changed(at)
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


def _compiled(fields: tuple[Field, ...], flexible: bool, *, tag_section: bool, reads_texts: bool) -> Step:
    source = _Source(flexible, reads_texts=reads_texts)
    known: dict[int, Step] = {}
    for field in fields:
        if field.tag is not None and tag_section:
            # Inside a tag, null is told by the tag's absence: there is no byte for it.
            alone = field._replace(tag=None, nullable=field.nullable and field.kafka_type != "entity")
            known[field.tag] = _compiled((alone,), flexible, tag_section=False, reads_texts=reads_texts)
        elif field.is_array:
            source.list(field)
        else:
            source.value(1, field, nullable=field.nullable)
    source.jump(1)
    if flexible and tag_section:
        source.add(1, f"return {source.constant(_tags(known))}(walk, at) if frame[at] else at + 1")
    else:
        source.add(1, "return at")
    exec(compile("\n".join(source.lines), "<walker>", "exec"), source.constants)
    step: Step = source.constants["step"]
    return step


@lru_cache(maxsize=8192)
def step_of(message_class: Any, *, reads_texts: bool = False) -> Step:
    """The walker of a message or nested message. It raises MalformedFrame, IndexError or struct.error.

    With `reads_texts` it looks into strings, too (`wire.readable`).
    """
    flexible = bool(message_class.__flexible__)
    return _compiled(fields_of(message_class), flexible, tag_section=True, reads_texts=reads_texts)
