"""The name in a client's hello: of OpenSSL's own, in pieces, and of hellos that nobody should send."""

import ssl
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.causes import DisconnectCause
from gateway.rules.client_hello import HELLO_BYTES_MAX, HelloReader
from gateway.stops import ConnectionStop

NAME = "b1-iaaaaaaaaaaa.kafka.example.com"


def hello_of_openssl(name: str | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """As a client sends it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.maximum_version = version
    came, made = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(came, made, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return made.read()


def vector(length_bytes: int, content: bytes) -> bytes:
    return len(content).to_bytes(length_bytes, "big") + content


def entry(name: bytes, kind: int = 0) -> bytes:
    return bytes((kind,)) + vector(2, name)


def names(*entries: bytes) -> bytes:
    """The extension."""
    return struct.pack("!H", 0) + vector(2, vector(2, b"".join(entries)))


def message(*extensions: bytes, tail: bytes = b"") -> bytes:
    """A hello with these extensions and nothing else of use."""
    body = b"\x03\x03" + bytes(32) + vector(1, b"") + vector(2, b"\x13\x01") + vector(1, b"\0")
    return b"\x01" + vector(3, body + vector(2, b"".join(extensions)) + tail)


def records(of: bytes, size: int = 16_000) -> bytes:
    """A message in records of at most so many bytes."""
    pieces = [of[at : at + size] for at in range(0, len(of), size)]
    return b"".join(b"\x16\x03\x01" + vector(2, piece) for piece in pieces)


def cause_of(sent: bytes) -> DisconnectCause:
    with pytest.raises(ConnectionStop) as stopped:
        assert HelloReader().feed(sent) is None, "no name is made of it"
    return stopped.value.cause


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_in_a_hello_of_openssl(version: ssl.TLSVersion) -> None:
    assert HelloReader().feed(hello_of_openssl(NAME, version)) == NAME
    assert HelloReader().feed(hello_of_openssl(NAME.upper(), version)) == NAME


@given(sizes=st.lists(st.integers(1, 64)), record=st.integers(1, 300))
def test_in_pieces_and_in_many_records(sizes: list[int], record: int) -> None:
    sent = records(hello_of_openssl(NAME)[5:], record)
    reader, at = HelloReader(), 0
    if len(sent) > HELLO_BYTES_MAX:
        return
    for size in sizes:
        if at + size >= len(sent):
            break
        assert reader.feed(sent[at : at + size]) is None
        at += size
    assert reader.feed(sent[at:] + b"what follows") == NAME
    assert bytes(reader.received) == sent + b"what follows", "OpenSSL gets all of it"


def test_a_name_is_asked_for() -> None:
    missing = DisconnectCause.SERVER_NAME_MISSING
    assert cause_of(hello_of_openssl(None)) is missing
    assert cause_of(hello_of_openssl("127.0.0.1")) is missing, "an address is not sent as a name"
    assert cause_of(records(message())) is missing
    encrypted_name_alone = struct.pack("!H", 0xFFCE) + vector(2, b"\x13\x01" + bytes(300))
    assert cause_of(records(message(encrypted_name_alone))) is missing
    assert cause_of(records(message()[:-2].replace(message()[1:4], (41).to_bytes(3, "big")))) is missing


@pytest.mark.parametrize(
    "sent",
    [
        message(names(entry(b"a.example")), names(entry(b"b.example"))),
        message(names(entry(b"a.example"), entry(b"b.example"))),
        message(names(entry(b"a.example", kind=1))),
        message(names(entry(b""))),
        message(names(entry(b"a.example\0.evil"))),
        message(names(entry("ä.example".encode()))),
        message(names(entry(b"a" * 254))),
        message(names()),
        message(struct.pack("!H", 0) + vector(2, b"")),
        message(struct.pack("!H", 0) + vector(2, vector(2, entry(b"a.example")) + b"x")),
        message(struct.pack("!HH", 0, 900) + b"cut"),
        message(names(entry(b"a.example")), tail=b"more"),
        message(names(entry(b"a.example"))) + b"\x0b\0\0\0",
        b"\x02" + message()[1:],
        b"\x01\xff\xff\xff",
    ],
)
def test_what_names_nobody_clearly_is_refused(sent: bytes) -> None:
    assert cause_of(records(sent)) is DisconnectCause.TLS_HANDSHAKE_FAILED


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x02",
        b"\x16\x03\x01\0\0",
        b"\x16\x03\x01\xff\xff",
        records(message(struct.pack("!H", 21) + vector(2, bytes(20_000)))),
    ],
)
def test_records_that_are_none_of_a_hello(sent: bytes) -> None:
    assert cause_of(sent.ljust(HELLO_BYTES_MAX, b"\0")) in (
        DisconnectCause.TLS_HANDSHAKE_FAILED,
        DisconnectCause.NOT_TLS,
    )


def test_no_tls_at_all() -> None:
    assert cause_of(b"\0\0\0\x2e\0\x12\0\x03") is DisconnectCause.NOT_TLS
    assert cause_of(b"GET / HTTP/1.1") is DisconnectCause.NOT_TLS


def test_no_more_is_kept_than_a_hello_may_have() -> None:
    reader = HelloReader()
    sent = records(message(struct.pack("!H", 21) + vector(2, bytes(4_000))), 1)

    def feed_all() -> None:
        at = 0
        while at < len(sent):
            piece = sent[at : at + min(500, reader.room)]
            assert piece, "there is room until it is refused"
            assert reader.feed(piece) is None
            at += len(piece)

    _stops(feed_all)
    assert len(reader.received) <= HELLO_BYTES_MAX


def _stops(work: Callable[[], None]) -> None:
    with pytest.raises(ConnectionStop) as stopped:
        work()
    assert stopped.value.cause is DisconnectCause.TLS_HANDSHAKE_FAILED
