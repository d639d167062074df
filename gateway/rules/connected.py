"""Adds up what the connections of an instance carry, by who has opened them. Pure."""

from typing import Final, NamedTuple

from contracts.connected import TOLD_MAX, ClientIdSum, Connected, ConnectedClient

TOLD_APART_MAX: Final = 500
"""Clients of one instance that are told apart in one count. A client chooses its client id, a flood of them
a new one each time: who comes when so many are known is counted among the others."""


_KEPT_OF_IDS: Final = TOLD_APART_MAX // 2


class Identity(NamedTuple):
    """What connections are told apart by."""

    address: str
    client_id: str = ""
    user: str = ""
    software: str = ""


_OTHERS: Final = Identity("")


class _Sum:
    __slots__ = ("connections", "ended", "in_bytes", "out_bytes")

    def __init__(self) -> None:
        self.connections = self.ended = self.in_bytes = self.out_bytes = 0

    @property
    def weight(self) -> tuple[int, int]:
        """Whoever has more is named first."""
        return self.in_bytes + self.out_bytes, self.connections + self.ended

    def add(self, other: "_Sum") -> None:
        self.connections += other.connections
        self.ended += other.ended
        self.in_bytes += other.in_bytes
        self.out_bytes += other.out_bytes


class Taken(NamedTuple):
    """What one connection has done since it was counted last."""

    identity: Identity
    in_bytes: int = 0
    out_bytes: int = 0
    requests: int = 0
    throttled_ms: int = 0


class _IdSum:
    __slots__ = ("connections", "in_bytes", "out_bytes", "requests", "throttled_ms")

    def __init__(self) -> None:
        self.connections = self.in_bytes = self.out_bytes = self.requests = self.throttled_ms = 0

    @property
    def weight(self) -> tuple[int, int, int]:
        return self.in_bytes + self.out_bytes, self.requests, self.connections

    def take(self, taken: Taken) -> None:
        self.in_bytes += taken.in_bytes
        self.out_bytes += taken.out_bytes
        self.requests += taken.requests
        self.throttled_ms = max(self.throttled_ms, taken.throttled_ms)

    def add(self, other: "_IdSum") -> None:
        self.connections += other.connections
        self.in_bytes += other.in_bytes
        self.out_bytes += other.out_bytes
        self.requests += other.requests
        self.throttled_ms = max(self.throttled_ms, other.throttled_ms)


class _ByClientId:
    """Sums by client id. In a flood of ids those that have carried most so far stay."""

    def __init__(self) -> None:
        self._sums: dict[str, _IdSum] = {}
        self._others = _IdSum()

    def of(self, client_id: str) -> _IdSum:
        if not client_id:
            return self._others
        found = self._sums.get(client_id)
        if found is None:
            if len(self._sums) >= TOLD_APART_MAX:
                self._keep(_KEPT_OF_IDS)
            found = self._sums[client_id] = _IdSum()
        return found

    def _keep(self, most: int) -> None:
        """Add all but the busiest to the others."""
        ranked = sorted(self._sums.items(), key=lambda one: one[1].weight, reverse=True)
        for _, one in ranked[most:]:
            self._others.add(one)
        self._sums = dict(ranked[:most])

    def told(self) -> tuple[ClientIdSum, ...]:
        self._keep(TOLD_MAX)
        found = [_id_sum(client_id, one) for client_id, one in self._sums.items()]
        others = _id_sum("", self._others)
        return tuple(found) if others == ClientIdSum() else (*found, others)


def _id_sum(client_id: str, one: _IdSum) -> ClientIdSum:
    return ClientIdSum(
        client_id=client_id,
        connections=one.connections,
        in_bytes=one.in_bytes,
        out_bytes=one.out_bytes,
        requests=one.requests,
        throttled_ms=one.throttled_ms,
    )


class Tally:
    """One count."""

    def __init__(self) -> None:
        self._sums: dict[Identity, _Sum] = {}
        self._by_id = _ByClientId()

    def open(self, taken: Taken) -> None:
        """An open connection."""
        self._add(taken).connections += 1
        self._by_id.of(taken.identity.client_id).connections += 1

    def ended(self, taken: Taken) -> None:
        """One that has ended since the count before."""
        self._add(taken).ended += 1

    def _add(self, taken: Taken) -> _Sum:
        self._by_id.of(taken.identity.client_id).take(taken)
        found = self._sum(taken.identity)
        found.in_bytes += taken.in_bytes
        found.out_bytes += taken.out_bytes
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nobody was counted."""
        return not self._sums

    def _sum(self, identity: Identity) -> _Sum:
        found = self._sums.get(identity)
        if found is None:
            if len(self._sums) >= TOLD_APART_MAX:
                identity = _OTHERS
            found = self._sums.setdefault(identity, _Sum())
        return found

    def result(self, seconds: float) -> Connected:
        """Who carried most, over so many seconds."""
        others = self._sums.pop(_OTHERS, None)
        ranked = sorted(self._sums.items(), key=lambda one: one[1].weight, reverse=True)
        if ranked[TOLD_MAX:]:
            others = others or _Sum()
            for _, one in ranked[TOLD_MAX:]:
                others.add(one)
        return Connected(
            seconds=round(seconds, 3),
            clients=tuple(_client(*one, seconds) for one in ranked[:TOLD_MAX]),
            count=len(ranked),
            others=None if others is None else _client(_OTHERS, others, seconds),
            by_client_id=self._by_id.told(),
        )


def _client(identity: Identity, one: _Sum, seconds: float) -> ConnectedClient:
    return ConnectedClient(
        **identity._asdict(),
        connections=one.connections,
        ended_per_s=round(one.ended / seconds, 2),
        in_bytes_per_s=round(one.in_bytes / seconds),
        out_bytes_per_s=round(one.out_bytes / seconds),
    )
