"""uvicorn's h11 protocol with bounds: what a peer sends, how long it takes, how many there are.

h11 alone bounds an incomplete event, but not how long it may stay so, nor a head that comes whole. httptools
bounds neither, and joins a header's pieces by copying: one line that never ends holds up the loop.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final

import h11
import msgspec
from prometheus_client import Counter, Gauge
from uvicorn.protocols.http.h11_impl import H11Protocol

from runtime.http_limits import Door, HeadReader, HeadRefused, HttpLimits

_PIECE_BYTES: Final = 16 * 1024
"""What h11 is handed of a body at once: with it, trailers are bounded about as heads are."""
_LINGER_S: Final = 5.0
"""For the peer to read the last answer; then the connection is cut."""
CUT: Final = Counter(
    "portico_http_connections_cut", "HTTP connections that were refused or cut", ["port", "cause"]
)
OPEN: Final = Gauge("portico_http_connections_open", "HTTP connections that are open", ["port"])


class BoundedProtocol(H11Protocol):
    """One connection. Its port's `door` knows the others."""

    def __init__(self, limits: HttpLimits, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._door = door
        self._head = HeadReader(limits)
        self._body_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._is_over = False
        """Whether what still comes is not looked at."""

    # --- its life --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit it, maybe in the place of another."""
        super().connection_made(transport)
        admission = self._door.enter(self, self.client[0] if self.client else "unknown")
        OPEN.labels(self._limits.port).set(len(self._door))
        if isinstance(admission.victim, BoundedProtocol):
            admission.victim.make_room()
        if admission.is_admitted:
            self._arm("head_timeout", self._limits.head_timeout_s)
        else:
            self._refuse("too_many", HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open here")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._is_over = True
        self._disarm()
        self._stop_write_timer()
        self._unset_keepalive_if_required()
        self._door.leave(self)
        OPEN.labels(self._limits.port).set(len(self._door))
        super().connection_lost(exc)

    def make_room(self) -> None:
        """Close it in favour of another; nothing of it is under way."""
        self._end("crowded_out")
        self._close_soon()

    def _cut(self, cause: str) -> None:
        """Its peer does not read: it is not waited for any more."""
        if not self._is_over:
            self._end(cause)
        self.transport.abort()

    def _end(self, cause: str) -> None:
        CUT.labels(self._limits.port, cause).inc()
        self._is_over = True
        self._disarm()
        self._unset_keepalive_if_required()
        self._door.leave(self)

    def _refuse(self, cause: str, status: HTTPStatus, detail: str) -> None:
        """Answer in the place of the application, where nothing has been answered yet, and close."""
        self._end(cause)
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_answer(status, detail))
        self._close_soon()

    def _close_soon(self) -> None:
        self.transport.close()
        self._stop_write_timer()
        self._write_deadline = self.loop.call_later(_LINGER_S, self.transport.abort)

    # --- what comes ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Hand the parser whole heads, and bodies in pieces."""
        left = data
        while left and not self._is_over and not self.transport.is_closing():
            state = self.conn.their_state
            if state is h11.IDLE:
                left = self._take_head(left)
            elif state is h11.SEND_BODY:
                left = self._take_body(left)
            else:
                # Who sends a request behind one that is not answered has to be ready to send it again
                # (RFC 9112 section 9.3.2), and nobody does it any more: it is not kept.
                if self.cycle is not None:
                    self.cycle.keep_alive = False
                return

    def _take_head(self, data: bytes) -> bytes:
        if self._head.is_empty and self._deadline is None:
            self._unset_keepalive_if_required()
            self._arm("head_timeout", self._limits.head_timeout_s)
        try:
            taken = self._head.take(data)
        except HeadRefused as refused:
            self._refuse(refused.cause, refused.status, refused.detail)
            return b""
        if taken is None:
            return b""
        self._disarm()
        self._door.begins(self)
        self._body_bytes = 0
        head, rest = taken
        super().data_received(head)
        if self.conn.their_state is h11.SEND_BODY:
            self._arm("body_timeout", self._limits.body_timeout_s)
        return rest

    def _take_body(self, data: bytes) -> bytes:
        piece, rest = data[:_PIECE_BYTES], data[_PIECE_BYTES:]
        self._body_bytes += len(piece)
        if self._body_bytes > self._limits.body_bytes_max:
            detail = f"a body may have at most {self._limits.body_bytes_max} bytes"
            self._refuse("body_bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            return b""
        super().data_received(piece)
        if self.conn.their_state is not h11.SEND_BODY:
            self._disarm()
        return rest

    def send_400_response(self, msg: str) -> None:
        """What h11 does not understand."""
        CUT.labels(self._limits.port, "malformed").inc()
        self._is_over = True
        self._disarm()
        super().send_400_response(msg)
        self._close_soon()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_write_timer()
        else:
            self._door.is_answered(self)

    # --- time ------------------------------------------------------------------------------------

    def _arm(self, cause: str, after_s: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(after_s, self._time_is_over, cause)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_is_over(self, cause: str) -> None:
        self._deadline = None
        self._refuse(cause, HTTPStatus.REQUEST_TIMEOUT, "the request was not complete in time")

    def pause_writing(self) -> None:
        """The peer reads more slowly than we answer."""
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        self._stop_write_timer()

    def _start_write_timer(self) -> None:
        if self._write_deadline is None:
            wait_s = self._limits.write_timeout_s
            self._write_deadline = self.loop.call_later(wait_s, self._cut, "write_timeout")

    def _stop_write_timer(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None


def _answer(status: HTTPStatus, detail: str) -> bytes:
    body = msgspec.json.encode({"title": status.phrase, "status": int(status), "detail": detail})
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
