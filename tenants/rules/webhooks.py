"""Webhooks: where they may go, how a message is signed, and when it is tried again. Pure.

Source: Standard Webhooks 1.0 (signature `v1` over id, timestamp and body).
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

URL_CHARACTERS_MAX: Final = 1024
"""A webhook's URL."""
WEBHOOKS_MAX: Final = 10
"""Webhooks of one tenant."""
LOG_MAX: Final = 100
"""Messages of one webhook that its log keeps, besides those that wait."""
ANSWER_BYTES_MAX: Final = 16 * 1024
"""Of a sink's answer: its head, too, must fit."""
ATTEMPT_MS_MAX: Final = 10_000
"""One attempt, from looking up the name to the answer's head."""
BACKOFF_MS: Final = (5_000, 30_000, 120_000, 600_000, 1_800_000, 7_200_000, 18_000_000)
"""After each attempt that failed; after the last of them the message is given up, some 8 h old."""
GIVEN_UP_MS: Final = sum(BACKOFF_MS)
"""So old a message is of no use any more, however seldom it was tried."""
SECRET_PREFIX: Final = "whsec_"
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_SCHEMES: Final = ("http", "https")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_REFUSED: Final = (
    *(IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20")),
    *(IPv6Network("fec0::/10"), IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96")),
    IPv4Network("168.63.129.16/32"),
)
"""What Python takes for global and is not: of protocols, of documents, of sites; what holds an IPv4 address
in ways that are no longer used; and where Azure answers its own machines."""


class Kind(StrEnum):
    """How somebody is told."""

    HTTP = "http"
    EMAIL = "email"


class DeliveryState(StrEnum):
    """How far a message is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


def fault_of_url(url: str) -> str | None:
    """What is wrong with a webhook's URL by its looks; None: it may be tried."""
    if len(url) > URL_CHARACTERS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        return f"must be a URL of at most {URL_CHARACTERS_MAX} characters of ASCII"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in _SCHEMES or not parts.hostname:
        return "must begin with https:// (or http://) and name a host"
    if parts.username is not None or parts.password is not None:
        return "must have no user and no password in it"
    if parts.fragment:
        return "must have no fragment"
    return "is no URL" if port == 0 else None


def refusal_of(address: str, allowed: Sequence[Network]) -> str | None:
    """Why an address that a name resolved to may not be called; None: it may.

    What leads into the operators' own networks may be called only where they allow its range.
    """
    found = _meant(ip_address(address.partition("%")[0]))
    if any(found.version == network.version and found in network for network in allowed):
        return None
    is_refused = any(found.version == network.version and found in network for network in _REFUSED)
    if is_refused or not found.is_global or found.is_multicast or found.is_reserved or found.is_unspecified:
        return f"{found} is no address of the public internet"
    return None


def _meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address.teredo is not None:
            return address.teredo[1]
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def secret_of(key: bytes) -> str:
    """A secret as sinks are given it."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def signature(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """What `webhook-signature` says."""
    said = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()


def next_try_ms(attempts: int, now_ms: int) -> int | None:
    """When a message is tried again that failed so often; None: it is given up."""
    return now_ms + BACKOFF_MS[attempts - 1] if attempts <= len(BACKOFF_MS) else None


def is_delivered(status: int) -> bool:
    """Whether a sink's answer takes the message: a redirect does not, and is not followed."""
    return 200 <= status < 300
