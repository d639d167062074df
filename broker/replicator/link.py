"""The connection to one leader: log in, send what the fetcher asks, hand it the answers.

A plain socket and a buffer that is used again and again: records go from the kernel into it and from there
into the log, nothing else copies them.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from broker.replicator.fetcher import Fetcher
from contracts.cluster import LiveBroker
from runtime.logs import get_logger
from runtime.network import Network
from wire.client import ClientSession, LoginRefused, expect_login, login_requests, response_size
from wire.faults import MalformedFrame

_log = get_logger(__name__)
_BUFFER_BYTES: Final = 64 * 1024
_SHRINK_AFTER: Final = 20
"""So many small answers in a row, and the buffer is small again."""
_LOGIN_TIMEOUT_S: Final = 5.0
_REFUSED_PAUSE_S: Final = 0.1
_SILENCE_MS: Final = 6_000
"""An answer is due after the fetch's wait; a leader that hangs is tried anew."""
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_LAST_S: Final = 1.0


class LeaderLink:
    """Keeps a connection to one leader as long as it is open and there is something to follow.

    `login` gives the authorization message. It holds our broker epoch, so it changes when we register anew,
    and with an old one we may not join an ISR: then the connection is made anew too.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        leader: LiveBroker,
        login: Callable[[], bytes],
        now_ms: Callable[[], int],
        network: Network,
    ) -> None:
        self._network = network
        self.fetcher = fetcher
        self.leader = leader
        self._login = login
        self._logged_in_with = b""
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: deque[bool] = deque()
        """Of each request without an answer: whether it asks for epochs."""
        self._sent_ms = 0
        self._buffer = bytearray(_BUFFER_BYTES)
        self._end = 0
        self._small_answers = 0
        self._pause_s = _PAUSE_FIRST_S
        self._nudge_due = False
        self.is_closed = False

    def start(self) -> None:
        """Connect in the background."""
        self._task = self._loop.create_task(self._connect())

    def moved_to(self, leader: LiveBroker) -> None:
        """The leader has another address, or lives another life."""
        if leader != self.leader:
            self.leader = leader
            self._reconnect(None)

    def close(self) -> None:
        """End; what was appended stays."""
        self.is_closed = True
        self._drop()
        if self._task is not None:
            self._task.cancel()

    def nudge(self) -> None:
        """There is something new to ask: a fetch that waits at the leader comes back for it."""
        if not self._nudge_due and not self.is_closed:
            self._nudge_due = True
            self._loop.call_soon(self._nudged)

    def _nudged(self) -> None:
        self._nudge_due = False
        if self._socket is not None and len(self._in_flight) <= 1:
            self._ask()

    def check(self) -> None:
        """Call it now and then: whether the leader answers, and knows us by our present epoch."""
        if self._socket is None:
            return
        if self._logged_in_with != self._login():
            self._reconnect("registered anew")
        elif self._in_flight and self._now_ms() - self._sent_ms > _SILENCE_MS:
            self._reconnect("no answer")

    # -- connecting --------------------------------------------------------------------------------------

    def _reconnect(self, reason: str | None) -> None:
        if self.is_closed:
            return
        self._drop()
        if reason is not None:
            _log.info("connection to a leader lost", leader=self.leader.broker_id, reason=reason)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._connect())

    def _drop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._socket = None
        self._in_flight.clear()
        self._end = 0

    async def _connect(self) -> None:
        while not self.is_closed:
            leader = self.leader
            sock = self._network.stream_socket(leader.host)
            try:
                async with asyncio.timeout(_LOGIN_TIMEOUT_S):
                    await self._loop.sock_connect(sock, (leader.host, leader.port))
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    await self._authenticate(sock)
            except (OSError, TimeoutError, MalformedFrame, LoginRefused) as error:
                sock.close()
                reason = str(error) or type(error).__name__
                _log.info("a leader cannot be reached", leader=leader.broker_id, reason=reason)
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, _PAUSE_LAST_S)
                continue
            except BaseException:
                sock.close()
                raise
            if leader != self.leader:
                sock.close()
                continue
            self._pause_s = _PAUSE_FIRST_S
            self._begin(sock)
            return

    async def _authenticate(self, sock: socket.socket) -> None:
        session = ClientSession("replica")
        self._logged_in_with = self._login()
        handshake, authenticate = login_requests(self._logged_in_with)
        await self._call(sock, session, handshake)
        expect_login(await self._call(sock, session, authenticate))

    async def _call(self, sock: socket.socket, session: ClientSession, request: Any) -> Any:
        await self._loop.sock_sendall(sock, session.request(request))
        size = response_size(await self._read_exactly(sock, 4), bytes_max=_BUFFER_BYTES)
        return session.response(await self._read_exactly(sock, size))

    async def _read_exactly(self, sock: socket.socket, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = await self._loop.sock_recv(sock, size - len(received))
            if not piece:
                raise MalformedFrame("the leader closed the connection")
            received += piece
        return received

    def _begin(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fetcher.reconnected()
        self._loop.add_reader(sock, self._on_readable)
        self._ask()

    # -- asking and answers ------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Send the next request, or look again when something is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asked = self.fetcher.next_request()
        if asked is None:
            if not self._in_flight:
                pause_s = self.fetcher.pause_ms(self._now_ms()) / 1000
                self._timer = self._loop.call_later(pause_s, self._ask)
            return
        frame, asks_epochs = asked
        self._in_flight.append(asks_epochs)
        self._sent_ms = self._now_ms()
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        sock = self._socket
        assert sock is not None
        try:
            sent = sock.send(frame)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._reconnect(str(error))
            return
        if sent < len(frame):
            self._loop.add_writer(sock, self._send_rest, frame[sent:])

    def _send_rest(self, rest: bytes) -> None:
        sock = self._socket
        assert sock is not None
        self._loop.remove_writer(sock)
        self._send(rest)

    def _on_readable(self) -> None:
        sock = self._socket
        assert sock is not None
        try:
            with memoryview(self._buffer) as view, view[self._end :] as room:
                received = sock.recv_into(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._reconnect(str(error))
            return
        if received == 0:
            self._reconnect("closed by the leader")
            return
        self._end += received
        try:
            self._handle_frames()
        except MalformedFrame as error:
            self._reconnect(f"nonsense: {error}")

    def _handle_frames(self) -> None:
        """Handle whole answers; make room for the rest of one that is not. Raises: MalformedFrame."""
        while self._end >= 4:
            whole = 4 + response_size(self._buffer)
            if not self._in_flight:
                raise MalformedFrame("an answer to nothing")
            if self._end < whole:
                self._make_room(whole)
                return
            with memoryview(self._buffer) as view, view[4:whole] as frame:
                is_lost = not self._handle(frame)
            rest = self._end - whole
            self._buffer[:rest] = self._buffer[whole : self._end]
            self._end = rest
            self._shrink(whole)
            if self._socket is None:
                return
            if is_lost:
                self._begin_anew()
                return
            if not self._in_flight:
                self._ask()

    def _handle(self, frame: memoryview) -> bool:
        """False when the session is lost. Raises: MalformedFrame."""
        if self._in_flight.popleft():
            self.fetcher.epochs_answered(frame)
            return True
        return self.fetcher.fetch_answered(frame)

    def _begin_anew(self) -> None:
        """The leader has forgotten the session, or does not want one of us now."""
        if self._in_flight:
            self._reconnect("the session is lost")
            return
        self.fetcher.reconnected()
        self._timer = self._loop.call_later(_REFUSED_PAUSE_S, self._ask)

    def _make_room(self, whole: int) -> None:
        if whole > len(self._buffer):
            larger = bytearray(-(-whole // _BUFFER_BYTES) * _BUFFER_BYTES)
            larger[: self._end] = memoryview(self._buffer)[: self._end]
            self._buffer = larger

    def _shrink(self, whole: int) -> None:
        if len(self._buffer) == _BUFFER_BYTES:
            return
        self._small_answers = self._small_answers + 1 if whole <= _BUFFER_BYTES else 0
        if self._small_answers >= _SHRINK_AFTER and self._end <= _BUFFER_BYTES:
            self._buffer = self._buffer[:_BUFFER_BYTES]
            self._small_answers = 0
