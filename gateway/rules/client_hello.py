"""The name in a client's first message of TLS (RFC 8446 4.1.2, RFC 6066 3), read before OpenSSL is.

Only what says whose connection it is is looked at; everything else is OpenSSL's to judge, which gets the same
bytes. A message may come in many records, and a record in many pieces.
"""

import re
from typing import Final

from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop

HELLO_BYTES_MAX: Final = 16 * 1024
"""A client's first message of TLS, with the heads of its records. OpenSSL takes 128 KiB, and sets so much
aside as soon as the message says that it is so long; those of clients have 0.3 to 2 KiB."""
_HANDSHAKE_RECORD: Final = 0x16
_RECORD_HEAD_BYTES: Final = 5
_VERSION_MAJOR: Final = 3
_CLIENT_HELLO: Final = 1
_MESSAGE_HEAD_BYTES: Final = 4
_VERSION_AND_RANDOM_BYTES: Final = 2 + 32
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_NAME: Final = re.compile(rb"[A-Za-z0-9._-]{1,253}\Z")


class HelloReader:
    """One hello while it comes. What has come is kept, for OpenSSL."""

    __slots__ = ("_at", "_message", "received")

    def __init__(self) -> None:
        self.received = bytearray()
        self._message = bytearray()
        """Of whole records."""
        self._at = 0
        """Behind those."""

    @property
    def room(self) -> int:
        """How much more may be read."""
        return HELLO_BYTES_MAX - len(self.received)

    def feed(self, came: bytes) -> str | None:
        """The name, in lower case, once the hello is whole. Raises: ConnectionStop at the first byte that
        cannot belong to one, or where it names nobody, or nobody clearly."""
        self.received += came
        while self._takes_record():
            if self._is_whole():
                return _name(memoryview(self._message)[_MESSAGE_HEAD_BYTES:])
        if not self.room:
            raise _malformed("a hello that is too long")
        return None

    def _takes_record(self) -> bool:
        """Whether one more is whole."""
        head = self.received[self._at : self._at + _RECORD_HEAD_BYTES]
        if head and head[0] != _HANDSHAKE_RECORD:
            if self._at:
                raise _malformed("a hello with something else in it")
            raise ConnectionStop(DisconnectCause.NOT_TLS, "the first bytes are no handshake")
        if len(head) < _RECORD_HEAD_BYTES:
            return False
        size = int.from_bytes(head[3:], "big")
        if head[1] != _VERSION_MAJOR or not 0 < size <= HELLO_BYTES_MAX:
            raise _malformed(f"a record of version {head[1]}, {size} bytes")
        end = self._at + _RECORD_HEAD_BYTES + size
        if len(self.received) < end:
            return False
        self._message += self.received[self._at + _RECORD_HEAD_BYTES : end]
        self._at = end
        return True

    def _is_whole(self) -> bool:
        message = self._message
        if message[0] != _CLIENT_HELLO:
            raise _malformed(f"the first message is of type {message[0]}")
        if len(message) < _MESSAGE_HEAD_BYTES:
            return False
        missing = _MESSAGE_HEAD_BYTES + int.from_bytes(message[1:_MESSAGE_HEAD_BYTES], "big") - len(message)
        if missing < 0:
            raise _malformed("something follows the hello in its record")
        if missing > self.room:
            raise _malformed("a hello that is too long")
        return missing == 0


class _Fields:
    """Reads over a hello. Every call raises ConnectionStop beyond its end."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def ended(self) -> bool:
        return self._at == len(self._body)

    def take(self, size: int) -> memoryview:
        if size > len(self._body) - self._at:
            raise _malformed("a length that goes beyond the end")
        self._at += size
        return self._body[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_bytes: int) -> memoryview:
        return self.take(self.number(length_bytes))


def _name(body: memoryview) -> str:
    hello = _Fields(body)
    hello.take(_VERSION_AND_RANDOM_BYTES)
    for length_bytes in (1, 2, 1):  # session id, cipher suites, compression
        hello.vector(length_bytes)
    names: list[memoryview] = []
    if not hello.ended():
        extensions = _Fields(hello.vector(2))
        while not extensions.ended():
            kind, content = extensions.number(2), extensions.vector(2)
            if kind == _SERVER_NAME:
                names += _host_names(content)
    if not hello.ended():
        raise _malformed("something follows the extensions")
    if not names:
        raise ConnectionStop(DisconnectCause.SERVER_NAME_MISSING, "a hello without a server name")
    if len(names) > 1:
        raise _malformed("more than one server name")
    name = bytes(names[0])
    if _NAME.match(name) is None:
        raise _malformed("a server name that is none of DNS")
    return name.decode("ascii").lower().removesuffix(".")


def _host_names(content: memoryview) -> list[memoryview]:
    fields = _Fields(content)
    entries = _Fields(fields.vector(2))
    if not fields.ended() or entries.ended():
        raise _malformed("a list of server names with a wrong length")
    found = []
    while not entries.ended():
        kind, name = entries.number(1), entries.vector(2)
        if kind != _HOST_NAME:
            raise _malformed(f"a server name of type {kind}")
        found.append(name)
    return found


def _malformed(detail: str) -> ConnectionStop:
    return ConnectionStop(DisconnectCause.TLS_HANDSHAKE_FAILED, detail)
