"""Who is connected to an instance, and what of its rates he uses, as one gateway worker counts it."""

from typing import Final

import msgspec

TOLD_MAX: Final = 20
"""Clients of one instance that a worker tells of by themselves; the others are told as one."""


class ConnectedClient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Connections of one address, client id, user and software. But for the address and the user, who has
    logged in, all of it is the client's own word."""

    address: str
    client_id: str = ""
    user: str = ""
    """Empty: nobody had to log in, or he has not yet."""
    software: str = ""
    """Name and version."""
    connections: int = 0
    """Open ones."""
    ended_per_s: float = 0
    """Connections that ended: many a second, and the client dials again and again."""
    in_bytes_per_s: int = 0
    """From the client."""
    out_bytes_per_s: int = 0
    """To the client."""


class ClientIdSum(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all connections of one client id have carried in a count, wherever they came from."""

    client_id: str = ""
    """By the client's own word, cut. Empty: those that said none, and all that are not told by themselves."""
    connections: int = 0
    """Open ones."""
    in_bytes: int = 0
    """From the clients."""
    out_bytes: int = 0
    """To the clients."""
    requests: int = 0
    """Begun ones."""
    throttled_ms: int = 0
    """For how long it was told to wait, of the connection where that was longest."""


class Connected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of an instance's clients at a worker."""

    seconds: float
    """Over which rates are averaged."""
    clients: tuple[ConnectedClient, ...] = ()
    """Those that use most."""
    count: int = 0
    """Of all, those that are not among them included, as far as they were told apart."""
    others: ConnectedClient | None = None
    """The rest together; its address is empty."""
    by_client_id: tuple[ClientIdSum, ...] = ()
    """The same connections by client id: the busiest, and the others as one, which comes last."""
