"""Streaming frame edits: a frame that does not fit the receive buffer is edited piece by piece.

The new length prefix leaves first. It is known as soon as the number of topics is: every topic grows or
shrinks the frame by 13 bytes, a transactional id by 13 more; in flexible versions it grows by 14, as a length
gets one byte wider whether it has to or not. Memory stays constant: what is kept between two pieces is the
state and at most one unfinished name, record bytes are never looked at. Topics that are named by ids grow by
nothing; each id is looked up before anything of its topic leaves.
"""

import struct
from collections.abc import Container
from functools import lru_cache
from typing import Final, NamedTuple

from wire.api_table import ApiKey
from wire.classify import FieldClass
from wire.codec import payload_class
from wire.edit_compile import CLIENT_ID_AT, NAMED_ENTRIES_MAX, NAMES
from wire.faults import EmptyName, ForeignName, MalformedFrame, NameTooLong, TooManyEntries
from wire.framing import Buffer
from wire.hot.fetch import FLEXIBLE_FROM as FETCH_FLEXIBLE_FROM
from wire.hot.produce import FLEXIBLE_FROM as PRODUCE_FLEXIBLE_FROM
from wire.layout import (
    TOPIC_ID_BYTES,
    Array,
    Blob,
    Fixed,
    Step,
    Tags,
    Text,
    is_of_topic,
    layout_of,
    least_size,
)
from wire.request_bounds import bound_of
from wire.scope import COMPACT_GROWTH, SCOPE_BYTES, STRING_BYTES_MAX, Scope
from wire.tags import TAGGED_FIELDS_MAX
from wire.uvarint import pack_uvarint, padded_uvarint

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">ihhih").unpack_from
_RESPONSE_HEAD: Final = struct.Struct(">ii").unpack_from

JOIN_BYTES: Final = 128 * 1024
"""More than the longest head: a client id, a transactional id and the fields between them."""

NO_BOUND: Final = 1 << 62
TOPICS_SEEN_MAX: Final = 1000
_SHORT_BYTES: Final = 512
_BLANK_TAG: Final = 127
"""Of a tagged field that is blanked where its length has left: no message has it, so readers skip it."""


class _CutShort(struct.error):
    """A varint, or a section of tagged fields, has not arrived in full."""


def _uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint and the offset behind it. Raises: _CutShort, MalformedFrame."""
    try:
        value = view[at]
        if value < 0x80:
            return value, at + 1
        value &= 0x7F
        for shift in range(7, 35, 7):
            at += 1
            byte = view[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at + 1
    except IndexError:
        raise _CutShort from None
    raise MalformedFrame("a varint is longer than 5 bytes")


class _Op(NamedTuple):
    """One step of the body, flattened. `size`: of an entry; `jump`: behind a loop or to its start; `blanked`:
    tagged fields that do not pass."""

    code: str
    nullable: bool = False
    size: int = 0
    jump: int = 0
    blanked: frozenset[int] = frozenset()


class _Facts(NamedTuple):
    """A run of numbers in the head."""

    names: tuple[str, ...]
    reader: struct.Struct


class _Program(NamedTuple):
    head: tuple[_Facts | Text, ...]
    """The top-level fields before the topics."""
    ops: tuple[_Op, ...]
    """The topics and what follows them. The first one is their array."""
    is_by_id: bool
    """Whether topics are named by ids."""


def _flattened(steps: tuple[Step, ...], ops: list[_Op]) -> None:
    for step in steps:
        if isinstance(step, Fixed):
            ops.append(_Op("skip", size=step.size))
        elif isinstance(step, Tags):
            ops.append(_Op("tags", blanked=step.removed))
        elif isinstance(step, Blob):
            ops.append(_Op("blob", step.nullable))
        elif isinstance(step, Text):
            assert step.what not in NAMES or not step.nullable
            ops.append(_Op("name" if step.what in NAMES else "text", step.nullable))
        elif step.element_size is not None:
            ops.append(_Op("run", step.nullable, step.element_size))
        else:
            start = len(ops)
            ops.append(_Op("array"))
            if is_of_topic(step.element):
                assert least_size(step.element[:1]) == TOPIC_ID_BYTES
                ops.append(_Op("id"))
                _flattened(step.element[1:], ops)
            else:
                _flattened(step.element, ops)
            ops.append(_Op("next", jump=start + 1))
            ops[start] = _Op("array", step.nullable, least_size(step.element), len(ops))


@lru_cache(maxsize=32)
def _program(api_key: int, version: int, response: bool) -> _Program:
    layout = layout_of(payload_class(api_key, version, response=response))
    first_array = next(at for at, step in enumerate(layout) if isinstance(step, Array))
    ops: list[_Op] = []
    _flattened(layout[first_array:], ops)
    head = tuple(map(_head_step, layout[:first_array]))
    return _Program(head, tuple(ops), any(op.code == "id" for op in ops))


def _head_step(step: Step) -> _Facts | Text:
    if isinstance(step, Fixed):
        names, codes = zip(*step.parts, strict=True)
        return _Facts(names, struct.Struct(">" + "".join(codes)))
    assert isinstance(step, Text) and step.what is FieldClass.TRANSACTIONAL_ID
    return step


class AddedTopics(NamedTuple):
    """Topics that a gateway answers for itself, behind those of a reply that is edited."""

    entries: int
    encoded: bytes
    """The entries, as the version of the reply has them."""


class FrameEditor:
    """Edits one frame that arrives in pieces. Feed it from the length prefix on; make a new one per frame."""

    def __init__(
        self,
        program: _Program,
        scope: Scope,
        *,
        response: bool,
        added: AddedTopics | None = None,
        entries_max: int = NO_BOUND,
        client_id: bytes | None = None,
        topic_ids: Container[bytes] = (),
    ) -> None:
        self._head = program.head
        self._ops = program.ops
        self._is_by_id = program.is_by_id
        self._topic_ids = topic_ids
        self._scope = scope
        self._response = response
        self._added = added
        self._client_id = client_id
        self._end = -1
        """Where the frame ends, counted from its length prefix; -1 until that has arrived."""
        self._position = 0
        self._carry = b""
        self._skip = 0
        self._at_op = 0
        self._left: list[int] = []
        self._entries_left = entries_max
        self._cut = 0
        self.head_done = False
        """The length prefix has left, and the facts below hold."""
        self.done = False
        """The frame ended where its length said; nothing more may be fed."""
        self.correlation_id = 0
        self.grown = 0
        """By how much the frame becomes longer, once the head is done."""
        self.facts: dict[str, int] = {}
        """Numbers in front of the topics: acks, timeout; throttle_time, error_code, session_id."""
        self.topics: list[bytes] = []
        """The tenant's names of a request's topics met so far, at most `TOPICS_SEEN_MAX`."""

    @property
    def opaque_bytes(self) -> int:
        """How many of the next bytes need no look: the rest of a batch but its last, which `feed` wants."""
        return self._skip - 1 if self._skip > 1 else 0

    @property
    def frame_bytes(self) -> int:
        """The length of the frame as it comes, its prefix included, once that is here."""
        return self._end

    def pass_opaque(self, size: int) -> None:
        """The next `size` bytes were sent as they are, perhaps without ever being in this process."""
        assert 0 < size <= self.opaque_bytes
        self._skip -= size
        self._position += size

    def feed(self, chunk: memoryview) -> tuple[list[Buffer], int]:
        """What can be sent now, and how much of `chunk` belonged to this frame (all of it until `done`).

        The buffers may be slices of `chunk`: send or copy them before the receive buffer is reused.
        Raises: MalformedFrame, NameTooLong, EmptyName. Nothing more may be sent then.
        """
        assert not self.done
        out: list[Buffer] = []
        at = 0
        while not self.done and at < len(chunk):
            held = len(self._carry)
            end = min(at + JOIN_BYTES, len(chunk)) if held else len(chunk)
            view = memoryview(self._carry + bytes(chunk[at:end])) if held else chunk[at:]
            used = self._run(view, out)
            if not self.done and (end == len(chunk) or used < held):
                # An unfinished field waits for the next piece; nothing legal is longer than JOIN_BYTES.
                self._carry = bytes(view[used:])
                at = end
                if len(self._carry) > JOIN_BYTES:
                    raise MalformedFrame("the head of the frame is longer than any legal one")
            else:
                self._carry = b""
                at += used - held
        return _compact(out), at

    def _run(self, view: memoryview, out: list[Buffer]) -> int:
        """Go as far as `view` reaches and answer how much of it is dealt with."""
        if self._end < 0:
            if len(view) < 4:
                return 0
            self._end = _I32.unpack_from(view)[0] + 4
        view = view[: self._end - self._position]
        if self.head_done:
            return self._run_body(view, 0, 0, out)
        pieces: list[Buffer] = []
        try:
            topics, at, behind, cut, grown = self._read_head(view, pieces)
        except struct.error as error:
            if len(view) == self._end:
                raise MalformedFrame("the frame ends within its head") from error
            return 0
        if not 0 <= topics <= NAMED_ENTRIES_MAX or not 0 <= self._end - 4 + grown < 1 << 31:
            raise MalformedFrame(f"{topics} topics in a frame of {self._end - 4} bytes")
        if self._added is not None:
            count = self._packed_count(topics + self._added.entries)
            pieces += (view[cut:at], count)
            cut, grown = behind, grown + len(self._added.encoded) + len(count) - (behind - at)
        self.grown = grown
        out.append(_I32.pack(self._end - 4 + grown))
        out += pieces
        self.head_done = True
        return self._run_body(view, at, cut, out)

    def _read_head(self, view: memoryview, pieces: list[Buffer]) -> tuple[int, int, int, int, int]:
        """(topics, where their count stands, where they begin, up to where all is emitted, growth). Raises
        struct.error when cut short."""
        if self._response:
            _, self.correlation_id = _RESPONSE_HEAD(view)
            at = 8
        else:
            _, _, _, self.correlation_id, client_id_bytes = _REQUEST_HEAD(view)
            if client_id_bytes < -1:
                raise MalformedFrame("negative client id length")
            at = 14 + max(client_id_bytes, 0)
        cut, grown = 4, 0
        if self._client_id is not None:
            pieces += (view[4:CLIENT_ID_AT], self._client_id)
            cut, grown = at, len(self._client_id) - (at - CLIENT_ID_AT)
        for step in self._head:
            if isinstance(step, _Facts):
                self.facts.update(zip(step.names, step.reader.unpack_from(view, at), strict=True))
                at += step.reader.size
                continue
            (size,) = _I16.unpack_from(view, at)
            if size >= 0:
                if size == 0:
                    raise EmptyName("transactional_id")
                pieces += (view[cut:at], self._grown_length(size))
                cut, grown = at + 2, grown + SCOPE_BYTES
            elif size < -1:
                raise MalformedFrame(f"a length of {size}")
            at += 2 + max(size, 0)
        (topics,) = _I32.unpack_from(view, at)
        grown += topics * (-SCOPE_BYTES if self._response else SCOPE_BYTES)
        return topics, at, at + 4, cut, grown

    def _packed_count(self, count: int) -> bytes:
        return _I32.pack(count)

    def _grown_length(self, size: int) -> bytes:
        if size > STRING_BYTES_MAX - SCOPE_BYTES:
            raise NameTooLong(f"a name of {size} bytes")
        return _I16.pack(size + SCOPE_BYTES) + self._scope.prefix_bytes

    def _run_body(self, view: memoryview, at: int, cut: int, out: list[Buffer]) -> int:
        self._cut = cut
        end = len(view)
        while True:
            if self._skip:
                jump = min(self._skip, end - at)
                at += jump
                self._skip -= jump
                if self._skip:
                    break
            if self._at_op == len(self._ops):
                self.done = True
                break
            reached = self._step(view, at, out)
            if reached < 0:
                break
            at = reached
        if at > self._cut:
            out.append(view[self._cut : at])
        if self.done and self._added is not None:
            out.append(self._added.encoded)
        self._position += at
        if self.done != (self._position == self._end) or (not self.done and self._at_frame_end(end - at)):
            raise MalformedFrame(f"the body ends at {self._position} of {self._end} bytes")
        return at

    def _at_frame_end(self, unread: int) -> bool:
        """Whether the frame is here to its last byte, so that a field which wants more is cut short."""
        return self._position + unread == self._end

    def _step(self, view: memoryview, at: int, out: list[Buffer]) -> int:
        """Begin one field; answers the offset behind what was read, or -1 when it has not arrived in full."""
        op = self._ops[self._at_op]
        if op.code == "skip":
            return self._jump(at, 0, op.size)
        if op.code == "next":
            self._left[-1] -= 1
            if self._left[-1] > 0:
                self._at_op = op.jump
            else:
                self._left.pop()
                self._at_op += 1
            return at
        length = _I16 if op.code in ("name", "text") else _I32
        if len(view) - at < length.size:
            return -1
        (size,) = length.unpack_from(view, at)
        if size < (-1 if op.nullable else 0):
            raise MalformedFrame(f"a length of {size}")
        if op.code == "name":
            return self._name(view, at, size, out)
        if op.code == "array":
            return self._array(at + 4, max(size, 0), op)
        return self._jump(at, length.size, max(size, 0) * (op.size if op.code == "run" else 1))

    def _jump(self, at: int, read: int, skip: int) -> int:
        """The field is `read` bytes here and `skip` bytes that need no look."""
        self._check_room(at + read, skip)
        self._skip = skip
        self._at_op += 1
        return at + read

    def _check_room(self, at: int, wanted: int) -> None:
        if self._position + at + wanted > self._end:
            raise MalformedFrame(
                f"{wanted} bytes wanted where the frame has {self._end - self._position - at}"
            )

    def _array(self, at: int, count: int, op: _Op) -> int:
        self._check_room(at, count * op.size)
        self._entries_left -= count
        if self._entries_left < 0:
            raise TooManyEntries("more list entries than one request of this API may have")
        if count:
            self._left.append(count)
            self._at_op += 1
        else:
            self._at_op = op.jump
        return at

    def _name(self, view: memoryview, at: int, size: int, out: list[Buffer]) -> int:
        self._check_room(at + 2, size)
        if not self._response:
            if len(view) - at < 2 + size:
                return -1
            out += (view[self._cut : at], self._grown_length(size))
            self._cut = at + 2
            if len(self.topics) < TOPICS_SEEN_MAX:
                self.topics.append(bytes(view[at + 2 : at + 2 + size]))
            return self._jump(at, 2, size)
        if size < SCOPE_BYTES:
            raise ForeignName("a name of another instance in a response")
        if len(view) - at < 2 + SCOPE_BYTES:
            return -1
        if view[at + 2 : at + 2 + SCOPE_BYTES] != self._scope.prefix_bytes:
            raise ForeignName("a name of another instance in a response")
        out += (view[self._cut : at], _I16.pack(size - SCOPE_BYTES))
        self._cut = at + 2 + SCOPE_BYTES
        return self._jump(at, 2 + SCOPE_BYTES, size - SCOPE_BYTES)


class CompactFrameEditor(FrameEditor):
    """The same of a flexible version: compact lengths and counts, tagged fields behind every part."""

    _tags_left = -1
    """Of the section of tagged fields that is read; -1: its count is not."""
    _header_tags_left = -1
    """The same of the header's section."""
    _header_at = 0
    """Behind what is read of that: a head that drips in is not read anew for every piece."""

    def _read_head(self, view: memoryview, pieces: list[Buffer]) -> tuple[int, int, int, int, int]:
        if self._response:
            _, self.correlation_id = _RESPONSE_HEAD(view)
            client_id_end = 8
        else:
            _, _, _, self.correlation_id, client_id_bytes = _REQUEST_HEAD(view)
            if client_id_bytes < -1:
                raise MalformedFrame("negative client id length")
            client_id_end = 14 + max(client_id_bytes, 0)
        at = self._behind_header_tags(view, client_id_end)
        cut, grown = 4, 0
        if self._client_id is not None:
            pieces += (view[4:CLIENT_ID_AT], self._client_id)
            cut, grown = client_id_end, len(self._client_id) - (client_id_end - CLIENT_ID_AT)
        for step in self._head:
            if isinstance(step, _Facts):
                self.facts.update(zip(step.names, step.reader.unpack_from(view, at), strict=True))
                at += step.reader.size
                continue
            coded, behind = _uvarint(view, at)
            if coded == 1:
                raise EmptyName("transactional_id")
            if coded:
                pieces += (view[cut:at], self._widened_length(coded - 1, behind - at))
                cut, grown = behind, grown + COMPACT_GROWTH
            at = behind + max(coded - 1, 0)
        coded, behind = _uvarint(view, at)
        topics = coded - 1
        if not self._is_by_id:
            grown += topics * (-SCOPE_BYTES if self._response else COMPACT_GROWTH)
        return topics, at, behind, cut, grown

    def _behind_header_tags(self, view: memoryview, at: int) -> int:
        """The offset behind the header's tagged fields. Raises: _CutShort, MalformedFrame."""
        if self._header_tags_left < 0:
            count, self._header_at = _uvarint(view, at)
            if count > TAGGED_FIELDS_MAX:
                raise MalformedFrame(f"{count} tagged fields in a header")
            self._header_tags_left = count
        while self._header_tags_left:
            _, at = _uvarint(view, self._header_at)
            size, at = _uvarint(view, at)
            if at + size > len(view):
                raise _CutShort
            self._header_at = at + size
            self._header_tags_left -= 1
        return self._header_at

    def _packed_count(self, count: int) -> bytes:
        return pack_uvarint(count + 1)

    def _widened_length(self, size: int, width: int) -> bytes:
        if size > STRING_BYTES_MAX - SCOPE_BYTES:
            raise NameTooLong(f"a name of {size} bytes")
        return padded_uvarint(size + SCOPE_BYTES + 1, width + 1) + self._scope.prefix_bytes

    def _step(self, view: memoryview, at: int, out: list[Buffer]) -> int:
        op = self._ops[self._at_op]
        if op.code in ("skip", "next"):
            return super()._step(view, at, out)
        if op.code == "id":
            return self._topic_id(view, at)
        try:
            if op.code == "tags":
                return self._tags(view, at, out)
            coded, behind = _uvarint(view, at)
        except _CutShort:
            return -1
        if not coded and not op.nullable:
            raise MalformedFrame("a length of -1")
        size = max(coded - 1, 0)
        if op.code == "name":
            return self._compact_name(view, at, behind - at, size, out)
        if op.code == "array":
            return self._array(behind, size, op)
        return self._jump(at, behind - at, size * (op.size if op.code == "run" else 1))

    def _tags(self, view: memoryview, at: int, out: list[Buffer]) -> int:
        """One step of a section of tagged fields: its count, or the head of one of them."""
        if self._tags_left < 0:
            if self._added is not None and self._at_op == len(self._ops) - 1:
                out += (view[self._cut : at], self._added.encoded)
                self._cut, self._added = at, None
            self._tags_left, at = _uvarint(view, at)
            if self._tags_left > TAGGED_FIELDS_MAX:
                raise MalformedFrame(f"{self._tags_left} tagged fields")
            self._check_room(at, 2 * self._tags_left)
            self._entries_left -= self._tags_left
            if self._entries_left < 0:
                raise TooManyEntries("more tagged fields than one request of this API may have")
        elif self._tags_left:
            tag, behind_tag = _uvarint(view, at)
            size, behind = _uvarint(view, behind_tag)
            self._check_room(behind, size)
            if tag in self._ops[self._at_op].blanked:
                if behind + size > len(view):
                    raise _CutShort
                out += (view[self._cut : at], padded_uvarint(_BLANK_TAG, behind_tag - at))
                out += (view[behind_tag:behind], bytes(size))
                self._cut = behind = behind + size
                size = 0
            self._tags_left -= 1
            self._skip, at = size, behind
        if not self._tags_left:
            self._tags_left = -1
            self._at_op += 1
        return at

    def _topic_id(self, view: memoryview, at: int) -> int:
        self._check_room(at, TOPIC_ID_BYTES)
        if len(view) - at < TOPIC_ID_BYTES:
            return -1
        if bytes(view[at : at + TOPIC_ID_BYTES]) not in self._topic_ids:
            raise ForeignName("a topic id of another instance in a frame")
        return self._jump(at, TOPIC_ID_BYTES, 0)

    def _compact_name(self, view: memoryview, at: int, width: int, size: int, out: list[Buffer]) -> int:
        self._check_room(at + width, size)
        name_at = at + width
        if not self._response:
            if len(view) - name_at < size:
                return -1
            out += (view[self._cut : at], self._widened_length(size, width))
            self._cut = name_at
            if len(self.topics) < TOPICS_SEEN_MAX:
                self.topics.append(bytes(view[name_at : name_at + size]))
            return self._jump(at, width, size)
        if size < SCOPE_BYTES:
            raise ForeignName("a name of another instance in a response")
        if len(view) - name_at < SCOPE_BYTES:
            return -1
        if view[name_at : name_at + SCOPE_BYTES] != self._scope.prefix_bytes:
            raise ForeignName("a name of another instance in a response")
        left = size - SCOPE_BYTES
        out += (view[self._cut : at], padded_uvarint(left + 1, width))
        self._cut = name_at + SCOPE_BYTES
        return self._jump(at, width + SCOPE_BYTES, left)


def _compact(out: list[Buffer]) -> list[Buffer]:
    """Join neighbouring short buffers, so that a frame with one topic is two of them."""
    compact: list[Buffer] = []
    short: list[Buffer] = []
    for buffer in out:
        if len(buffer) <= _SHORT_BYTES:
            short.append(buffer)
            continue
        if short:
            compact.append(b"".join(short))
            short = []
        compact.append(buffer)
    if short:
        compact.append(b"".join(short))
    return compact


def produce_request_editor(
    version: int, scope: Scope, client_id: bytes | None = None, topic_ids: Container[bytes] = ()
) -> FrameEditor:
    """An editor of one Produce request, version 0-13. `client_id`, a field of the header, replaces the
    client's; `topic_ids` are those that it may be for."""
    editor = CompactFrameEditor if version >= PRODUCE_FLEXIBLE_FROM else FrameEditor
    return editor(
        _program(ApiKey.PRODUCE, version, False),
        scope,
        response=False,
        entries_max=bound_of(ApiKey.PRODUCE).entries_max,
        client_id=client_id,
        topic_ids=topic_ids,
    )


def fetch_response_editor(
    version: int, scope: Scope, added: AddedTopics | None = None, topic_ids: Container[bytes] = ()
) -> FrameEditor:
    """An editor of one Fetch response, version 0-18. `added` comes behind its last topic; `topic_ids` are
    those that it may tell of."""
    editor = CompactFrameEditor if version >= FETCH_FLEXIBLE_FROM else FrameEditor
    program = _program(ApiKey.FETCH, version, True)
    return editor(program, scope, response=True, added=added, topic_ids=topic_ids)
