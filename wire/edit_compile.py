"""Compiles the layout of a message into a scanner of whole frames.

The scanner is straight-line Python made from the layout, because a frame of a few kilobytes may cost no
more than a few microseconds: fields of fixed size are jumped over together with the length that follows
them in one `unpack_from`, records by their length, and only names are cut out. Of names that are taken off in
flexible versions the length keeps its width, and of names that are put on it gets one byte wider, whether it
has to or not: so what a frame shrinks or grows by follows from how many names it has.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from wire.classify import FieldClass
from wire.faults import EmptyName, ForeignName, MalformedFrame, NameTooLong, NotMappable, TooManyEntries
from wire.framing import Buffer
from wire.layout import TOPIC_ID, Array, Blob, Fixed, Layout, Tags, Text, is_of_topic
from wire.scope import COMPACT_GROWTH, SCOPE_BYTES, STRING_BYTES_MAX, Scope
from wire.tags import TAGGED_FIELDS_MAX, skip_tags
from wire.texts import tenant_text
from wire.uvarint import pack_uvarint, padded_uvarint, read_uvarint

Scan: TypeAlias = Callable[[memoryview, int, Scope], tuple[Any, ...]]
"""scan(frame, body offset, scope) -> (pieces behind the length prefix, growth, names, *captured). The names
are a request's topics, or the ids of a message's where it has those instead."""

NAMES: Final = frozenset({FieldClass.TOPIC_NAME, FieldClass.GROUP_ID, FieldClass.TRANSACTIONAL_ID})
_NEVER_EMPTY: Final = {FieldClass.GROUP_ID: "group_id", FieldClass.TRANSACTIONAL_ID: "transactional_id"}

JOINED_BYTES_MAX: Final = 8192
"""Up to here one copy of the frame costs less than a second buffer in `sendmsg`."""

NAMED_ENTRIES_MAX: Final = 10_000
"""Topics of one frame: far above any instance's, so low that a frame of empty topics costs little."""

CLIENT_ID_AT: Final = 12
"""Where a request's header has its client id, in a frame with its length prefix."""

BUFFERS_MAX: Final = 512
"""Well under IOV_MAX (1,024); a frame cut into more is joined."""

_PACK_I16: Final = struct.Struct(">h").pack
_PACK_I32: Final = struct.Struct(">i").pack


def edited_text(raw: memoryview, scope: Scope) -> bytes | None:
    """The bytes of an error text as the tenant may read it, or None when they stay as they are."""
    try:
        text = str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedFrame("an error text is not UTF-8") from error
    mapped = tenant_text(text, scope)
    return None if mapped == text else mapped.encode()


def kept_tags(frame: memoryview, at: int, rule: Tags) -> tuple[int, bytes, int]:
    """(the offset behind a section of tagged fields, the section as it goes on, how many it had).

    Raises: MalformedFrame, NotMappable.
    """
    count, at = read_uvarint(frame, at)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedFrame(f"{count} tagged fields")
    kept = []
    for _ in range(count):
        start = at
        tag, at = read_uvarint(frame, at)
        if tag in rule.refused:
            raise NotMappable(f"tagged field {tag} is for brokers only")
        size, at = read_uvarint(frame, at)
        at += size
        if at > len(frame):
            raise MalformedFrame("a tagged field runs past the end")
        if tag not in rule.removed:
            kept.append(frame[start:at])
    return at, b"".join((pack_uvarint(len(kept)), *kept)), count


class _Source:
    """Collects the scanner's source and the constants it uses."""

    def __init__(self, captured: Mapping[str, int], *, strip: bool, entries_max: int | None) -> None:
        self.captured = captured
        self.entries_max = entries_max
        self.strip = strip
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "L": _PACK_I16,
            "MalformedFrame": MalformedFrame,
            "ForeignName": ForeignName,
            "NameTooLong": NameTooLong,
            "EmptyName": EmptyName,
            "TooManyEntries": TooManyEntries,
            "edited_text": edited_text,
            "uvarint": read_uvarint,
            "V": pack_uvarint,
            "W": padded_uvarint,
            "skip_tags": skip_tags,
            "kept_tags": kept_tags,
        }
        self.loops = 0

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def read(self, depth: int, run: Fixed | None, length_code: str = "") -> None:
        """Jump over a run of fixed size, capture what is wanted of it, and read the length behind it."""
        names, codes = [], []
        for name, code in run.parts if run is not None else ():
            wanted = name in self.captured if depth == 1 else name == TOPIC_ID
            codes.append(code if wanted else f"{struct.calcsize('>' + code)}x")
            names += [name] if wanted else []
        if length_code:
            names.append("n")
            codes.append(length_code)
        size = struct.calcsize(">" + "".join(codes))
        if names:
            reader = f"U{len(self.constants)}"
            self.constants[reader] = struct.Struct(">" + "".join(codes)).unpack_from
            self.add(depth, f"{', '.join(names)}, = {reader}(frame, at)")
        self.add(depth, f"at += {size}")
        if TOPIC_ID in names:
            self.add(depth, f"names.append({TOPIC_ID})")

    def compact_length(self, depth: int) -> None:
        """Read a compact length, which begins at `begun`."""
        self.add(depth, "begun = at; n = frame[at] - 1; at += 1")
        self.add(depth, "if n > 126:")
        self.add(depth + 1, "more = frame[at]; at += 1; n += (more << 7) - 128")
        self.add(depth + 1, "if more > 127: n, at = uvarint(frame, begun); n -= 1")

    def tags(self, depth: int, step: Tags) -> None:
        if step.removed or step.refused:
            self.add(depth, "if frame[at]:")
            self.add(depth + 1, f"end, kept, count = kept_tags(frame, at, {self.constant(step)})")
            self.add(
                depth + 1, "if len(kept) != end - at: out.append(frame[cut:at]); out.append(kept); cut = end"
            )
            self.add(depth + 1, "grown += len(kept) - (end - at); at = end")
        else:
            self.add(depth, "if frame[at]:")
            self.add(depth + 1, "at, count = skip_tags(frame, at)")
        if self.entries_max is not None:
            self.add(depth + 1, "seen += count")
            self.check_entries(depth + 1)
        self.add(depth, "else: at += 1")

    def constant(self, value: object) -> str:
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def steps(self, depth: int, layout: Layout) -> None:
        run: Fixed | None = None
        for step in layout:
            if isinstance(step, Fixed):
                run = step
                continue
            if isinstance(step, Tags) or step.compact:
                if run is not None:
                    self.read(depth, run)
                if isinstance(step, Tags):
                    self.tags(depth, step)
                else:
                    self.compact_length(depth)
                    self.variable(depth, step)
            else:
                self.read(depth, run, "h" if isinstance(step, Text) else "i")
                self.variable(depth, step)
            run = None
        if run is not None:
            self.read(depth, run)

    def variable(self, depth: int, step: Text | Blob | Array) -> None:
        lowest = -1 if step.nullable else 0
        self.add(depth, f"if n < {lowest}: raise MalformedFrame(f'a length of {{n}}')")
        if isinstance(step, Array):
            self.array(depth, step)
        elif isinstance(step, Text) and step.what in NAMES:
            self.add(depth, "if n >= 0:")
            self.name(depth + 1, step)
        elif isinstance(step, Text) and step.what is FieldClass.ERROR_TEXT and self.strip:
            self.add(depth, "if n > 0:")
            self.text(depth + 1, step)
        else:
            self.add(depth, "if n > 0: at += n")

    def array(self, depth: int, step: Array) -> None:
        counted = "" if self.entries_max is None else "; seen += n"
        if step.element_size is not None:
            self.add(depth, f"if n > 0: at += n * {step.element_size}{counted}")
            return
        self.loops += 1
        is_named = any(isinstance(inner, Text) and inner.what in NAMES for inner in step.element)
        if is_named or is_of_topic(step.element):
            self.add(depth, f"if n > {NAMED_ENTRIES_MAX}: raise MalformedFrame(f'{{n}} names in one list')")
        if counted:
            self.add(depth, "if n > 0: seen += n")
            self.check_entries(depth)
        self.add(depth, f"for i{self.loops} in range(n):")
        self.steps(depth + 1, step.element)

    def check_entries(self, depth: int) -> None:
        self.add(depth, f"if seen > {self.entries_max}: raise TooManyEntries(f'{{seen}} list entries')")

    def name(self, depth: int, step: Text) -> None:
        what = step.what
        if self.strip:
            self.add(depth, f"if n < {SCOPE_BYTES} or frame[at : at + {SCOPE_BYTES}] != prefix:")
            self.add(depth + 1, "raise ForeignName('a name of another instance in a response')")
            if step.compact:
                packed = f"W(n - {SCOPE_BYTES - 1}, at - begun)"
                self.add(depth, f"out.append(frame[cut:begun]); out.append({packed})")
            else:
                self.add(depth, f"out.append(frame[cut : at - 2]); out.append(L(n - {SCOPE_BYTES}))")
            self.add(depth, f"cut = at + {SCOPE_BYTES}; at += n; grown -= {SCOPE_BYTES}")
            return
        if what in _NEVER_EMPTY:
            self.add(depth, f"if n == 0: raise EmptyName({_NEVER_EMPTY[what]!r})")
        self.add(depth, f"if n > {STRING_BYTES_MAX - SCOPE_BYTES}:")
        self.add(depth + 1, "raise NameTooLong(f'a name of {n} bytes')")
        if step.compact:
            self.add(depth, "out.append(frame[cut:begun])")
            self.add(depth, f"out.append(W(n + {SCOPE_BYTES + 1}, at - begun + 1) + prefix)")
            self.add(depth, f"cut = at; at += n; grown += {COMPACT_GROWTH}")
        else:
            self.add(depth, f"out.append(frame[cut : at - 2]); out.append(L(n + {SCOPE_BYTES}) + prefix)")
            self.add(depth, f"cut = at; at += n; grown += {SCOPE_BYTES}")
        if what is FieldClass.TOPIC_NAME:
            self.add(depth, "names.append(bytes(frame[cut:at]))")

    def text(self, depth: int, step: Text) -> None:
        self.add(depth, "mapped = edited_text(frame[at : at + n], scope)")
        self.add(depth, "if mapped is not None:")
        if step.compact:
            self.add(depth + 1, "put = V(len(mapped) + 1); out.append(frame[cut:begun])")
            self.add(depth + 1, "out.append(put + mapped); grown += len(put) - (at - begun)")
        else:
            self.add(depth + 1, "out.append(frame[cut : at - 2]); out.append(L(len(mapped)) + mapped)")
        self.add(depth + 1, "cut = at + n; grown += len(mapped) - n")
        self.add(depth, "at += n")


@lru_cache(maxsize=256)
def _compiled(
    layout: Layout, captured: tuple[tuple[str, int], ...], strip: bool, entries_max: int | None
) -> Scan:
    source = _Source(dict(captured), strip=strip, entries_max=entries_max)
    source.add(0, "def scan(frame, at, scope):")
    source.add(1, "prefix = scope.prefix_bytes; out = []; names = []; cut = 4; grown = seen = 0")
    for name, absent in captured:
        source.add(1, f"{name} = {absent}")
    source.steps(1, layout)
    source.add(1, "if at != len(frame): raise MalformedFrame(f'the body ends at {at} of {len(frame)} bytes')")
    if entries_max is not None:
        source.check_entries(1)
    source.add(1, "out.append(frame[cut:])")
    source.add(1, f"return ({', '.join(('out', 'grown', 'names', *dict(captured)))})")
    exec(compile("\n".join(source.lines), "<frame scanner>", "exec"), source.constants)
    scan: Scan = source.constants["scan"]
    return scan


def compile_scan(
    layout: Layout, captured: Mapping[str, int], *, strip: bool, entries_max: int | None = None
) -> Scan:
    """A scanner for one layout. `captured`: top-level fields to read -> their value where there is none.
    `entries_max` bounds the entries of all lists together.

    The scanner raises struct.error and IndexError, too, for a frame that ends early.
    """
    return _compiled(layout, tuple(captured.items()), strip, entries_max)


def client_id_field(client_id: str) -> bytes:
    """A client id as a request's header has it."""
    encoded = client_id.encode()
    return _PACK_I16(len(encoded)) + encoded


def with_client_id(
    frame: memoryview, client_id_end: int, pieces: list[Buffer], grown: int, field: bytes
) -> tuple[list[Buffer], int]:
    """Pieces and growth of a scanned request whose client id is replaced by `field`."""
    first = b"".join((frame[4:CLIENT_ID_AT], field, pieces[0][client_id_end - 4 :]))
    return [first, *(pieces[1:] or [b""])], grown + len(field) - (client_id_end - CLIENT_ID_AT)


def assembled(frame: memoryview, pieces: list[Buffer], grown: int) -> list[Buffer]:
    """The buffers to send for a scanned frame: new length prefix and pieces, joined where that is cheaper."""
    size = len(frame)
    if len(pieces) == 1:
        return [frame]
    head = _PACK_I32(size - 4 + grown)
    if size <= JOINED_BYTES_MAX or len(pieces) >= BUFFERS_MAX:
        return [b"".join((head, *pieces))]
    if len(pieces) == 3:
        return [b"".join((head, pieces[0], pieces[1])), pieces[2]]
    return [head, *pieces]
