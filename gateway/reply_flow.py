"""From the backend's bytes to replies: matched with their requests in order, names taken back, passed on."""

import struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from gateway.apis import APIS, Mode
from gateway.causes import DisconnectCause
from gateway.mapped import decoding_work, kept_reply, mapped_reply, told_throttle_ms
from gateway.ordering import Exchange
from gateway.stops import ConnectionStop
from gateway.upstream_login import check_login_reply
from runtime.durations import observe
from traffic.turns import Hold
from wire.api_table import ApiKey
from wire.edits import FrameEditor, edit_fetch_response, edit_produce_response, fetch_response_editor
from wire.framing import Buffer
from wire.throttle_time import HEAD_BYTES_MAX, raise_in

if TYPE_CHECKING:
    from gateway.connection import Connection

_HEAD: Final = struct.Struct(">ii")
"""Length prefix, correlation id."""
_HEAD_BYTES: Final = _HEAD.size
_SIZE_MIN: Final = 4
WORK_AT_ONCE: Final = 128
"""Of one connection's replies before others get their turn: one each, and more for those that are decoded."""
_KEPT_WORK_BYTES: Final = 2048
COLLECTED_BYTES_MAX: Final = 128 * 1024 * 1024
"""One reply that has to be decoded: listings of a cluster with very many partitions."""
_FETCH: Final = int(ApiKey.FETCH)


class ReplyFlow:
    """The reply half of one connection."""

    __slots__ = ("_collected", "_conn", "_missing", "editor", "login_replies_due", "stash", "work")

    def __init__(self, conn: "Connection") -> None:
        self._conn = conn
        self.editor: FrameEditor | None = None
        """Of the frame that is streamed; to be asked, not changed."""
        self._collected: bytearray | None = None
        self._missing = 0
        self.login_replies_due = 0
        """Replies to our own login that come before any of the client's."""
        self.stash: bytes = b""
        self.work = 0
        """Counts what replies have cost, in units of one that is edited in place."""

    def feed(self, chunk: memoryview, out: list[Buffer]) -> int:
        """Handle a chunk; `out` gets what goes to the client, slices of the chunk among it.

        The answer is where to go on later, when this connection's turn comes again.
        Raises: ConnectionStop, MalformedFrame.
        """
        at, end = 0, len(chunk)
        last_work = self.work + WORK_AT_ONCE
        while at < end and self.work < last_work:
            if self._missing:
                take = min(self._missing, end - at)
                self._continue(chunk[at : at + take], out)
                at += take
            elif end - at < HEAD_BYTES_MAX and _is_cut(chunk, at):
                self.stash = bytes(chunk[at:])
                return end
            else:
                at = self._begin(chunk, at, out)
        return at

    def _begin(self, chunk: memoryview, at: int, out: list[Buffer]) -> int:
        size, correlation_id = _HEAD.unpack_from(chunk, at)
        if size < _SIZE_MIN:
            raise ConnectionStop(DisconnectCause.UPSTREAM_MALFORMED, f"a reply of {size} bytes")
        conn = self._conn
        exchange = None
        if not self.login_replies_due:
            exchange = conn.queue.head()
            if exchange is None or exchange.correlation_id != correlation_id:
                raise ConnectionStop(
                    DisconnectCause.UPSTREAM_MALFORMED, f"nobody waits for reply {correlation_id}"
                )
        behind: int = at + 4 + size
        if behind <= len(chunk):
            self._whole(exchange, chunk[at:behind], out)
            return behind
        if exchange is not None and exchange.api_key == _FETCH:
            if conn.turn.hold is not Hold.NONE or conn.served.faults is not None:
                self._tell_throttle(exchange, chunk[at:])
            if exchange.trace is not None:
                exchange.trace.replied()
            self.editor = fetch_response_editor(exchange.api_version, conn.served.scope, exchange.notes)
        elif size > COLLECTED_BYTES_MAX:
            raise ConnectionStop(DisconnectCause.UPSTREAM_MALFORMED, f"a reply of {size} bytes")
        else:
            self._collected = bytearray()
        self._missing = 4 + size
        return at

    def opaque_bytes(self) -> int:
        """How many of the next bytes go down as they are, whatever they are."""
        return 0 if self.editor is None else self.editor.opaque_bytes

    def pass_opaque(self, size: int) -> None:
        """So many of them were spliced."""
        assert self.editor is not None
        self.editor.pass_opaque(size)
        self._missing -= size

    def _continue(self, piece: memoryview, out: list[Buffer]) -> None:
        self._missing -= len(piece)
        editor = self.editor
        if editor is None:
            assert self._collected is not None
            self._collected += piece
            if not self._missing:
                frame, self._collected = memoryview(self._collected), None
                self._whole(None if self.login_replies_due else self._conn.queue.head(), frame, out)
            return
        if len(piece) <= editor.opaque_bytes:
            editor.pass_opaque(len(piece))
            out.append(piece)
            return
        head_was_done = editor.head_done
        buffers, used = editor.feed(piece)
        assert used == len(piece) and editor.done == (self._missing == 0)
        if editor.head_done and not head_was_done:
            self._session_begins(editor.facts.get("session_id", 0))
        out += buffers
        if editor.done:
            self.editor = None
            exchange = self._conn.queue.head()
            assert exchange is not None, "its reply was streamed"
            self._finish_head(exchange, out)

    def _whole(self, exchange: Exchange | None, frame: memoryview, out: list[Buffer]) -> None:
        """Handle one complete frame; without an exchange it answers our own login."""
        conn = self._conn
        if exchange is None:
            conn.takes_traces = check_login_reply(frame, self.login_replies_due)
            self.login_replies_due -= 1
            return
        self.work += 1
        if exchange.taker is not None:
            exchange.taker(bytes(frame[_HEAD_BYTES:]))
            out += conn.queue.finish_head()
            return
        mode = APIS[exchange.api_key].mode
        if exchange.handler is not None or mode is Mode.MAPPED:
            out.append(self._mapped(exchange, frame))
            self._finish_head(exchange, out)
            return
        if conn.turn.hold is not Hold.NONE or conn.served.faults is not None:
            self._tell_throttle(exchange, frame)
        if mode is Mode.FETCH:
            fetched = edit_fetch_response(frame, exchange.api_version, conn.served.scope, exchange.notes)
            self._session_begins(fetched.session_id)
            out += fetched.buffers
        else:
            assert mode is Mode.PRODUCE
            out += edit_produce_response(frame, exchange.api_version, conn.served.scope).buffers
        self._finish_head(exchange, out)

    def _finish_head(self, exchange: Exchange, out: list[Buffer]) -> None:
        """The reply to the oldest request was passed on."""
        conn = self._conn
        observe(conn.worker.answer_times[exchange.api_key], monotonic_ns() - exchange.began_ns)
        if exchange.trace is not None:
            exchange.trace.answered()
        out += conn.queue.finish_head()

    def _mapped(self, exchange: Exchange, frame: memoryview) -> bytes:
        kept = kept_reply(self._conn, exchange, frame)
        if kept is not None:
            self.work += len(kept) // _KEPT_WORK_BYTES
            return kept
        self.work += decoding_work(len(frame))
        answer = mapped_reply(self._conn, exchange, frame)
        if self._conn.worker.pacing.is_over(self._conn.turn):
            self.work += WORK_AT_ONCE  # others have their turn now
        return answer

    def _tell_throttle(self, exchange: Exchange, frame: memoryview) -> None:
        """The instance is in debt, or its tenant wants to be told so: a reply says it that is passed on as it
        is."""
        throttle_ms = told_throttle_ms(self._conn)
        self._conn.worker.told_throttle_ms[exchange.api_key] += throttle_ms
        raise_in(frame, exchange.api_key, exchange.api_version, throttle_ms)

    def _session_begins(self, session_id: int) -> None:
        """The backend has given this connection a fetch session."""
        if session_id:
            if self._conn.fetch_sessions is None:
                self._conn.fetch_sessions = set()
            self._conn.fetch_sessions.add(session_id)


def _is_cut(chunk: memoryview, at: int) -> bool:
    """Whether too little of a frame is here to begin: the place of throttle_time_ms in Fetch is wanted."""
    here = len(chunk) - at
    if here < _HEAD_BYTES:
        return True
    size: int = _HEAD.unpack_from(chunk, at)[0]
    return here < min(4 + size, HEAD_BYTES_MAX)
