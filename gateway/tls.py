"""TLS between a client and the gateway: a socket that decrypts what it reads and encrypts what it sends.

OpenSSL works on memory here, so all of it runs in the instance's turns like any other step. Outboxes see a
socket like another one: what was sent is what the kernel has the ciphertext of.
"""

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from gateway.causes import DisconnectCause
from gateway.rules.client_hello import HELLO_BYTES_MAX as _HELLO_BYTES_MAX
from runtime.clock import monotonic_ns
from wire.framing import Buffer

_SCRATCH: Final = memoryview(bytearray(256 * 1024))
"""What is read before it is decrypted: filled and emptied within one call, so one serves all."""
_ENCRYPTED_AT_ONCE: Final = 256 * 1024
_RECORD_BYTES_MAX: Final = 17 * 1024
"""Of which a part may have come before, and is OpenSSL's to keep."""
_HANDSHAKE_RECORD: Final = 0x16
_RECORD_HEAD_BYTES: Final = 5
_HELLO_HEAD_BYTES: Final = _RECORD_HEAD_BYTES + 4
_CLIENT_HELLO: Final = 1
_VERSION_MAJOR: Final = 3
_TIMEOUTS: Final = (DisconnectCause.FIRST_BYTE_TIMEOUT, DisconnectCause.LOGIN_TIMEOUT)
_PROTOCOL_BYTES_MAX: Final = 64 * 1024
"""What a client may make us answer before it takes any of it: tickets, key updates, alerts."""


class TlsError(OSError):
    """The connection ends with this cause."""

    def __init__(self, cause: DisconnectCause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


class TlsSocket:
    """What is used of a socket, over one. Every call may raise TlsError where a socket raises OSError."""

    __slots__ = (
        "_clock_ns",
        "_context",
        "_has_begun",
        "_has_ended",
        "_hello",
        "_in",
        "_is_fed",
        "_is_user",
        "_out",
        "_pending",
        "_raw",
        "_since_ms",
        "_spent",
        "_tls",
        "_unreported",
        "is_open",
        "opened",
        "user",
    )

    def __init__(
        self,
        raw: socket.socket,
        context: ssl.SSLContext,
        is_user: Callable[[str], bool] | None,
        server_name: str | None = None,
        *,
        clock_ns: Callable[[], int] = monotonic_ns,
        spent: Callable[[int], None] | None = None,
        hello: bytes = b"",
    ) -> None:
        """`is_user` is asked about the name in the client's certificate; None: it need show none.
        `server_name` is the server's at the other end, where we are the client: then `begin` comes first.
        `spent` is told how long each step of the handshake has taken, in ns. `hello` is a whole one that was
        read already: the first read goes on with it."""
        self._raw = raw
        self._context = context
        self._is_user = is_user
        self._clock_ns = clock_ns
        self._spent = spent
        self._since_ms = clock_ns() // 1_000_000
        self._hello = bytearray()
        """What has come of the client's first record while it is not whole."""
        self._has_begun = False
        """Whether OpenSSL is there: it costs much, and is made when the first record is whole."""
        self._has_ended = False
        if hello:
            self._begins(None)
            self._in.write(hello)
        elif server_name is not None:
            self._begins(server_name)
        self._is_fed = bool(hello)
        """Whether OpenSSL has bytes that the socket will not tell of."""
        self.is_open = False
        """Whether the handshake is done."""
        self.opened: Callable[[], None] | None = None
        """Called once, when it is."""
        self.user: str | None = None
        """The name in the client's certificate."""
        self._pending: bytes = b""
        """Ciphertext that the kernel has not taken."""
        self._unreported = 0
        """So much of what the caller still has is encrypted already, in `_pending`."""

    def _begins(self, server_name: str | None) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._context.wrap_bio(
            self._in, self._out, server_side=server_name is None, server_hostname=server_name
        )
        self._has_begun = True

    def fileno(self) -> int:
        """Of the socket below."""
        return self._raw.fileno()

    def getsockopt(self, level: int, option: int) -> int:
        """Of the socket below."""
        return self._raw.getsockopt(level, option)

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """Of the socket below."""
        self._raw.setsockopt(level, option, value)

    def shutdown(self, how: int) -> None:
        """Of the socket below."""
        self._raw.shutdown(how)

    def begin(self) -> None:
        """As the client: say hello. Raises: OSError."""
        self._shake_hands()

    # Reading

    def recv_into(self, view: memoryview) -> int:
        """Decrypted bytes; 0 at the end. No byte stays behind that the kernel would not tell of: `view` has
        room for all that is read. Raises: BlockingIOError when none can be read now."""
        if self._has_ended:
            return 0
        room = min(len(view) - _RECORD_BYTES_MAX, len(_SCRATCH))
        assert room > 0, "a receive window is larger than a record"
        if self._is_fed:
            self._is_fed = False
        else:
            count = self._raw.recv_into(_SCRATCH[:room])
            if not count:
                return 0
            if self._has_begun:
                self._in.write(_SCRATCH[:count])
            elif not self._has_hello(_SCRATCH[:count]):
                raise BlockingIOError
        if not self.is_open and not self._shake_hands():
            raise BlockingIOError
        filled = self._decrypt(view)
        self._answer()
        if filled is None:
            raise BlockingIOError
        return filled

    def _has_hello(self, came: memoryview) -> bool:
        """Whether the client's first record is whole, and OpenSSL has it now."""
        hello = self._hello
        hello += came
        if hello[0] != _HANDSHAKE_RECORD:
            raise TlsError(DisconnectCause.NOT_TLS, "the first bytes are no handshake")
        if len(hello) < _HELLO_HEAD_BYTES:
            return False
        record_bytes = int.from_bytes(hello[3:_RECORD_HEAD_BYTES], "big")
        message_bytes = int.from_bytes(hello[6:_HELLO_HEAD_BYTES], "big")
        is_hello = hello[1] == _VERSION_MAJOR and hello[_RECORD_HEAD_BYTES] == _CLIENT_HELLO
        if not is_hello or max(record_bytes, message_bytes) > _HELLO_BYTES_MAX:
            raise TlsError(DisconnectCause.TLS_HANDSHAKE_FAILED, "the first record is no hello of a client")
        if len(hello) < _RECORD_HEAD_BYTES + record_bytes:
            return False
        self._begins(None)
        self._in.write(hello)
        self._hello = bytearray()
        return True

    def _shake_hands(self) -> bool:
        """Whether it is done."""
        began_ns = self._clock_ns()
        try:
            return self._handshake_step()
        finally:
            if self._spent is not None:
                self._spent(self._clock_ns() - began_ns)

    def _handshake_step(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._answer()
            return False
        except ssl.SSLError as error:
            with suppress(OSError):
                self._answer()  # an alert says why
            raise TlsError(DisconnectCause.TLS_HANDSHAKE_FAILED, str(error)) from error
        if self._is_user is not None:
            self.user = common_name(self._tls.getpeercert())
            if self.user is None or not self._is_user(self.user):
                raise TlsError(DisconnectCause.CERTIFICATE_REFUSED, f"no user {self.user!r}")
        self.is_open = True
        if self.opened is not None:
            self.opened()
            self.opened = None
        return True

    def overdue(
        self, cause: DisconnectCause | None, handshake_ms: int, now_ms: int
    ) -> DisconnectCause | None:
        """Why it is overdue, `cause` in more detail; None: it is not."""
        if self.is_open:
            return cause
        is_late = now_ms - self._since_ms >= handshake_ms
        return DisconnectCause.TLS_HANDSHAKE_TIMEOUT if is_late or cause in _TIMEOUTS else cause

    @property
    def is_void(self) -> bool:
        """Whether the user whose certificate was shown is there no more."""
        return self.user is not None and self._is_user is not None and not self._is_user(self.user)

    def _decrypt(self, view: memoryview) -> int | None:
        """How many bytes were made; None: not even a record is whole, 0: the client has ended it."""
        filled = 0
        try:
            while count := self._tls.read(len(view) - filled, cast(bytearray, view[filled:])):
                filled += cast(int, count)
        except ssl.SSLWantReadError:
            return filled or None
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            raise TlsError(DisconnectCause.CLIENT_RESET, str(error)) from error
        self._has_ended = True
        return filled

    def _answer(self) -> None:
        """Send what the protocol itself has to say."""
        if self._out.pending and not self._flush() and len(self._pending) > _PROTOCOL_BYTES_MAX:
            raise TlsError(DisconnectCause.CLIENT_RESET, "it makes us answer and reads nothing")

    # Sending

    def send(self, data: Buffer) -> int:
        """So much of it the kernel has now. What it has not, in whole pieces, is to be brought again."""
        if not self._flush():
            raise BlockingIOError
        at = min(self._unreported, len(data))
        self._unreported -= at
        while at < len(data):
            piece = data[at : at + _ENCRYPTED_AT_ONCE]
            try:
                self._tls.write(piece)
            except ssl.SSLError as error:
                raise TlsError(DisconnectCause.CLIENT_RESET, str(error)) from error
            if not self._flush():
                self._unreported = len(piece)
                if not at:
                    raise BlockingIOError
                return at
            at += len(piece)
        return at

    def sendmsg(self, pieces: Sequence[Buffer]) -> int:
        """The same of several."""
        return self.send(b"".join(pieces))

    def _flush(self) -> bool:
        """Whether the kernel has all that is encrypted."""
        while self._pending or self._out.pending:
            if self._out.pending:
                self._pending += self._out.read()
            try:
                sent = self._raw.send(self._pending)
            except (BlockingIOError, InterruptedError):
                return False
            self._pending = self._pending[sent:]
        return True

    def close(self) -> None:
        """Say that no more comes, if the kernel takes that at once, and close."""
        if self.is_open and not self._pending:
            with suppress(OSError):  # the client has not said so itself, or it is gone
                self._tls.unwrap()
            with suppress(OSError):
                self._flush()
        self._raw.close()


def cause_of(error: OSError) -> DisconnectCause:
    """Why the connection to a client broke."""
    return error.cause if isinstance(error, TlsError) else DisconnectCause.CLIENT_RESET


def upstream_cause_of(error: OSError) -> DisconnectCause:
    """Why the connection to a broker broke."""
    of_tls = isinstance(error, TlsError)
    return DisconnectCause.UPSTREAM_TLS_FAILED if of_tls else DisconnectCause.UPSTREAM_CLOSED


def common_name(certificate: Mapping[str, object] | None) -> str | None:
    """The common name of a certificate's subject; None: it has none, or several, and it is not said which."""
    parts = cast(tuple[tuple[tuple[str, str], ...], ...], (certificate or {}).get("subject", ()))
    names = [value for part in parts for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None
