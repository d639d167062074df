"""One client connection and its one upstream connection: sockets, back-pressure, turns, end of life.

What the bytes mean is `session/`; this module moves them. Reading from one side stops while the other side's
socket is full, so a connection holds at most one receive window in each direction.

Each read is a step of the instance (`runtime/pacing.py`). One that has to wait leaves its socket unread and
has one place in the queue of the instance per side: requests begin something, replies only go on with it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine, Sequence
from typing import Any, Final, cast

from contracts.specs import Listener
from gateway.causes import DisconnectCause
from gateway.dial import Dial, connecting
from gateway.outside import Outside
from gateway.served import WAITING_BYTES_SOFT, ServedInstance
from gateway.session.call import Pending
from gateway.session.ordering import UNANSWERED_MAX, Exchange
from gateway.session.requests import HeldBack, Waits
from gateway.session.session import Session
from gateway.session.states import Client, Upstream
from gateway.session.timers import Timeouts
from gateway.sockets import Outbox, reset
from gateway.splicing import SPLICE_BYTES_MIN
from gateway.stops import ConnectionStop
from gateway.workplace import Workplace
from runtime.durations import observe
from runtime.logs import get_logger
from wire.faults import MalformedFrame, NameFault, TooManyEntries
from wire.framing import Buffer

_log = get_logger(__name__)

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
        "_answer_times",
        "_dial",
        "_replies",
        "_requests",
        "_workplace",
        "address",
        "client",
        "client_waits",
        "counted",
        "listener",
        "peer",
        "reading_client",
        "reading_upstream",
        "served",
        "session",
        "sides",
        "task",
        "turn",
        "unhandled",
        "unhandled_replies",
        "upstream",
        "upstream_waits",
    )

    def __init__(
        self,
        workplace: Workplace,
        served: ServedInstance,
        listener: Listener,
        session: Session,
        sock: socket.socket,
        address: str,
        port: int,
    ) -> None:
        self._workplace = workplace
        self.served = served
        self.listener = listener
        """Where the client came in; its node says which broker the requests go to."""
        self.session = session
        self.sides = session.sides
        self._requests = session.requests
        self._replies = session.replies
        self.address = address
        self.peer = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        self.counted: tuple[str, ...] = ()
        """The names in the shared table that this connection was counted under."""
        self.turn = served.turn
        self._answer_times = workplace.times.by_brokers
        self.client = Outbox(
            workplace.loop,
            workplace.buffer,
            workplace.pacing,
            served.turn,
            sock,
            self.adjust_reading,
            self._client_broken,
        )
        self.upstream: Outbox | None = None
        self._dial: Dial | None = None
        self.task: asyncio.Task[None] | None = None
        """A request that needs an answer from elsewhere before it can go on; nothing is read meanwhile."""
        self.unhandled: memoryview | None = None
        """Requests that were read and have to wait, at most one receive window."""
        self.unhandled_replies: memoryview | None = None
        """The same of replies."""
        self.client_waits = self.upstream_waits = False
        """Whether a step of this side is in the instance's queue: its socket is not to be read meanwhile."""
        self.reading_client = True
        self.reading_upstream = False
        workplace.loop.add_reader(sock.fileno(), self._client_ready)

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self.sides.is_over

    # Turns

    def _client_ready(self) -> None:
        """The client has sent something, or has gone."""
        pacing, turn = self._workplace.pacing, self.turn
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
        self._requests.waiting_since_ns = self._workplace.pacing.clock_ns()
        self._workplace.pacing.wait(self.turn, self._client_turn, begins=True)

    def _client_turn(self) -> None:
        self.client_waits = False
        if self.sides.is_over:
            return
        upstream_clear = self.upstream is None or self.upstream.is_empty
        if upstream_clear and self.task is None and not self.client.queue and not self.session.is_full:
            if self.unhandled is not None:
                self._go_on()
            elif self.sides.flows:
                self._client_readable()
        if not self.client_waits:
            self._requests.waiting_since_ns = 0
        self.adjust_reading()

    def _upstream_ready(self) -> None:
        """The broker has sent something, or has gone."""
        pacing, turn = self._workplace.pacing, self.turn
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
        self._workplace.pacing.wait(self.turn, self._upstream_turn, begins=False)

    def _upstream_turn(self) -> None:
        self.upstream_waits = False
        if self.sides.is_over:
            return
        if self.client.is_empty:
            if self.unhandled_replies is not None:
                self._replies_go_on(self.unhandled_replies)
            elif self.sides.upstream is not Upstream.ENDED:
                self._upstream_readable()
        self.adjust_reading()

    # Reading

    def _client_readable(self) -> None:
        buffer = self._workplace.buffer
        requests = self._requests
        streams = requests.editor is not None and self.upstream is not None
        if streams and requests.opaque_bytes() >= SPLICE_BYTES_MIN:
            self._splice_request(self.dialled())
            return
        stash = requests.stash
        reserved = len(stash)
        if reserved:
            buffer.memory[:reserved] = stash
        served = self.served
        keeps_much = served.faults is not None or served.waiting_bytes > WAITING_BYTES_SOFT
        window = buffer.short_window(reserved) if keeps_much else buffer.window(reserved)
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
        requests.bytes_in += count
        self.served.bytes_in += count
        requests.stash = b""
        chunk = buffer.memory[: reserved + count]
        used = self._take_requests(chunk)
        if used < len(chunk) and not self.sides.is_over:
            self._keep(memoryview(bytes(chunk[used:])))
        self.adjust_reading()

    def _keep(self, requests: memoryview | None) -> None:
        """Requests that wait, or none any more. A slice keeps all that it was cut from."""
        for view, sign in ((self.unhandled, -1), (requests, 1)):
            if view is not None:
                self.served.waiting_bytes += sign * len(cast(bytes, view.obj))
        self.unhandled = requests

    def _go_on(self) -> None:
        """Handle more of what was read before."""
        unhandled = self.unhandled
        assert unhandled is not None
        self._keep(None)
        assert not self._requests.stash, "a stash is the end of a chunk"
        used = self._take_requests(unhandled)
        if used < len(unhandled) and not self.sides.is_over:
            self._keep(unhandled[used:])

    def _take_requests(self, chunk: memoryview) -> int:
        """Handle request bytes; what they become leaves before this returns or is copied."""
        up: list[Buffer] = []
        down: list[Buffer] = []
        requests = self._requests
        try:
            used = requests.receive(chunk, self._workplace.pacing.began_ns, up, down)
            if down:
                answers, down = down, []
                self.send_client(answers)
                if self.sides.is_over:
                    return used
            if up:
                (self.upstream or self.dialled()).send(up)
            waits = requests.waits
            if waits is not None and not self.sides.is_over:
                self._wait_for(waits)
            return used
        except Exception as failure:  # noqa: BLE001 - one connection's failure must not be another's
            self._requests_failed(failure, down)
        return len(chunk)

    def _requests_failed(self, failure: Exception, down: Sequence[Buffer]) -> None:
        """Answers that were made before still leave."""
        self.send_client(down)
        if isinstance(failure, ConnectionStop):
            self.close(failure.cause, failure.detail)
        elif isinstance(failure, TooManyEntries):
            self.close(DisconnectCause.REQUEST_TOO_LARGE, str(failure))
        elif isinstance(failure, MalformedFrame | NameFault):
            self.close(DisconnectCause.MALFORMED_REQUEST, str(failure))
        else:
            _log.error("request handling failed", instance=self.served.instance_id, exc_info=failure)
            self.close(DisconnectCause.INTERNAL_ERROR)

    def _upstream_readable(self) -> None:
        buffer = self._workplace.buffer
        replies = self._replies
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
            self._upstream_broken(error)
            return
        if not count:
            self._upstream_eof()
            return
        replies.stash = b""
        chunk = buffer.memory[: reserved + count]
        used = self._pass_replies(chunk)
        if used < len(chunk) and not self.sides.is_over:
            self.unhandled_replies = memoryview(bytearray(chunk[used:]))
        self.adjust_reading()

    def _replies_go_on(self, unhandled: memoryview) -> None:
        """Pass on more of what was read before."""
        self.unhandled_replies = None
        used = self._pass_replies(unhandled)
        if used < len(unhandled) and not self.sides.is_over:
            self.unhandled_replies = unhandled[used:]

    def _pass_replies(self, chunk: memoryview) -> int:
        """Handle reply bytes; what they become leaves before this returns or is copied."""
        down: list[Buffer] = []
        answered: list[Exchange] = []
        try:
            used = self._replies.receive(chunk, down, answered)
            if down:
                self.served.bytes_out += self.client.send(down)
            for exchange in answered:
                took_ns = self._workplace.pacing.clock_ns() - exchange.began_ns
                observe(self._answer_times[exchange.api_key], took_ns)
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
        requests = self._requests
        try:
            count = self._workplace.pipe.move(self.client.sock.fileno(), upstream, requests.opaque_bytes())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._client_broken(error)
            return
        if not count:
            self._client_eof()
            return
        requests.bytes_in += count
        self.served.bytes_in += count
        requests.pass_opaque(count)
        self.adjust_reading()

    def _splice_reply(self, upstream: Outbox) -> None:
        replies = self._replies
        try:
            count = self._workplace.pipe.move(upstream.sock.fileno(), self.client, replies.opaque_bytes())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._upstream_broken(error)
            return
        if not count:
            self._upstream_eof()
            return
        self.served.bytes_out += count
        replies.pass_opaque(count)
        self.adjust_reading()

    def adjust_reading(self) -> None:
        """Read from each side exactly while what it sends has somewhere to go."""
        sides = self.sides
        if sides.is_over:
            return
        client_clear = not self.client.queue
        upstream, waiting = self.upstream, self.session.queue.waiting
        if (
            self.reading_client
            and self.reading_upstream
            and client_clear
            and (upstream is None or not (upstream.queue or upstream.held))
            and self.task is None
            and self.unhandled is None
            and self.unhandled_replies is None
            and sides.flows
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
        elif sides.client is Client.ENDED and can_take and not waiting and self._all_is_taken():
            self.close(DisconnectCause.CLIENT_CLOSED)
            return
        if sides.upstream is Upstream.ENDED and client_clear:
            self.close(DisconnectCause.UPSTREAM_CLOSED)
            return
        want_client = can_take and sides.flows
        if want_client != self.reading_client and (not self.client_waits or self.unhandled is not None):
            self._read_client(want_client)
        want_upstream = (
            upstream is not None
            and not upstream.held
            and client_clear
            and sides.upstream is not Upstream.ENDED
        )
        if self.unhandled_replies is not None:
            if want_upstream and not self.upstream_waits:
                self._wait_upstream()
            want_upstream = False
        if want_upstream != self.reading_upstream and not self.upstream_waits:
            self._read_upstream(want_upstream)

    def _read_client(self, wanted: bool) -> None:
        self.reading_client = wanted
        loop, descriptor = self._workplace.loop, self.client.sock.fileno()
        if wanted:
            # Time we did not read is not the client's: its window starts now.
            self.session.window_begins(self._workplace.now_ms)
            loop.add_reader(descriptor, self._client_ready)
        else:
            loop.remove_reader(descriptor)

    def _read_upstream(self, wanted: bool) -> None:
        assert self.upstream is not None
        self.reading_upstream = wanted
        loop, descriptor = self._workplace.loop, self.upstream.sock.fileno()
        if wanted:
            loop.add_reader(descriptor, self._upstream_ready)
        else:
            loop.remove_reader(descriptor)

    # Writing

    def send_client(self, pieces: Sequence[Buffer]) -> None:
        """Send reply bytes to the client."""
        if pieces and not self.sides.is_over:
            self.served.bytes_out += self.client.send(pieces)

    def dialled(self) -> Outbox:
        """The upstream outbox; the first call dials and puts the login in front of everything.

        Raises: ConnectionStop when there is no such broker or it refuses at once.
        """
        if self.upstream is not None:
            return self.upstream
        workplace, turn = self._workplace, self.turn
        self.upstream = upstream = Outbox(
            workplace.loop,
            workplace.buffer,
            workplace.pacing,
            turn,
            connecting(workplace.network, self._broker_address()),
            self.adjust_reading,
            self._upstream_broken,
        )
        self._dial = Dial(
            workplace.loop,
            workplace.network,
            workplace.pacing,
            turn,
            upstream,
            self._broker_address,
            self._connected,
            self._stopped,
        )
        login = workplace.login_frames(self.served.instance_id, self.peer)
        self.session.dials(len(login), workplace.now_ms)
        upstream.send(login)
        return upstream

    def _broker_address(self) -> tuple[str, int] | None:
        return self._workplace.broker_address(self.served.spec.cluster_id, self.listener.node_id)

    def _connected(self) -> None:
        self._dial = None
        self.session.connects()
        self.adjust_reading()

    def _ask_upstream(self, exchange: Exchange, frame: bytes) -> None:
        """A request of our own goes up behind what went up; its taker gets the answer."""
        self.session.ask(exchange)
        self.dialled().send([frame])

    # Waiting for something else

    def _wait_for(self, waits: Waits) -> None:
        """Handle no further request until what it waits for is done."""
        assert self.task is None
        work = self._held_back(waits) if isinstance(waits, HeldBack) else self._settled(waits)
        self.task = self._workplace.pacing.task(self.turn, self._await(work))

    async def _held_back(self, waits: HeldBack) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(waits.wait_ms / 1000):
                await self.served.faults_changed.wait()
        self._requests.let_go()

    async def _settled(self, pending: Pending) -> None:
        outcome = await pending.later.work(self._outside())
        up: list[Buffer] = []
        down: list[Buffer] = []
        self._requests.settle(outcome, up, down)
        self.send_client(down)
        if up and not self.sides.is_over:
            self.dialled().send(up)

    def _outside(self) -> Outside:
        return self._workplace.outside(self.served, self.listener.node_id, self._ask_upstream)

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
        self.session.client_ends(self._workplace.now_ms)
        self.adjust_reading()

    def _all_is_taken(self) -> bool:
        """Whether the broker has read what went up, or nothing went up that it does not answer."""
        if self.session.is_taken:
            return True
        if self.session.tells_upstream():
            assert self.upstream is not None
            try:
                self.upstream.sock.shutdown(socket.SHUT_WR)
            except OSError:
                return True  # reset by the broker: nobody is there to take anything
        return False

    def _upstream_eof(self) -> None:
        try:
            self.session.upstream_ends(self._workplace.now_ms)
        except ConnectionStop as stop:
            self._stopped(stop)
            return
        self.adjust_reading()

    def _client_broken(self, error: OSError) -> None:
        self.close(DisconnectCause.CLIENT_RESET, str(error))

    def _upstream_broken(self, error: OSError) -> None:
        self.close(DisconnectCause.UPSTREAM_CLOSED, str(error))

    def _stopped(self, stop: ConnectionStop) -> None:
        self.close(stop.cause, stop.detail)

    def overdue(self, timeouts: Timeouts, now_ms: int) -> DisconnectCause | None:
        """Why it must be closed now, or None; to be asked every now and then."""
        host_waits = self.client_waits or self.upstream_waits
        return self.session.overdue(timeouts, now_ms, host_waits=host_waits, reads_client=self.reading_client)

    def close(self, cause: DisconnectCause, detail: str = "") -> None:
        """End the connection and count its cause. A second call does nothing."""
        if self.sides.is_over:
            return
        self.session.closes()
        loop = self._workplace.loop
        for outbox in (self.client, self.upstream):
            if outbox is not None:
                descriptor = outbox.sock.fileno()
                loop.remove_reader(descriptor)
                loop.remove_writer(descriptor)
                outbox.discard()
                outbox.sock.close() if cause not in _RESET_CAUSES else reset(outbox.sock)
        self._keep(None)
        self.unhandled_replies = None
        if self._dial is not None:
            self._dial.cancel()
        if self.task is not None:
            self.task.cancel()
        self._workplace.forget(self, cause, detail)
