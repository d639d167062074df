"""Counts who is connected to each instance and what he carries, some connections a second.

A count of an instance goes over its connections in parts, so that one with tens of thousands of them takes
no more of the loop at once than one with hundreds. What each has carried stands at the connection.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol

from contracts.connected import Connected
from gateway.rules.connected import Identity, Taken, Tally

EVERY_MS: Final = 5_000
"""An instance is counted as often at most."""
_AT_ONCE_MIN: Final = 500
"""Connections that one step looks at."""
_SHARE: Final = 10
"""With more of them, a tenth of all, so that a round is over in ten steps."""
TOLD_MAX: Final = 64
"""Instances whose counts one step gives away: reports stay small; the others follow."""


class Received(Protocol):
    """What came from a client."""

    bytes_in: int
    frames: int
    """Requests."""


class Sent(Protocol):
    """What went to clients."""

    bytes_out: int


class Named(Protocol):
    """A session, as far as it is counted."""

    @property
    def identity(self) -> Identity:
        """Who has opened it, as far as is known by now."""

    @property
    def requests(self) -> Received:
        """Its first half."""

    def throttled_ms(self, now_ms: int) -> int:
        """For how long it was told to wait, up to now."""


class Carried:
    """What a connection has carried, and how much of it was counted."""

    __slots__ = (
        "_account",
        "_in_counted",
        "_out_counted",
        "_requests_counted",
        "_session",
        "_throttled_counted_ms",
        "bytes_out",
    )

    def __init__(self, session: Named, account: Sent) -> None:
        """`account`: what is added to as well."""
        self._session = session
        self._account = account
        self.bytes_out = self._in_counted = self._out_counted = 0
        self._requests_counted = self._throttled_counted_ms = 0

    def went_out(self, size: int) -> None:
        """So many bytes went to the client."""
        self.bytes_out += size
        self._account.bytes_out += size

    def take(self, now_ms: int) -> Taken:
        """Who, and what it did since this was asked last."""
        session = self._session
        bytes_in, requests = session.requests.bytes_in, session.requests.frames
        bytes_out, throttled_ms = self.bytes_out, session.throttled_ms(now_ms)
        taken = Taken(
            session.identity,
            bytes_in - self._in_counted,
            bytes_out - self._out_counted,
            requests - self._requests_counted,
            throttled_ms - self._throttled_counted_ms,
        )
        self._in_counted, self._out_counted = bytes_in, bytes_out
        self._requests_counted, self._throttled_counted_ms = requests, throttled_ms
        return taken


class Counted(Protocol):
    """A connection, as far as it is counted."""

    @property
    def closed(self) -> bool:
        """Whether it has ended: then it was counted when it did."""

    @property
    def carried(self) -> Carried:
        """What it has carried."""


class Account:
    """Of one instance: who left since the last count, and since when that is counted."""

    __slots__ = ("is_told", "left", "since_ms")

    def __init__(self, now_ms: int) -> None:
        self.left = Tally()
        self.since_ms = now_ms
        self.is_told = False
        """Whether the last count found anybody: then one that finds nobody is news."""

    def leaves(self, connection: Counted, now_ms: int) -> None:
        """A connection has ended."""
        self.left.ended(connection.carried.take(now_ms))


class Place(Protocol):
    """An instance, as far as it is counted."""

    @property
    def account(self) -> Account:
        """Its own."""

    @property
    def connections(self) -> Collection[Counted]:
        """Those that are open."""


class Census:
    """Goes around all instances."""

    def __init__(self) -> None:
        self._round: Iterator[tuple[str, Place]] = iter(())
        self._under_way: tuple[str, Place, Iterator[Counted], Tally] | None = None

    def step(self, places: Mapping[str, Place], connections: int, now_ms: int) -> dict[str, Connected]:
        """Count on; the counts that ended with it. `connections`: of all instances."""
        left = max(_AT_ONCE_MIN, connections // _SHARE)
        done: dict[str, Connected] = {}
        looked_at = 0
        while left > 0 and len(done) < TOLD_MAX:
            if self._under_way is None:
                found = self._next(places, now_ms)
                if found is None:
                    if looked_at:
                        break  # once around is enough
                    looked_at = 1
                    self._round = iter(list(places.items()))
                    continue
                instance_id, place = found
                self._under_way = instance_id, place, iter(list(place.connections)), place.account.left
                place.account.left = Tally()
            instance_id, place, open_ones, tally = self._under_way
            taken = 0
            for connection in islice(open_ones, left):
                taken += 1
                if not connection.closed:
                    tally.open(connection.carried.take(now_ms))
            left -= max(1, taken)
            if left > 0:
                account, self._under_way = place.account, None
                if places.get(instance_id) is place:
                    done[instance_id] = told = tally.result(max(1, now_ms - account.since_ms) / 1000)
                    account.is_told = told.count > 0 or told.others is not None
                account.since_ms = now_ms
        return done

    def _next(self, places: Mapping[str, Place], now_ms: int) -> tuple[str, Place] | None:
        for instance_id, place in self._round:
            account = place.account
            if not (place.connections or account.is_told or not account.left.is_empty):
                account.since_ms = now_ms  # what comes next is not spread over the time without it
            elif now_ms - account.since_ms >= EVERY_MS and places.get(instance_id) is place:
                return instance_id, place
        return None
