"""Who may connect: CIDRs of v4 and v6, mapped v4 folded, an empty list admits nobody (design: Gateway)."""

import ipaddress
from collections.abc import Iterable
from typing import Final

_MAPPED_V4: Final = 0xFFFF << 32
_MAPPED_PREFIX_BITS: Final = 96


def folded_address(text: str) -> tuple[int, int]:
    """(version, address as integer) of a peer's address; v4 mapped into v6 is v4, a v6 zone is dropped.

    Raises: ValueError for text that is no address.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    number = int(address)
    if address.version == 6 and number >> 32 == 0xFFFF:
        return 4, number - _MAPPED_V4
    return address.version, number


def shown_address(text: str) -> str:
    """A peer's address as people write it: v4 mapped into v6 as v4."""
    version, number = folded_address(text)
    return str(ipaddress.IPv4Address(number)) if version == 4 else str(ipaddress.IPv6Address(number))


def _folded_network(cidr: str) -> tuple[int, int, int]:
    """(version, network, bits that may differ). Raises: ValueError."""
    network = ipaddress.ip_network(cidr, strict=False)
    number, prefix, version = int(network.network_address), network.prefixlen, network.version
    if version == 6 and prefix >= _MAPPED_PREFIX_BITS and number >> 32 == 0xFFFF:
        number, prefix, version = number - _MAPPED_V4, prefix - _MAPPED_PREFIX_BITS, 4
    free_bits = (32 if version == 4 else 128) - prefix
    return version, number >> free_bits, free_bits


class Whitelist:
    """A compiled list. An entry that is no CIDR admits nobody: `faults` names it."""

    def __init__(self, cidrs: Iterable[str], *, allow_all: bool = False) -> None:
        self.allow_all = allow_all
        self.faults: list[str] = []
        self._networks: list[tuple[int, int, int]] = []
        for cidr in cidrs:
            try:
                self._networks.append(_folded_network(cidr))
            except ValueError as error:
                self.faults.append(str(error))

    def admits(self, address: str) -> bool:
        """Whether a peer with this address may connect."""
        if self.allow_all:
            return True
        try:
            version, number = folded_address(address)
        except ValueError:
            return False
        return any(
            version == of_version and number >> free_bits == network
            for of_version, network, free_bits in self._networks
        )
