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
from wire.framing import Buffer

_SCRATCH: Final = memoryview(bytearray(256 * 1024))
"""What is read before it is decrypted: filled and emptied within one call, so one serves all."""
_ENCRYPTED_AT_ONCE: Final = 256 * 1024
_RECORD_BYTES_MAX: Final = 17 * 1024
"""Of which a part may have come before, and is OpenSSL's to keep."""
_HANDSHAKE_RECORD: Final = 0x16
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
        "_has_begun",
        "_has_ended",
        "_in",
        "_is_user",
        "_out",
        "_pending",
        "_raw",
        "_tls",
        "_unreported",
        "is_open",
        "user",
    )

    def __init__(
        self,
        raw: socket.socket,
        context: ssl.SSLContext,
        is_user: Callable[[str], bool] | None,
        server_name: str | None = None,
    ) -> None:
        """`is_user` is asked about the name in the client's certificate; None: it need show none.
        `server_name` is the server's at the other end, where we are the client: then `begin` comes first."""
        self._raw = raw
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_name is None
        self._tls = context.wrap_bio(self._in, self._out, server_side=is_server, server_hostname=server_name)
        self._is_user = is_user
        self._has_begun = not is_server
        self._has_ended = False
        self.is_open = False
        """Whether the handshake is done."""
        self.user: str | None = None
        """The name in the client's certificate."""
        self._pending: bytes = b""
        """Ciphertext that the kernel has not taken."""
        self._unreported = 0
        """So much of what the caller still has is encrypted already, in `_pending`."""

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
        count = self._raw.recv_into(_SCRATCH[:room])
        if not count:
            return 0
        if not self._has_begun and _SCRATCH[0] != _HANDSHAKE_RECORD:
            raise TlsError(DisconnectCause.NOT_TLS, "the first bytes are no handshake")
        self._has_begun = True
        self._in.write(_SCRATCH[:count])
        if not self.is_open and not self._shake_hands():
            raise BlockingIOError
        filled = self._decrypt(view)
        self._answer()
        if filled is None:
            raise BlockingIOError
        return filled

    def _shake_hands(self) -> bool:
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
        return True

    def named(self, cause: DisconnectCause | None) -> DisconnectCause | None:
        """Why it is overdue, in more detail."""
        if cause is DisconnectCause.FIRST_BYTE_TIMEOUT and not self.is_open:
            return DisconnectCause.TLS_HANDSHAKE_TIMEOUT
        return cause

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
