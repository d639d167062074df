"""PROXY headers of version 2, as load balancers write them."""

import socket
import struct
from typing import Final

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
LOCAL: Final = SIGNATURE + bytes([0x20, 0]) + b"\0\0"
"""What a health check sends."""


def header(address: str, port: int = 40_000, *, tlvs: bytes = b"") -> bytes:
    """Of a TCP client at this address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    ports = struct.pack("!HH", port, 9092)
    code = 0x21 if family == socket.AF_INET6 else 0x11
    following = packed + bytes(len(packed)) + ports + tlvs
    return SIGNATURE + bytes([0x21, code]) + struct.pack("!H", len(following)) + following
