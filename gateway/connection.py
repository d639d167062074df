"""One client connection and its one upstream connection: sockets, back-pressure, turns, end of life.

What the bytes mean is `session/`; this module moves them. Reading from one side stops while the other side's
socket is full, so a connection holds at most one receive window in each direction.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, TypeAlias, cast

from contracts.specs import Listener
from gateway.causes import RESET_AT_ONCE, DisconnectCause
from gateway.census import Carried
from gateway.dial import Dial, Way, connecting
from gateway.served import WAITING_BYTES_SOFT, ServedInstance
from gateway.session.call import Pending
from gateway.session.ordering import UNANSWERED_MAX, Exchange
from gateway.session.replies import Replies
from gateway.session.requests import HeldBack, Requests, Waits
from gateway.session.session import Session
from gateway.session.states import Client, Upstream
from gateway.session.timers import Timeouts
from gateway.sockets import Outbox, StreamSocket
from gateway.splicing import SPLICE_BYTES_MIN
from gateway.stops import ConnectionStop
from gateway.tls import TlsSocket, cause_of, upstream_cause_of
from gateway.workplace import Workplace
from runtime.durations import observe
from runtime.logs import get_logger
from wire.faults import MalformedFrame, NameFault, TooManyEntries
from wire.framing import Buffer

_log = get_logger(__name__)
_Faults: TypeAlias = Mapping[type[Exception], DisconnectCause]
_REQUEST_FAULTS: Final[_Faults] = {
    TooManyEntries: DisconnectCause.REQUEST_TOO_LARGE,
    MalformedFrame: DisconnectCause.MALFORMED_REQUEST,
    NameFault: DisconnectCause.MALFORMED_REQUEST,
}
_REPLY_FAULTS: Final[_Faults] = {MalformedFrame: DisconnectCause.UPSTREAM_MALFORMED}


class Connection:
    """Owned by the worker from accept to `close`, which is called exactly once."""

    __slots__ = (
        "_dial",
        "_dials_first",
        "address",
        "carried",
        "client",
        "counted",
        "listener",
        "peer",
        "place",
        "replies",
        "requests",
        "served",
        "session",
        "sides",
        "task",
        "tls",
        "upstream",
    )

    def __init__(
        self,
        workplace: Workplace,
        served: ServedInstance,
        listener: Listener,
        session: Session,
        sock: StreamSocket,
        address: str,
        port: int,
    ) -> None:
        self.place = workplace
        self.served = served
        self.listener = listener
        """Where the client came in; its node says which broker the requests go to."""
        self.session = session
        self.sides = session.sides
        self._dials_first = listener.node_id if session.relay is None else session.relay.node_id
        self.address = address
        self.peer = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        self.carried = Carried(session, served)
        self.counted: tuple[str, ...] = ()
        """The names in the shared table that this connection was counted under."""
        self.tls = sock if isinstance(sock, TlsSocket) else None
        self.client = self._outbox(sock, self._client_broken)
        self.upstream: Outbox | None = None
        self._dial: Dial | None = None
        self.task: asyncio.Task[None] | None = None
        """A request that needs an answer from elsewhere before it can go on; nothing is read meanwhile."""
        self.requests = _FromClient(self)
        self.replies: _FromBroker | None = None
        """From the first dial on."""
        self.requests.reading = True
        workplace.loop.add_reader(sock.fileno(), self.requests.ready)

    def _outbox(self, sock: StreamSocket, broken: Callable[[OSError], None]) -> Outbox:
        place = self.place
        return Outbox(
            place.loop, place.buffer, place.pacing, self.served.turn, sock, self.adjust_reading, broken
        )

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self.sides.is_over

    def failed(self, failure: Exception, faults: _Faults) -> None:
        """End it: one connection's failure must not be another's."""
        if isinstance(failure, ConnectionStop):
            self.stopped(failure)
            return
        for kind, cause in faults.items():
            if isinstance(failure, kind):
                self.close(cause, str(failure))
                return
        _log.error("handling failed", instance=self.served.instance_id, exc_info=failure)
        self.close(DisconnectCause.INTERNAL_ERROR)

    def adjust_reading(self) -> None:
        """Read from each side exactly while what it sends has somewhere to go."""
        sides = self.sides
        if sides.is_over:
            return
        client_clear = not self.client.queue
        upstream, waiting = self.upstream, self.session.queue.waiting
        requests, replies = self.requests, self.replies
        if (
            requests.reading
            and replies is not None
            and replies.reading
            and client_clear
            and (upstream is None or not (upstream.queue or upstream.held))
            and self.task is None
            and requests.unhandled is None
            and replies.unhandled is None
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
        ends = sides.client is Client.ENDED and can_take and not waiting and requests.unhandled is None
        if ends and self._all_is_taken():
            self.close(DisconnectCause.CLIENT_CLOSED)
            return
        if sides.upstream is Upstream.ENDED and client_clear:
            self.close(DisconnectCause.UPSTREAM_CLOSED)
            return
        requests.read_if(can_take)
        if upstream is not None and replies is not None:
            replies.read_if(client_clear and not upstream.held)

    # Writing

    def send_client(self, pieces: Sequence[Buffer]) -> None:
        """Send reply bytes to the client."""
        if pieces and not self.sides.is_over:
            self.carried.went_out(self.client.send(pieces))

    def dialled(self) -> Outbox:
        """The upstream outbox; the first call dials and puts the login in front of everything. Raises:
        ConnectionStop when there is no such broker or it refuses at once."""
        if self.upstream is not None:
            return self.upstream
        workplace = self.place
        address, door = self._way()
        sock = connecting(workplace.network, address, door)
        self.upstream = upstream = self._outbox(sock, self._upstream_broken)
        self.requests.sink = upstream
        self.replies = _FromBroker(self, upstream)
        splices = self.tls is None and (door is None or not door.is_encrypted)
        self.requests.splices = self.replies.splices = splices
        self._dial = Dial(
            workplace.loop,
            workplace.network,
            workplace.pacing,
            self.served.turn,
            upstream,
            door,
            self._way,
            self._connected,
            self.stopped,
        )
        login = workplace.login_frames(self.served.instance_id, self.peer)
        self.session.dials(len(login), workplace.now_ms)
        upstream.send(login)
        return upstream

    def _way(self) -> Way:
        node_id, self._dials_first = self._dials_first, self.listener.node_id
        return self.place.way(self.served.spec.cluster_id, node_id)

    def _connected(self) -> None:
        self._dial = None
        self.session.connects()
        self.adjust_reading()

    def _ask_upstream(self, exchange: Exchange, frame: bytes) -> None:
        """A request of our own goes up behind what went up; its taker gets the answer."""
        self.session.ask(exchange)
        self.dialled().send([frame])

    # Waiting for something else

    def wait_for(self, waits: Waits) -> None:
        """Handle no further request until what it waits for is done."""
        assert self.task is None
        work = self._held_back(waits) if isinstance(waits, HeldBack) else self._settled(waits)
        self.task = self.place.pacing.task(self.served.turn, self._await(work))

    async def _held_back(self, waits: HeldBack) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(waits.wait_ms / 1000):
                await self.served.faults_changed.wait()
        self.session.requests.let_go()

    async def _settled(self, waits: Waits | None) -> None:
        place = self.place
        outside = place.outside(self.served, self.listener.node_id, self.session.relay, self._ask_upstream)
        while isinstance(waits, Pending):
            outcome = await waits.later.work(outside)
            up: list[Buffer] = []
            down: list[Buffer] = []
            try:
                self.session.requests.settle(outcome, up, down)
            finally:
                self.send_client(down)  # also where the connection ends with its answer
            if up and not self.sides.is_over:
                self.dialled().send(up)
            waits = self.session.requests.waits

    async def _await(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as failure:  # noqa: BLE001 - it ends this connection alone
            self.failed(failure, _REQUEST_FAULTS)
        self.task = None
        self.adjust_reading()

    # Ending

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

    def _client_broken(self, error: OSError) -> None:
        self.close(cause_of(error), str(error))

    def _upstream_broken(self, error: OSError) -> None:
        self.close(upstream_cause_of(error), str(error))

    def stopped(self, stop: ConnectionStop) -> None:
        self.close(stop.cause, stop.detail)

    @property
    def login_is_void(self) -> bool:
        """Whether its user is gone, or has another password now."""
        return self.session.login_is_void or (self.tls is not None and self.tls.is_void)

    def overdue(self, timeouts: Timeouts, now_ms: int) -> DisconnectCause | None:
        """Why it must be closed now, or None; to be asked every now and then."""
        waits = self.requests.waits or (self.replies is not None and self.replies.waits)
        cause = self.session.overdue(timeouts, now_ms, host_waits=waits, reads_client=self.requests.reading)
        return cause if self.tls is None else self.tls.overdue(cause, timeouts.handshake_ms, now_ms)

    def close(self, cause: DisconnectCause, detail: str = "") -> None:
        """End the connection and count its cause. A second call does nothing."""
        if self.sides.is_over:
            return
        self.session.closes()
        for outbox in (self.client, self.upstream):
            if outbox is not None:
                outbox.close(resets=cause in RESET_AT_ONCE)
        self.requests.keep(None)
        if self.replies is not None:
            self.replies.keep(None)
        for under_way in (self._dial, self.task):
            if under_way is not None:
                under_way.cancel()
        self.place.forget(self, cause, detail)


class _Stream:
    """One direction: a socket that is read in turns of the instance, and what becomes of its bytes.

    Each read is a step (`runtime/pacing.py`). One that has to wait leaves its socket unread and has one place
    in the queue of the instance.
    """

    __slots__ = (
        "_connection",
        "_ends",
        "_half",
        "_place",
        "_served",
        "reading",
        "sink",
        "source",
        "splices",
        "unhandled",
        "waits",
    )

    begins = False
    """Whether its bytes begin something, or only go on with it."""

    def __init_subclass__(cls) -> None:
        """CPython adapts code to the types that it meets: with one copy for both directions of what each read
        runs, a small request costs a tenth more."""
        for function in (cls.ready, cls._read):
            setattr(cls, function.__name__, FunctionType(function.__code__.replace(), function.__globals__))

    def __init__(
        self,
        connection: Connection,
        half: Requests | Replies,
        ends: Callable[[int], None],
        source: Outbox,
        sink: Outbox | None,
    ) -> None:
        self._connection = connection
        self._served = connection.served
        self._place = connection.place
        self._half = half
        self._ends = ends
        self.source = source
        """Of the socket that is read."""
        self.sink = sink
        """Of the other one; None: there is none yet."""
        self.reading = self.splices = False
        self.unhandled: memoryview | None = None
        """What was read and has to wait, at most one receive window."""
        self.waits = False
        """Whether a step is in the instance's queue: the socket is not to be read meanwhile."""

    def handle(self, chunk: memoryview, new_bytes: int) -> int:
        """What a chunk becomes leaves before this returns or is copied. The answer is how far it came."""
        raise NotImplementedError

    def flows(self) -> bool:
        """Whether more is to be read, now or later."""
        raise NotImplementedError

    def count_spliced(self, size: int) -> None:
        """So many bytes went through unread."""
        raise NotImplementedError

    def may_take(self) -> bool:
        """Whether what its bytes become has somewhere to go."""
        return self.sink is None or self.sink.is_empty

    # Turns

    def ready(self) -> None:
        """The peer has sent something, or has gone."""
        pacing, turn = self._place.pacing, self._served.turn
        if (
            (turn.may_begin or pacing.may_begin(turn))
            if self.begins
            else (turn.may_go_on or pacing.may_go_on(turn))
        ):
            pacing.began_ns = pacing.clock_ns()
            self._read()
            pacing.end(turn)
        elif self.waits:
            self.watch(False)  # it need not be said again
        else:
            self.wait()

    def wait(self) -> None:
        """Go on when it is the instance's turn."""
        self.waits = True
        self._place.pacing.wait(self._served.turn, self._in_turn, begins=self.begins)

    def _in_turn(self) -> None:
        self.waits = False
        if self._connection.sides.is_over:
            return
        if self.may_take():
            unhandled = self.unhandled
            if unhandled is not None:
                assert not self._half.stash, "a stash is the end of a chunk"
                self.keep(None)
                used = self.handle(unhandled, 0)
                if used < len(unhandled) and not self._connection.sides.is_over:
                    self.keep(unhandled[used:])
            elif self.flows():
                self._read()
        self._connection.adjust_reading()

    # Reading

    def read_if(self, may_take: bool) -> None:
        """Have the socket read exactly while that has somewhere to go; what waits unhandled goes first."""
        if self.unhandled is not None:
            if may_take and not self.waits:
                self.wait()
            may_take = False
        wanted = may_take and self.flows()
        if wanted != self.reading and (not self.waits or self.unhandled is not None):
            self.watch(wanted)

    def watch(self, wanted: bool) -> None:
        """Have the loop look at the socket, or not."""
        self.reading = wanted
        loop, descriptor = self._place.loop, self.source.sock.fileno()
        if wanted:
            loop.add_reader(descriptor, self.ready)
        else:
            loop.remove_reader(descriptor)

    def window(self, reserved: int) -> memoryview:
        """Where to read to, behind what is stashed."""
        return self._place.buffer.window(reserved)

    def _read(self) -> None:
        half = self._half
        if half.editor is not None:
            sink = self.sink
            if sink is not None and self.splices and half.opaque_bytes() >= SPLICE_BYTES_MIN:
                self._splice(half, sink)
                return
        stash = half.stash
        reserved = len(stash)
        memory = self._place.buffer.memory
        if reserved:
            memory[:reserved] = stash
        try:
            count = self.source.sock.recv_into(self.window(reserved))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.source.broken(error)
            return
        if not count:
            self._ended()
            return
        half.stash = b""
        chunk = memory[: reserved + count]
        used = self.handle(chunk, count)
        if used < len(chunk) and not self._connection.sides.is_over:
            self.keep(memoryview(bytearray(chunk[used:])))
        self._connection.adjust_reading()

    def _ended(self) -> None:
        try:
            self._ends(self._place.now_ms)
        except ConnectionStop as stop:
            self._connection.stopped(stop)
            return
        self._connection.adjust_reading()

    def _splice(self, half: Requests | Replies, sink: Outbox) -> None:
        try:
            count = self._place.pipe.move(self.source.sock.fileno(), sink, half.opaque_bytes())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.source.broken(error)
            return
        if not count:
            self._ended()
            return
        self.count_spliced(count)
        half.pass_opaque(count)
        self._connection.adjust_reading()

    def keep(self, unhandled: memoryview | None) -> None:
        """This waits, or nothing any more."""
        self.unhandled = unhandled


class _FromClient(_Stream):
    """Requests on their way up."""

    __slots__ = ("_session",)

    begins = True

    def __init__(self, connection: Connection) -> None:
        self._session = connection.session
        session = connection.session
        super().__init__(connection, session.requests, session.client_ends, connection.client, None)

    def may_take(self) -> bool:
        idle = self._connection.task is None and not self.source.queue
        return idle and not self._session.is_full and super().may_take()

    def flows(self) -> bool:
        return self._connection.sides.flows

    def window(self, reserved: int) -> memoryview:
        """Short where much of it may be kept."""
        served, buffer = self._served, self._place.buffer
        keeps_much = served.faults is not None or served.waiting_bytes > WAITING_BYTES_SOFT
        return buffer.short_window(reserved) if keeps_much else buffer.window(reserved)

    def watch(self, wanted: bool) -> None:
        """Time in which it was not read is not the client's: its window starts now."""
        if wanted:
            self._session.window_begins(self._place.now_ms)
        super().watch(wanted)

    def wait(self) -> None:
        self._session.requests.waiting_since_ns = self._place.pacing.clock_ns()
        super().wait()

    def _in_turn(self) -> None:
        super()._in_turn()
        if not self.waits:
            self._session.requests.waiting_since_ns = 0

    def keep(self, unhandled: memoryview | None) -> None:
        """A slice keeps all that it was cut from."""
        for view, sign in ((self.unhandled, -1), (unhandled, 1)):
            if view is not None:
                self._served.waiting_bytes += sign * len(cast(bytearray, view.obj))
        super().keep(unhandled)

    def count_spliced(self, size: int) -> None:
        self._session.requests.bytes_in += size
        self._served.bytes_in += size

    def handle(self, chunk: memoryview, new_bytes: int) -> int:
        up: list[Buffer] = []
        down: list[Buffer] = []
        connection, requests = self._connection, self._session.requests
        requests.bytes_in += new_bytes
        self._served.bytes_in += new_bytes
        try:
            used = requests.receive(chunk, self._place.pacing.began_ns, up, down)
            if down:
                answers, down = down, []
                connection.send_client(answers)
                if connection.sides.is_over:
                    return used
            if up:
                (self.sink or connection.dialled()).send(up)
            waits = requests.waits
            if waits is not None and not connection.sides.is_over:
                connection.wait_for(waits)
            return used
        except Exception as failure:  # noqa: BLE001 - it ends this connection alone
            connection.send_client(down)  # answers that were made before still leave
            connection.failed(failure, _REQUEST_FAULTS)
        return len(chunk)


class _FromBroker(_Stream):
    """Replies on their way down."""

    __slots__ = ("_answer_times", "_replies")

    def __init__(self, connection: Connection, upstream: Outbox) -> None:
        session = connection.session
        self._replies = session.replies
        self._answer_times = connection.place.times.by_brokers
        super().__init__(connection, session.replies, session.upstream_ends, upstream, connection.client)

    def flows(self) -> bool:
        return self._connection.sides.upstream is not Upstream.ENDED

    def count_spliced(self, size: int) -> None:
        self._connection.carried.went_out(size)

    def handle(self, chunk: memoryview, _new_bytes: int) -> int:
        down: list[Buffer] = []
        answered: list[Exchange] = []
        try:
            used = self._replies.receive(chunk, down, answered)
            if down:
                sent = self._connection.client.send(down)
                self._connection.carried.bytes_out += sent  # `went_out`, without a call
                self._served.bytes_out += sent
            for exchange in answered:
                took_ns = self._place.pacing.clock_ns() - exchange.began_ns
                observe(self._answer_times[exchange.api_key], took_ns)
            return used
        except Exception as failure:  # noqa: BLE001 - it ends this connection alone
            self._connection.failed(failure, _REPLY_FAULTS)
        return len(chunk)
