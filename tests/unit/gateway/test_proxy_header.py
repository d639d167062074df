"""What load balancers say of their clients, byte by byte."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rules.proxy_header import ProxyHeaderError, Told, read_header
from gateway.rules.whitelist import shown_address
from tests.scenarios.proxy_headers import LOCAL, SIGNATURE, header

_V4 = header("192.0.2.7", 51234)


def _written(version_command: int, family_transport: int, following: bytes) -> bytes:
    return (
        SIGNATURE + bytes([version_command, family_transport]) + struct.pack("!H", len(following)) + following
    )


@pytest.mark.parametrize(
    ("sent", "client"),
    [
        (_V4, ("192.0.2.7", 51234)),
        (header("2001:db8::7", 1), ("2001:db8::7", 1)),
        (header("::ffff:192.0.2.7"), ("192.0.2.7", 40_000)),
        (header("192.0.2.7", tlvs=b"\xea\0\x05vpce-" + b"\x04\x03\xe8" + bytes(1000)), ("192.0.2.7", 40_000)),
        (LOCAL, None),
        (_written(0x20, 0x11, bytes(12)), None),
        (_written(0x21, 0x00, b""), None),
        (_written(0x21, 0x01, b"\xea\0\0"), None),
    ],
)
def test_a_header_is_read_in_any_pieces(sent: bytes, client: tuple[str, int] | None) -> None:
    told = read_header(sent)
    assert isinstance(told, Told)
    assert client == (told.client and (shown_address(told.client[0]), told.client[1]))
    for size in range(len(sent)):
        missing = read_header(sent[:size])
        assert isinstance(missing, int) and 0 < missing <= len(sent) - size


@pytest.mark.parametrize(
    "sent",
    [
        b"PROXY TCP4 192.0.2.7 192.0.2.8 51234 9092\r\n",
        b"\0\0\0\x2e\0\x12\0\x03",  # a Kafka request
        b"\x16\x03\x01",  # TLS
        SIGNATURE[:11] + b"\r",
        _written(0x11, 0x11, bytes(12)),
        _written(0x22, 0x11, bytes(12)),
        _written(0x21, 0x12, bytes(12)),  # UDP
        _written(0x21, 0x31, bytes(216)),  # a Unix socket
        _written(0x21, 0x11, bytes(11)),
        _written(0x21, 0x21, bytes(35)),
        SIGNATURE + b"\x21\x11\xff\xff",
        SIGNATURE + b"\x21\x11\x08\x01",
    ],
)
def test_anything_else_is_refused(sent: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        read_header(sent)


def test_no_byte_behind_the_header_is_asked_for() -> None:
    """What follows is the client's first request."""
    received = b""
    while isinstance(missing := read_header(received), int):
        received = _V4[: len(received) + missing]
    assert received == _V4


@given(st.binary(max_size=300))
def test_random_bytes_do_no_harm(noise: bytes) -> None:
    for sent in (noise, SIGNATURE + noise):
        with contextlib.suppress(ProxyHeaderError):
            assert isinstance(read_header(sent), int | Told)
