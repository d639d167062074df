"""The layout of a non-flexible message: fixed runs, strings, blobs and arrays, in wire order.

The frame editors walk this instead of fields. Neighbouring fields of fixed size are one run, so a layout
says at once how far a scanner may jump.
"""

import struct
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from wire.classify import FieldClass, classify
from wire.schema import FORMATS, MessageKind, fields_of, kind_of


class Fixed(NamedTuple):
    """A run of fields whose size never changes."""

    parts: tuple[tuple[str, str], ...]
    """(field name, `struct` code) in wire order."""

    @property
    def size(self) -> int:
        """Bytes of the whole run."""
        return self.offset_behind(len(self.parts))

    def offset_behind(self, parts: int) -> int:
        """Bytes of the first so many fields."""
        return struct.calcsize(">" + "".join(code for _, code in self.parts[:parts]))


class Text(NamedTuple):
    """A string behind an i16 length."""

    what: FieldClass
    nullable: bool


class Blob(NamedTuple):
    """Bytes or records behind an i32 length."""

    nullable: bool


class Array(NamedTuple):
    """Elements behind an i32 count."""

    nullable: bool
    element: "Layout"

    @property
    def element_size(self) -> int | None:
        """Bytes of one element when all have the same size."""
        if len(self.element) == 1 and isinstance(self.element[0], Fixed):
            return self.element[0].size
        return None


Step: TypeAlias = Fixed | Text | Blob | Array
Layout: TypeAlias = tuple[Step, ...]


def _merged(steps: list[Step]) -> Layout:
    merged: list[Step] = []
    for step in steps:
        last = merged[-1] if merged else None
        if isinstance(step, Fixed) and isinstance(last, Fixed):
            merged[-1] = Fixed(last.parts + step.parts)
        else:
            merged.append(step)
    return tuple(merged)


def _layout(message_class: Any, kind: MessageKind, path: str) -> Layout:
    steps: list[Step] = []
    for field in fields_of(message_class):
        assert field.tag is None, "tagged fields stand in flexible versions only"
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        if field.kafka_type == "entity":
            inner = _layout(field.value_type, kind, at)
            steps += (Array(field.nullable, inner),) if field.is_array else inner
            continue
        step: Step
        if field.kafka_type in FORMATS:
            step = Fixed(((field.name, FORMATS[field.kafka_type]),))
        elif field.kafka_type == "string":
            step = Text(classify(kind, at, field), field.nullable and not field.is_array)
        else:
            step = Blob(field.nullable and not field.is_array)
        steps.append(Array(field.nullable, (step,)) if field.is_array else step)
    return _merged(steps)


@lru_cache(maxsize=256)
def layout_of(message_class: Any) -> Layout:
    """The layout of a message class of a non-flexible version."""
    assert not message_class.__flexible__, f"{message_class.__name__} v{message_class.__version__}"
    return _layout(message_class, kind_of(message_class), "")


def least_size(layout: Layout) -> int:
    """The fewest bytes a message of this layout can have."""
    least = 0
    for step in layout:
        if isinstance(step, Fixed):
            least += step.size
        else:
            least += 2 if isinstance(step, Text) else 4
    return least
