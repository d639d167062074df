"""Compiles the layout of a message into a reader that takes a few of its fields out of a frame.

Like the frame scanner (`wire.edit_compile`) it is straight-line Python: fields of fixed size are read
together with the length behind them, lists of such fields at once, and record bytes are never touched. What
is wanted is said once; the layout makes a reader of it for each version, flexible or not.
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

from wire.faults import MalformedFrame, TooManyEntries
from wire.layout import Array, Blob, Fixed, Layout, Tags, Text, least_size
from wire.readable import readable
from wire.tags import skip_tags
from wire.uvarint import read_uvarint

Given = TypeVar("Given")
Read: TypeAlias = Callable[[memoryview, int], Given]
"""read(frame, where the body begins) -> the wanted result.

Raises: MalformedFrame, and struct.error or IndexError for a frame that ends early.
"""

_WORD: Final = re.compile(r"\w+")


class Rows(NamedTuple):
    """What is done with the entries of one list, as statements over field names."""

    each: str
    """Behind an entry."""
    before: str = "pass"
    """Before the first one."""
    is_counted: bool = True
    """Its entries are bounded, with those of the other lists."""


_IGNORED: Final = Rows("pass")


class Wanted(NamedTuple, Generic[Given]):
    """What a reader gives. Fields are named as in the schema; `x_start` and `x_end` are where the bytes of x
    stand (`x_end` -1: null), `x_at` is where a number x stands."""

    gives: type[Given]
    result: str
    """An expression of that type."""
    names: Mapping[str, object]
    """What expressions use besides fields."""
    absent: Mapping[str, object]
    """Fields some versions do not have -> their value there; lists that are filled -> []."""
    rows: Mapping[str, Rows]
    """By the path of the list: `topics.partitions`."""
    entries_max: str = "None"
    """An expression over the fields before the first list."""


class _Source:
    """Collects the reader's source and the constants it uses."""

    def __init__(self, wanted: Wanted[Given]) -> None:
        self.wanted = wanted
        statements = [wanted.result, wanted.entries_max]
        statements += [text for rows in wanted.rows.values() for text in (rows.each, rows.before)]
        self.used = set(_WORD.findall(" ".join(statements)))
        self.lines: list[str] = []
        self.constants: dict[str, object] = {
            **wanted.names,
            "MalformedFrame": MalformedFrame,
            "TooManyEntries": TooManyEntries,
            "readable": readable,
            "skip_tags": skip_tags,
            "uvarint": read_uvarint,
        }
        self.path: list[str] = []
        """The lists we are in."""
        self.lists = 0

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def constant(self, value: object) -> str:
        name = f"C{len(self.constants)}"
        self.constants[name] = value
        return name

    def fixed(self, run: Fixed | None, length_code: str = "") -> tuple[list[str], struct.Struct]:
        """The fields of a run that are wanted, with the length behind it, and what unpacks them."""
        names, codes = [], []
        for name, code in run.parts if run is not None else ():
            is_used = name in self.used
            codes.append(code if is_used else f"{struct.calcsize('>' + code)}x")
            names += [name] if is_used else []
        if length_code:
            names.append("n")
            codes.append(length_code)
        return names, struct.Struct(">" + "".join(codes))

    def read(self, depth: int, run: Fixed | None, length_code: str = "") -> None:
        names, shape = self.fixed(run, length_code)
        for index, (name, _) in enumerate(run.parts if run is not None else ()):
            if f"{name}_at" in self.used:
                assert run is not None
                self.add(depth, f"{name}_at = at + {run.offset_behind(index)}")
        if names:
            self.add(depth, f"{', '.join(names)}, = {self.constant(shape.unpack_from)}(frame, at)")
        if shape.size:
            self.add(depth, f"at += {shape.size}")

    def steps(self, depth: int, layout: Layout) -> None:
        run: Fixed | None = None
        for step in layout:
            if isinstance(step, Fixed):
                run = step
                continue
            if isinstance(step, Tags):
                self.read(depth, run)
                self.tags(depth, step)
            else:
                self.length(depth, run, step)
                self.variable(depth, step)
            run = None
        self.read(depth, run)

    def length(self, depth: int, run: Fixed | None, step: Text | Blob | Array) -> None:
        if step.compact:
            self.read(depth, run)
            self.add(depth, "n = frame[at] - 1; at += 1")
            self.add(depth, "if n > 126:")
            self.add(depth + 1, "more = frame[at]; at += 1; n += (more << 7) - 128")
            self.add(depth + 1, "if more > 127: n, at = uvarint(frame, at - 2); n -= 1")
        else:
            self.read(depth, run, "h" if isinstance(step, Text) else "i")
        lowest = -1 if step.nullable else 0
        self.add(depth, f"if n < {lowest}: raise MalformedFrame(f'a length of {{n}}')")

    def tags(self, depth: int, step: Tags) -> None:
        refused = f", {self.constant(step.refused)}" if step.refused else ""
        self.add(depth, "if frame[at]:")
        self.add(depth + 1, f"at, n = skip_tags(frame, at{refused})")
        self.count(depth + 1)
        self.add(depth, "else: at += 1")

    def count(self, depth: int) -> None:
        if self.wanted.entries_max != "None":
            self.add(depth, "seen += n")
            self.add(depth, "if seen > most: raise TooManyEntries(f'{seen} list entries')")

    def variable(self, depth: int, step: Text | Blob | Array) -> None:
        if isinstance(step, Array):
            self.array(depth, step)
        else:
            self.content(depth, step)

    def content(self, depth: int, step: Text | Blob) -> None:
        name = step.name
        self.add(depth, "behind = at + n if n > 0 else at")
        self.add(depth, f"if behind > end: raise MalformedFrame({name + ' runs past the end'!r})")
        if f"{name}_start" in self.used:
            self.add(depth, f"{name}_start = at; {name}_end = behind if n >= 0 else -1")
        if isinstance(step, Text) and name in self.used:
            self.add(depth, f"try: {name} = str(frame[at:behind], 'utf-8')")
            self.add(depth, f"except UnicodeDecodeError: {name} = readable(frame[at:behind])")
            if step.nullable:
                self.add(depth, f"if n < 0: {name} = None")
        self.add(depth, "at = behind")

    def array(self, depth: int, step: Array) -> None:
        self.path.append(step.name)
        rows = self.wanted.rows.get(".".join(self.path), _IGNORED)
        self.add(depth, f"if n > (end - at) // {least_size(step.element)}:")
        self.add(depth + 1, "raise MalformedFrame(f'a list of {n} entries does not fit its frame')")
        if self.lists == 0:
            self.add(depth, f"most = {self.wanted.entries_max}; seen = 0")
        self.lists += 1
        if rows.is_counted:
            self.count(depth)
        self.add(depth, rows.before)
        if step.element_size is None:
            self.add(depth, f"for i{self.lists} in range(n):")
            self.steps(depth + 1, step.element)
            self.add(depth + 1, rows.each)
        else:
            self.numbers(depth, step, rows)
        self.path.pop()

    def numbers(self, depth: int, step: Array, rows: Rows) -> None:
        """A list whose entries all have the same size."""
        (run,) = step.element
        assert isinstance(run, Fixed)
        names, shape = self.fixed(run)
        self.add(depth, f"behind = at + n * {shape.size} if n > 0 else at")
        if names and rows is not _IGNORED:
            self.add(
                depth, f"for {', '.join(names)}, in {self.constant(shape.iter_unpack)}(frame[at:behind]):"
            )
            self.add(depth + 1, rows.each)
        self.add(depth, "at = behind")


def compile_read(layout: Layout, wanted: Wanted[Given]) -> Read[Given]:
    """A reader of one layout, of a frame that ends with it."""
    source = _Source(wanted)
    source.add(0, "def read(frame, at):")
    source.add(1, "end = len(frame)")
    for name, value in wanted.absent.items():
        source.add(1, f"{name} = {value!r}")
    source.steps(1, layout)
    source.add(1, "if at != end: raise MalformedFrame(f'the body ends at {at} of {end} bytes')")
    source.add(1, f"return {wanted.result}")
    exec(compile("\n".join(source.lines), "<reader>", "exec"), source.constants)
    return cast(Read[Given], source.constants["read"])
