"""Adds up what the connections of an instance carry, by who has opened them. Pure."""

from typing import Final, NamedTuple

from contracts.connected import TOLD_MAX, Connected, ConnectedClient

TOLD_APART_MAX: Final = 500
"""Clients of one instance that are told apart in one count. A client chooses its client id, a flood of them
a new one each time: who comes when so many are known is counted among the others."""


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


class Tally:
    """One count."""

    def __init__(self) -> None:
        self._sums: dict[Identity, _Sum] = {}

    def open(self, identity: Identity, in_bytes: int, out_bytes: int) -> None:
        """An open connection, and what it has carried since the count before."""
        found = self._sum(identity)
        found.connections += 1
        found.in_bytes += in_bytes
        found.out_bytes += out_bytes

    def ended(self, identity: Identity, in_bytes: int, out_bytes: int) -> None:
        """One that has ended since."""
        found = self._sum(identity)
        found.ended += 1
        found.in_bytes += in_bytes
        found.out_bytes += out_bytes

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
        )


def _client(identity: Identity, one: _Sum, seconds: float) -> ConnectedClient:
    return ConnectedClient(
        **identity._asdict(),
        connections=one.connections,
        ended_per_s=round(one.ended / seconds, 2),
        in_bytes_per_s=round(one.in_bytes / seconds),
        out_bytes_per_s=round(one.out_bytes / seconds),
    )
