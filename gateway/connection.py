"""One client connection and its one upstream connection: sockets, back-pressure, turns, end of life.

What the bytes mean is `request_flow` and `reply_flow`; this module moves them. Reading from one side stops
while the other side's socket is full, so a connection holds at most one receive window in each direction.

Each read is a step of the instance (`runtime/pacing.py`). One that has to wait leaves its socket unread and
has one place in the queue of the instance per side: requests begin something, replies only go on with it.
"""

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from contracts.specs import Listener
from gateway.causes import DisconnectCause
from gateway.dial import Dial
from gateway.ordering import ReplyQueue
from gateway.reply_flow import ReplyFlow
from gateway.request_flow import RequestFlow
from gateway.sockets import Outbox, reset
from gateway.splicing import SPLICE_BYTES_MIN
from gateway.stops import ConnectionStop
from runtime.logs import get_logger
from wire.faults import MalformedFrame, NameFault, TooManyEntries
from wire.framing import Buffer

if TYPE_CHECKING:
    from gateway.served import ServedInstance
    from gateway.worker import Worker

_log = get_logger(__name__)
UNANSWERED_MAX: Final = 512
"""Requests of one connection that may wait for replies before we stop reading more."""

_RESET_CAUSES: Final = frozenset(
    {
        DisconnectCause.WHITELIST_CHANGED,
        DisconnectCause.INSTANCE_SUSPENDED,
        DisconnectCause.INSTANCE_DELETED,
        DisconnectCause.INSTANCE_ABSENT,
        DisconnectCause.FAULT_INJECTED,
    }
)


class Connection:
    """Owned by the worker from accept to `close`, which is called exactly once."""

    __slots__ = (
        "address",
        "bytes_in",
        "client",
        "client_ended",
        "client_waits",
        "closed",
        "counted",
        "dial",
        "fetch_sessions",
        "listener",
        "mark_bytes",
        "mark_frames",
        "mark_in_frame",
        "mark_ms",
        "peer",
        "queue",
        "reading_client",
        "reading_upstream",
        "replies",
        "requests",
        "served",
        "takes_traces",
        "task",
        "turn",
        "unhandled",
        "unhandled_replies",
        "upstream",
        "upstream_ended",
        "upstream_told",
        "upstream_waits",
        "waiting_since_ns",
        "worker",
    )

    def __init__(
        self,
        worker: "Worker",
        served: "ServedInstance",
        listener: Listener,
        sock: socket.socket,
        address: str,
        port: int,
        now_ms: int,
    ) -> None:
        self.worker = worker
        self.served = served
        self.listener = listener
        """Where the client came in; its node says which broker the requests go to."""
        self.address = address
        self.peer = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        self.counted: tuple[str, ...] = ()
        """The names in the shared table that this connection was counted under."""
        self.queue = ReplyQueue()
        self.turn = served.turn
        self.client = Outbox(
            worker.loop,
            worker.buffer,
            worker.pacing,
            served.turn,
            sock,
            self.adjust_reading,
            self._client_broken,
        )
        self.upstream: Outbox | None = None
        self.dial: Dial | None = None
        self.requests = RequestFlow(self)
        self.replies = ReplyFlow(self)
        self.fetch_sessions: set[int] | None = None
        """Fetch session ids the backend gave on this connection: no others go up."""
        self.takes_traces = False
        """Whether the broker has said that it takes `contracts.tracing`."""
        self.task: asyncio.Task[None] | None = None
        """A request that needs an answer from elsewhere before it can go on; nothing is read meanwhile."""
        self.unhandled: memoryview | None = None
        """Requests that were read and have to wait, at most one receive window."""
        self.unhandled_replies: memoryview | None = None
        """The same of replies."""
        self.waiting_since_ns = 0
        """Since when requests that are here wait for the instance's turn; 0: they do not."""
        self.client_waits = self.upstream_waits = False
        """Whether a step of this side is in the instance's queue: its socket is not to be read meanwhile."""
        self.bytes_in = 0
        self.mark_ms, self.mark_bytes, self.mark_frames, self.mark_in_frame = now_ms, 0, 0, False
        self.client_ended = self.upstream_told = self.upstream_ended = self.closed = False
        self.reading_client = True
        self.reading_upstream = False
        worker.loop.add_reader(sock.fileno(), self._client_ready)

    # Turns

    def _client_ready(self) -> None:
        """The client has sent something, or has gone."""
        pacing, turn = self.worker.pacing, self.turn
        if turn.may_begin or pacing.may_begin(turn):
            pacing.began_ns = pacing.clock_ns()
            self._client_readable()
            pacing.end(turn)
        elif self.client_waits:
            self._read_client(False)  # it need not be said again
        else:
            self._wait_client()

    def _wait_client(self) -> None:
        self.client_waits = True
        self.waiting_since_ns = monotonic_ns()
        self.worker.pacing.wait(self.turn, self._client_turn, begins=True)

    def _client_turn(self) -> None:
        self.client_waits = False
        if self.closed:
            return
        upstream_clear = self.upstream is None or self.upstream.is_empty
        if upstream_clear and self.task is None and not self.is_congested():
            if self.unhandled is not None:
                self._go_on()
            elif not self.client_ended and not self.upstream_ended:
                self._client_readable()
        if not self.client_waits:
            self.waiting_since_ns = 0
        self.adjust_reading()

    def _upstream_ready(self) -> None:
        """The broker has sent something, or has gone."""
        pacing, turn = self.worker.pacing, self.turn
        if turn.may_go_on or pacing.may_go_on(turn):
            pacing.began_ns = pacing.clock_ns()
            self._upstream_readable()
            pacing.end(turn)
        elif self.upstream_waits:
            self._read_upstream(False)
        else:
            self._wait_upstream()

    def _wait_upstream(self) -> None:
        self.upstream_waits = True
        self.worker.pacing.wait(self.turn, self._upstream_turn, begins=False)

    def _upstream_turn(self) -> None:
        self.upstream_waits = False
        if self.closed:
            return
        if self.client.is_empty:
            if self.unhandled_replies is not None:
                self._replies_go_on(self.unhandled_replies)
            elif not self.upstream_ended:
                self._upstream_readable()
        self.adjust_reading()

    # Reading

    def _client_readable(self) -> None:
        buffer = self.worker.buffer
        requests = self.requests
        streams = requests.editor is not None and self.upstream is not None
        if streams and requests.opaque_bytes() >= SPLICE_BYTES_MIN:
            self._splice_request(self.dialled())
            return
        stash = requests.stash
        reserved = len(stash)
        if reserved:
            buffer.memory[:reserved] = stash
        faults = self.served.faults
        window = buffer.window(reserved) if faults is None else buffer.short_window(reserved)
        try:
            count = self.client.sock.recv_into(window)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._client_broken(error)
            return
        if not count:
            self._client_eof()
            return
        self.bytes_in += count
        self.served.bytes_in += count
        requests.stash = b""
        chunk = buffer.memory[: reserved + count]
        used = self._take_requests(chunk)
        if used < len(chunk) and not self.closed:
            self.unhandled = memoryview(bytes(chunk[used:]))
        self.adjust_reading()

    def _go_on(self) -> None:
        """Handle more of what was read before."""
        unhandled = self.unhandled
        assert unhandled is not None
        self.unhandled = None
        assert not self.requests.stash, "a stash is the end of a chunk"
        used = self._take_requests(unhandled)
        if used < len(unhandled) and not self.closed:
            self.unhandled = unhandled[used:]

    def is_congested(self) -> bool:
        """Whether requests must wait because replies do."""
        waiting = self.queue.waiting
        return bool(self.client.queue) or (waiting is not None and len(waiting) >= UNANSWERED_MAX)

    def _take_requests(self, chunk: memoryview) -> int:
        """Handle request bytes; what they become leaves before this returns or is copied."""
        pieces: list[Buffer] = []
        try:
            used = self.requests.feed(chunk, pieces)
            if pieces and not self.closed:
                (self.upstream or self.dialled()).send(pieces)
            return used
        except ConnectionStop as stop:
            self.close(stop.cause, stop.detail)
        except TooManyEntries as fault:
            self.close(DisconnectCause.REQUEST_TOO_LARGE, str(fault))
        except (MalformedFrame, NameFault) as fault:
            self.close(DisconnectCause.MALFORMED_REQUEST, str(fault))
        except Exception:  # noqa: BLE001 - one connection's failure must not be another's
            _log.exception("request handling failed", instance=self.served.instance_id)
            self.close(DisconnectCause.INTERNAL_ERROR)
        return len(chunk)

    def _upstream_readable(self) -> None:
        buffer = self.worker.buffer
        replies = self.replies
        assert self.upstream is not None
        if replies.editor is not None and replies.opaque_bytes() >= SPLICE_BYTES_MIN:
            self._splice_reply(self.upstream)
            return
        stash = replies.stash
        reserved = len(stash)
        if reserved:
            buffer.memory[:reserved] = stash
        try:
            count = self.upstream.sock.recv_into(buffer.window(reserved))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.upstream_broken(error)
            return
        if not count:
            self._upstream_eof()
            return
        replies.stash = b""
        chunk = buffer.memory[: reserved + count]
        used = self._pass_replies(chunk)
        if used < len(chunk) and not self.closed:
            self.unhandled_replies = memoryview(bytearray(chunk[used:]))
        self.adjust_reading()

    def _replies_go_on(self, unhandled: memoryview) -> None:
        """Pass on more of what was read before."""
        self.unhandled_replies = None
        used = self._pass_replies(unhandled)
        if used < len(unhandled) and not self.closed:
            self.unhandled_replies = unhandled[used:]

    def _pass_replies(self, chunk: memoryview) -> int:
        """Handle reply bytes; what they become leaves before this returns or is copied."""
        pieces: list[Buffer] = []
        try:
            used = self.replies.feed(chunk, pieces)
            self.send_client(pieces)
            return used
        except ConnectionStop as stop:
            self.close(stop.cause, stop.detail)
        except MalformedFrame as fault:
            self.close(DisconnectCause.UPSTREAM_MALFORMED, str(fault))
        except Exception:  # noqa: BLE001 - one connection's failure must not be another's
            _log.exception("reply handling failed", instance=self.served.instance_id)
            self.close(DisconnectCause.INTERNAL_ERROR)
        return len(chunk)

    def _splice_request(self, upstream: Outbox) -> None:
        try:
            count = self.worker.pipe.move(self.client.sock.fileno(), upstream, self.requests.opaque_bytes())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._client_broken(error)
            return
        if not count:
            self._client_eof()
            return
        self.bytes_in += count
        self.served.bytes_in += count
        self.requests.pass_opaque(count)
        self.adjust_reading()

    def _splice_reply(self, upstream: Outbox) -> None:
        try:
            count = self.worker.pipe.move(upstream.sock.fileno(), self.client, self.replies.opaque_bytes())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.upstream_broken(error)
            return
        if not count:
            self._upstream_eof()
            return
        self.served.bytes_out += count
        self.replies.pass_opaque(count)
        self.adjust_reading()

    def adjust_reading(self) -> None:
        """Read from each side exactly while what it sends has somewhere to go."""
        if self.closed:
            return
        client_clear = not self.client.queue
        upstream, waiting = self.upstream, self.queue.waiting
        if (
            self.reading_client
            and self.reading_upstream
            and client_clear
            and (upstream is None or not (upstream.queue or upstream.held))
            and self.task is None
            and self.unhandled is None
            and self.unhandled_replies is None
            and not (self.client_ended or self.upstream_ended)
            and (not waiting or len(waiting) < UNANSWERED_MAX)
        ):
            return  # both sides are read, and nothing stands against it: most often so
        can_take = (
            client_clear
            and (upstream is None or not upstream.queue)
            and self.task is None
            and (not waiting or len(waiting) < UNANSWERED_MAX)
        )
        if self.unhandled is not None:
            if can_take and not self.client_waits:
                self._wait_client()
            can_take = False
        elif self.client_ended and can_take and not waiting and self._all_is_taken():
            self.close(DisconnectCause.CLIENT_CLOSED)
            return
        if self.upstream_ended and client_clear:
            self.close(DisconnectCause.UPSTREAM_CLOSED)
            return
        want_client = can_take and not self.client_ended and not self.upstream_ended
        if want_client != self.reading_client and (not self.client_waits or self.unhandled is not None):
            self._read_client(want_client)
        want_upstream = (
            upstream is not None and not upstream.held and client_clear and not self.upstream_ended
        )
        if self.unhandled_replies is not None:
            if want_upstream and not self.upstream_waits:
                self._wait_upstream()
            want_upstream = False
        if want_upstream != self.reading_upstream and not self.upstream_waits:
            self._read_upstream(want_upstream)

    def _read_client(self, wanted: bool) -> None:
        self.reading_client = wanted
        loop, descriptor = self.worker.loop, self.client.sock.fileno()
        if wanted:
            # Time we did not read is not the client's: its window starts now.
            self.mark_ms, self.mark_bytes = self.worker.now_ms, self.bytes_in
            loop.add_reader(descriptor, self._client_ready)
        else:
            loop.remove_reader(descriptor)

    def _read_upstream(self, wanted: bool) -> None:
        assert self.upstream is not None
        self.reading_upstream = wanted
        loop, descriptor = self.worker.loop, self.upstream.sock.fileno()
        if wanted:
            loop.add_reader(descriptor, self._upstream_ready)
        else:
            loop.remove_reader(descriptor)

    # Writing

    def send_client(self, pieces: Sequence[Buffer]) -> None:
        """Send reply bytes to the client."""
        if pieces and not self.closed:
            self.served.bytes_out += self.client.send(pieces)

    def dialled(self) -> Outbox:
        """The upstream outbox; the first call dials and puts the login in front of everything.

        Raises: ConnectionStop when there is no such broker or it refuses at once.
        """
        if self.upstream is not None:
            return self.upstream
        self.dial = Dial(self)
        self.upstream = self.dial.begin()
        return self.upstream

    # Waiting for something else

    def wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        """Handle no further request until `work` is done."""
        assert self.task is None
        self.task = self.worker.pacing.task(self.turn, self._await(work))

    async def _await(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionStop as stop:
            self.close(stop.cause, stop.detail)
        except (MalformedFrame, NameFault) as fault:
            self.close(DisconnectCause.MALFORMED_REQUEST, str(fault))
        except Exception:  # noqa: BLE001 - one connection's failure must not be another's
            _log.exception("request handling failed", instance=self.served.instance_id)
            self.close(DisconnectCause.INTERNAL_ERROR)
        self.task = None
        self.adjust_reading()

    # Ending

    def _client_eof(self) -> None:
        """No more requests; what is under way is finished, which covers acks=0 data still in our hands."""
        self.client_ended = True
        self.mark_ms = self.worker.now_ms
        self.adjust_reading()

    def _all_is_taken(self) -> bool:
        """Whether the broker has read what went up. Closing earlier would reset the connection under acks=0
        data that nobody answers: the broker gets the end of our stream instead, and closes when it is there.
        """
        upstream = self.upstream
        if upstream is None or self.upstream_ended or not self.requests.sent_unanswered:
            return True
        if not self.upstream_told:
            self.upstream_told = True
            try:
                upstream.sock.shutdown(socket.SHUT_WR)
            except OSError:
                return True  # reset by the broker: nobody is there to take anything
        return False

    def _upstream_eof(self) -> None:
        if self.replies.login_replies_due:
            self.close(DisconnectCause.UPSTREAM_LOGIN_REFUSED)
            return
        self.upstream_ended = True
        self.mark_ms = self.worker.now_ms
        self.adjust_reading()

    def _client_broken(self, error: OSError) -> None:
        self.close(DisconnectCause.CLIENT_RESET, str(error))

    def upstream_broken(self, error: OSError) -> None:
        """The upstream socket failed."""
        self.close(DisconnectCause.UPSTREAM_CLOSED, str(error))

    def close(self, cause: DisconnectCause, detail: str = "") -> None:
        """End the connection and count its cause. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        loop = self.worker.loop
        for outbox in (self.client, self.upstream):
            if outbox is not None:
                descriptor = outbox.sock.fileno()
                loop.remove_reader(descriptor)
                loop.remove_writer(descriptor)
                outbox.discard()
                outbox.sock.close() if cause not in _RESET_CAUSES else reset(outbox.sock)
        self.requests.discard()
        self.unhandled = self.unhandled_replies = None
        if self.dial is not None:
            self.dial.cancel()
        if self.task is not None:
            self.task.cancel()
        self.worker.forget(self, cause, detail)
