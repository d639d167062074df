"""The head of a connection that a load balancer passes on: PROXY protocol, version 2, which names the client.

What else a balancer tells behind the addresses (TLVs) is read over.
"""

import ipaddress
import struct
from typing import Final, NamedTuple

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED: Final = struct.Struct("!12sBBH")
"""Signature; version and command; family and transport; length of what follows."""
_VERSION: Final = 2
_LOCAL, _PROXY = 0, 1
_UNSPEC, _INET, _INET6 = 0, 1, 2
_STREAM: Final = 1
_ADDRESSES: Final = {_INET: struct.Struct("!4s4sHH"), _INET6: struct.Struct("!16s16sHH")}
_FOLLOWING_BYTES_MAX: Final = 2048
"""Addresses and TLVs; those of the large clouds are below 300 bytes."""


class ProxyHeaderError(Exception):
    """The bytes are no PROXY header of version 2; the text says how."""


class Told(NamedTuple):
    """What a whole header says."""

    client: tuple[str, int] | None
    """Address and port; None: the connection is the balancer's own, as those of its health checks are."""


def read_header(received: bytes) -> Told | int:
    """The header, or how many of its bytes are missing at least: not one more may be read.

    Raises: ProxyHeaderError at the first byte that cannot belong to one.
    """
    if received[: len(_SIGNATURE)] != _SIGNATURE[: len(received)]:
        raise ProxyHeaderError("no PROXY header of version 2")
    if len(received) < _FIXED.size:
        return _FIXED.size - len(received)
    _, version_and_command, family_and_transport, following_bytes = _FIXED.unpack_from(received)
    version, command = divmod(version_and_command, 16)
    if version != _VERSION or command not in (_LOCAL, _PROXY):
        raise ProxyHeaderError(f"a PROXY header of version {version}, command {command}")
    if following_bytes > _FOLLOWING_BYTES_MAX:
        raise ProxyHeaderError(f"a PROXY header with {following_bytes} bytes of addresses")
    missing: int = _FIXED.size + following_bytes - len(received)
    if missing > 0:
        return missing
    if command == _LOCAL:
        return Told(None)
    family, transport = divmod(family_and_transport, 16)
    return Told(_client(family, transport, received[_FIXED.size :]))


def _client(family: int, transport: int, following: bytes) -> tuple[str, int] | None:
    if family == _UNSPEC:
        return None
    layout = _ADDRESSES.get(family)
    if layout is None or transport != _STREAM:
        raise ProxyHeaderError(f"a PROXY header for family {family}, transport {transport}")
    if len(following) < layout.size:
        raise ProxyHeaderError(f"a PROXY header with {len(following)} bytes of addresses")
    address, _, port, _ = layout.unpack_from(following)
    return str(ipaddress.ip_address(address)), port
