"""From a connected socket to a broker that is not ours to one that takes requests: TLS, a login, and whose
broker it is.

All of it is before the client's first request leaves, in turns of the instance; the dial's timeout holds.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.causes import DisconnectCause
from gateway.sockets import StreamSocket
from gateway.stops import ConnectionStop
from gateway.tls import TlsError, TlsSocket
from runtime.pacing import Pacing
from runtime.upstream import (
    FilesOfNoUse,
    LoginNotTaken,
    Refused,
    StrangerAnswers,
    TlsNotAgreed,
    Upstream,
    judged,
)
from traffic.turns import Turn
from wire.client import ClientSession, SpeaksTls, response_size
from wire.faults import MalformedFrame
from wire.framing import Buffer
from wire.login import EntryRefused, next_request

_CLIENT_ID: Final = "portico-gateway"
_SCRATCH: Final = memoryview(bytearray(64 * 1024))
_ANSWER_BYTES_MAX: Final = 64 * 1024
_PREFIX_BYTES: Final = 4
_CAUSES: Final = {
    LoginNotTaken: DisconnectCause.UPSTREAM_LOGIN_REFUSED,
    TlsNotAgreed: DisconnectCause.UPSTREAM_TLS_FAILED,
    StrangerAnswers: DisconnectCause.UPSTREAM_STRANGER,
    FilesOfNoUse: DisconnectCause.UPSTREAM_LOGIN_REFUSED,
}


class Door(NamedTuple):
    """What one broker asks of us."""

    upstream: Upstream
    address: tuple[str, int]
    server_name: str
    """What its certificate must be for."""

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.upstream.security.tls

    def enter(self) -> None:
        """Before anything is dialled. Raises: ConnectionStop while it makes no sense."""
        try:
            self.upstream.enter(self.address)
        except Refused as refused:
            raise stopped(refused) from refused


def stopped(refused: Refused) -> ConnectionStop:
    """How a client's connection ends that needed it."""
    return ConnectionStop(_CAUSES[type(refused)], str(refused))


class Opening:
    """One. `opened` or `failed` is called once, unless it is cancelled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pacing: Pacing,
        turn: Turn,
        door: Door,
        sock: socket.socket,
        opened: Callable[[StreamSocket], None],
        failed: Callable[[ConnectionStop], None],
    ) -> None:
        self._loop, self._pacing, self._turn = loop, pacing, turn
        self._door = door
        self._opened, self._failed = opened, failed
        self._descriptor = sock.fileno()
        context = door.upstream.context
        self._tls = None if context is None else TlsSocket(sock, context, None, door.server_name)
        self._stream: StreamSocket = self._tls or sock
        self._session = ClientSession(_CLIENT_ID)
        self._steps = door.upstream.steps()
        self._has_asked = False
        self._is_answered = False
        self._came = bytearray()
        loop.add_reader(self._descriptor, self._readable)

    def begin(self) -> None:
        """The first bytes leave."""
        self._try(self._begin)

    def _readable(self) -> None:
        self._pacing.run_now(self._turn, lambda: self._try(self._read))

    def cancel(self) -> None:
        """The connection is gone; its socket is somebody else's to close."""
        self._loop.remove_reader(self._descriptor)

    def _begin(self) -> None:
        if self._tls is not None:
            self._tls.begin()
        else:
            self._ask_first()

    def _ask_first(self) -> None:
        self._has_asked = True
        self._ask(next(self._steps))

    def _ask(self, request: object) -> None:
        frame: Buffer = self._session.request(request)
        if self._stream.send(frame) < len(frame):
            raise OSError("the broker takes nothing")

    def _read(self) -> None:
        try:
            count = self._stream.recv_into(_SCRATCH)
        except (BlockingIOError, InterruptedError):
            count = -1
        if count == 0:
            raise ConnectionResetError("it closed the connection while we came in")
        if self._tls is not None and not self._tls.is_open:
            return
        if not self._has_asked:
            self._ask_first()
        elif count > 0:
            self._came += _SCRATCH[:count]
            self._answered()

    def _answered(self) -> None:
        if len(self._came) < _PREFIX_BYTES:
            return
        size = response_size(self._came, bytes_max=_ANSWER_BYTES_MAX)
        if len(self._came) < _PREFIX_BYTES + size:
            return
        if len(self._came) > _PREFIX_BYTES + size:
            raise MalformedFrame("more than one answer to one question")
        self._is_answered = True
        answer = self._session.response(bytes(self._came[_PREFIX_BYTES:]))
        self._came.clear()
        request = next_request(self._steps, answer)
        if request is None:
            self._is_open()
        else:
            self._ask(request)

    def _is_open(self) -> None:
        self.cancel()
        self._door.upstream.entered(self._door.address)
        self._opened(self._stream)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (EntryRefused, SpeaksTls) as refused:
            self._refused(judged(refused))
        except TlsError as error:
            self._refused(judged(error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error))
        except MalformedFrame as error:
            self._ends(DisconnectCause.UPSTREAM_MALFORMED, str(error))
        except OSError as error:
            if self._tls is not None and not self._is_answered:
                self._refused(judged(error))
            else:
                self._ends(DisconnectCause.UPSTREAM_CLOSED, str(error))

    def _refused(self, refused: Refused) -> None:
        self._door.upstream.refused(self._door.address, refused)
        stop = stopped(refused)
        self._ends(stop.cause, stop.detail)

    def _ends(self, cause: DisconnectCause, detail: str) -> None:
        self.cancel()
        self._failed(ConnectionStop(cause, detail))
