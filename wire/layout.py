"""The layout of a message: fixed runs, strings, blobs, arrays and tagged fields, in wire order.

The frame editors walk this instead of fields. Neighbouring fields of fixed size are one run, so a layout
says at once how far a scanner may jump.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from wire.classify import FieldClass, classify
from wire.schema import FORMATS, MessageKind, fields_of, kind_of

_REMOVED: Final = ("node_endpoints", "cluster_id")
TOPIC_ID: Final = "topic_id"
"""The field that names a topic where no name does."""
TOPIC_ID_BYTES: Final = 16


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
    """A string behind an i16 length, or a compact one."""

    what: FieldClass
    nullable: bool
    compact: bool = False
    """The length is an unsigned varint of one more: flexible versions."""
    name: str = ""
    """The field's."""


class Blob(NamedTuple):
    """Bytes or records behind an i32 length, or a compact one."""

    nullable: bool
    compact: bool = False
    name: str = ""


class Array(NamedTuple):
    """Elements behind an i32 count, or a compact one."""

    nullable: bool
    element: "Layout"
    compact: bool = False
    name: str = ""

    @property
    def element_size(self) -> int | None:
        """Bytes of one element when all have the same size."""
        if len(self.element) == 1 and isinstance(self.element[0], Fixed):
            return self.element[0].size
        return None


class Tags(NamedTuple):
    """The tagged fields at the end of a message, or of a nested one, of a flexible version."""

    refused: frozenset[int] = frozenset()
    """What speaks for a replica: nothing that a tenant may send."""
    removed: frozenset[int] = frozenset()
    """What names the cluster or addresses of brokers: nothing that passes."""


Step: TypeAlias = Fixed | Text | Blob | Array | Tags
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
    compact = bool(message_class.__flexible__)
    tagged: dict[str, int] = {}
    for field in fields_of(message_class):
        if field.tag is not None:
            tagged[field.name] = field.tag
            continue
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        if field.kafka_type == "entity":
            inner = _layout(field.value_type, kind, at)
            steps += (Array(field.nullable, inner, compact, field.name),) if field.is_array else inner
            continue
        step: Step
        if field.kafka_type in FORMATS:
            step = Fixed(((field.name, FORMATS[field.kafka_type]),))
        elif field.kafka_type == "string":
            nullable = field.nullable and not field.is_array
            step = Text(classify(kind, at, field), nullable, compact, field.name)
        else:
            step = Blob(field.nullable and not field.is_array, compact, field.name)
        steps.append(Array(field.nullable, (step,), compact, field.name) if field.is_array else step)
    if compact:
        steps.append(_tags(kind, tagged, is_top=path == ""))
    return _merged(steps)


def _tags(kind: MessageKind, tagged: Mapping[str, int], *, is_top: bool) -> Tags:
    """What is not passed on of a message's tagged fields."""
    if not is_top:
        return Tags()
    removed = frozenset(tag for name, tag in tagged.items() if name in _REMOVED)
    return Tags(
        removed=removed, refused=frozenset() if kind.response else frozenset(tagged.values()) - removed
    )


@lru_cache(maxsize=256)
def layout_of(message_class: Any) -> Layout:
    """The layout of a message class."""
    return _layout(message_class, kind_of(message_class), "")


def is_of_topic(element: Layout) -> bool:
    """Whether an entry of a list is a topic that is named by its id."""
    first = element[0]
    return isinstance(first, Fixed) and first.parts[0][0] == TOPIC_ID


def least_size(layout: Layout) -> int:
    """The fewest bytes a message of this layout can have."""
    least = 0
    for step in layout:
        if isinstance(step, Fixed):
            least += step.size
        elif isinstance(step, Tags) or step.compact:
            least += 1
        else:
            least += 2 if isinstance(step, Text) else 4
    return least
