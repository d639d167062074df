"""From a client's bytes to requests: frames are cut, hot ones edited in place, the others collected whole."""

import struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from gateway.apis import APIS, LEGACY, SERVED, Mode, Row
from gateway.causes import DisconnectCause
from gateway.injection import ConnectionFaults, holds_back
from gateway.mapped import decoding_work, take_request
from gateway.ordering import Exchange
from gateway.stops import ConnectionStop
from runtime.durations import observe
from wire.api_table import ApiKey
from wire.edits import FrameEditor, edit_produce_request, produce_request_editor
from wire.faults import NameFault
from wire.framing import Buffer

if TYPE_CHECKING:
    from gateway.connection import Connection
    from gateway.tracing import RequestTrace

_HEAD: Final = struct.Struct(">ihhi")
"""Length prefix, api key, api version, correlation id."""
_I32: Final = struct.Struct(">i")
_HEAD_BYTES: Final = _HEAD.size
_SIZE_MIN: Final = 10
"""Header v1 with a null client id."""
WORK_AT_ONCE: Final = 128
"""Of one connection's requests before others get their turn: one each, and more for those that are decoded.
A megabyte of tiny requests takes a second."""

_PRODUCE: Final = int(ApiKey.PRODUCE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


class RequestFlow:
    """The request half of one connection."""

    __slots__ = (
        "_api_version",
        "_collected",
        "_conn",
        "_missing",
        "decoding_work",
        "editor",
        "faults",
        "frame_bytes",
        "frames",
        "sent_unanswered",
        "stash",
        "trace",
    )

    def __init__(self, conn: "Connection") -> None:
        self._conn = conn
        self.editor: FrameEditor | None = None
        """Of the frame that is streamed; to be asked, not changed."""
        self._collected: bytearray | None = None
        self._missing = 0
        """Bytes of the current frame that have not arrived, while it is streamed or collected."""
        self.frame_bytes = 0
        """Of the frame that is streamed or collected, its length prefix included."""
        self._api_version = 0
        self.frames = 0
        """Requests begun."""
        self.decoding_work = 0
        """Counts what requests have cost beyond one each."""
        self.sent_unanswered = False
        """Whether acks=0 data went up: nothing ever says that it has arrived."""
        self.faults: ConnectionFaults | None = None
        """What injected faults have left behind here."""
        self.stash: bytes = b""
        """Bytes that are less than a frame's head, put in front of the next read."""
        self.trace: RequestTrace | None = None
        """Of the frame that is taken, where it is one of the sampled."""

    @property
    def in_frame(self) -> bool:
        """Whether the client owes us the rest of a frame."""
        return self._missing > 0 or bool(self.stash)

    @property
    def is_held_back(self) -> bool:
        """Whether an injected fault keeps the next request waiting."""
        return self.faults is not None and self.faults.holds_back

    def feed(self, chunk: memoryview, out: list[Buffer]) -> int:
        """Handle a chunk as far as may be now; `out` gets what goes up, slices of the chunk among it.

        The answer is where to go on later: behind a request that waits, or that filled the reply queue, the
        client's socket or this connection's turn.
        Raises: ConnectionStop, MalformedFrame, NameFault.
        """
        at, end = 0, len(chunk)
        conn = self._conn
        last_work = self.frames + self.decoding_work + WORK_AT_ONCE
        while at < end:
            if self._missing:
                take = min(self._missing, end - at)
                at = self._continue(chunk, at, at + take, out)
            elif end - at < _HEAD_BYTES:
                if end - at >= _I32.size:
                    self._check_size(_I32.unpack_from(chunk, at)[0])
                self.stash = bytes(chunk[at:])
                return end
            else:
                at = self._begin(chunk, at, out)
            if at < end and (
                conn.task is not None
                or conn.closed
                or self.frames + self.decoding_work >= last_work
                or conn.is_congested()
            ):
                break
        return at

    def _check_size(self, size: int) -> None:
        """Refuse a frame by its length alone: behind an empty one nothing more may ever come."""
        if size < _SIZE_MIN:
            raise ConnectionStop(DisconnectCause.BAD_FRAME_LENGTH, f"a frame of {size} bytes")
        if size > self._conn.served.request_bytes_max:
            raise ConnectionStop(DisconnectCause.REQUEST_TOO_LARGE, f"a frame of {size} bytes")

    def _begin(self, chunk: memoryview, at: int, out: list[Buffer]) -> int:
        """Start a frame at `at`; the answer is where to go on."""
        size, api_key, api_version, _ = _HEAD.unpack_from(chunk, at)
        conn = self._conn
        if not _SIZE_MIN <= size <= conn.served.request_bytes_max:
            self._check_size(size)
        if conn.served.faults is not None and holds_back(conn, api_key, len(chunk) - at):
            return at
        row = SERVED.get((api_key, api_version)) or self._row_of_others(api_key, api_version)
        self.frames += 1
        conn.served.requests[api_key] += 1
        if conn.waiting_since_ns:
            observe(conn.worker.queue_times[api_key], monotonic_ns() - conn.waiting_since_ns)
            conn.waiting_since_ns = 0
        if conn.worker.traces is not None:
            self.trace = conn.worker.traces.begin(conn, chunk[at : at + 4 + size])
        behind: int = at + 4 + size
        if behind <= len(chunk):
            self._whole(row, chunk[at:behind], out)
            return behind
        if api_key == _PRODUCE and conn.served.passes_produce:
            self.editor = produce_request_editor(api_version, conn.served.scope)
            self._api_version = api_version
            if self.trace is not None:
                self.trace.forwarded(out)
        else:
            _check_frame_bytes(row, size)
            self._collected = bytearray()
        self._missing = self.frame_bytes = 4 + size
        return at

    def _continue(self, chunk: memoryview, at: int, behind: int, out: list[Buffer]) -> int:
        """Take bytes `at:behind` of the current frame."""
        self._missing -= behind - at
        editor = self.editor
        if editor is not None:
            self._stream(editor, chunk[at:behind], out)
            return behind
        collected = self._collected
        assert collected is not None
        self._conn.served.collect(behind - at)
        collected += chunk[at:behind]
        if not self._missing:
            self._collected = None
            self._conn.served.release(len(collected))
            row = APIS[_HEAD.unpack_from(collected)[1]]
            self._whole(row, memoryview(collected), out)
        return behind

    def opaque_bytes(self) -> int:
        """How many of the next bytes go up as they are, whatever they are."""
        return 0 if self.editor is None else self.editor.opaque_bytes

    def pass_opaque(self, size: int) -> None:
        """So many of them were spliced."""
        assert self.editor is not None
        self.editor.pass_opaque(size)
        self._missing -= size

    def _stream(self, editor: FrameEditor, piece: memoryview, out: list[Buffer]) -> None:
        if len(piece) <= editor.opaque_bytes:
            editor.pass_opaque(len(piece))
            out.append(piece)
            return
        buffers, used = editor.feed(piece)
        assert used == len(piece) and editor.done == (self._missing == 0)
        out += buffers
        if editor.done:
            self.editor = None
            if editor.facts["acks"]:
                self._conn.queue.forwarded(
                    Exchange(_PRODUCE, self._api_version, editor.correlation_id, monotonic_ns(), self.trace)
                )
            else:
                self._sent_unanswered()

    def _whole(self, row: Row, frame: memoryview, out: list[Buffer]) -> None:
        """Handle one complete frame, length prefix included."""
        conn = self._conn
        if row.mode is Mode.PRODUCE and conn.served.passes_produce:
            try:
                edit = edit_produce_request(frame, conn.served.scope)
            except NameFault:
                pass  # answered in its own form by the handler
            else:
                if self.trace is not None:
                    self.trace.forwarded(out)
                if edit.acks:
                    _, _, api_version, _ = _HEAD.unpack_from(frame)
                    conn.queue.forwarded(
                        Exchange(_PRODUCE, api_version, edit.correlation_id, monotonic_ns(), self.trace)
                    )
                else:
                    self._sent_unanswered()
                out += edit.buffers
                return
        _check_frame_bytes(row, len(frame) - 4)
        self.decoding_work += decoding_work(len(frame))
        work = take_request(conn, row, frame, out)
        if conn.worker.pacing.is_over(conn.turn):
            self.decoding_work += WORK_AT_ONCE  # others have their turn now
        if work is not None:
            conn.wait_for(work)

    def _sent_unanswered(self) -> None:
        """A Produce request with acks=0 went up."""
        self.sent_unanswered = True
        if self.trace is not None:
            self.trace.answered()

    def _row_of_others(self, api_key: int, api_version: int) -> Row:
        """Old versions where the instance has them. ApiVersions is answered in any version.

        Raises: ConnectionStop for everything else.
        """
        legacy = LEGACY.get((api_key, api_version))
        if legacy is not None and self._conn.served.spec.legacy_clients:
            return legacy
        row = APIS.get(api_key)
        if row is None:
            raise ConnectionStop(DisconnectCause.UNSUPPORTED_API, f"api key {api_key}")
        if api_key != _API_VERSIONS:
            raise ConnectionStop(DisconnectCause.UNSUPPORTED_VERSION, f"{row.key.name} v{api_version}")
        return row

    def discard(self) -> None:
        """The connection is gone."""
        if self._collected:
            self._conn.served.release(len(self._collected))
        self._collected = self.editor = None
        self.stash = b""
        if self.faults is not None:
            self.faults.release(self._conn.served)


def _check_frame_bytes(row: Row, size: int) -> None:
    """Refuse what would cost more to decode than a request of this API may."""
    most = row.bound.frame_bytes_max
    if most is not None and size > most:
        raise ConnectionStop(DisconnectCause.REQUEST_TOO_LARGE, f"{row.key.name} of {size} bytes")
