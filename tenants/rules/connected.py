"""Who is connected to an instance, over the gateway workers that count. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from contracts.connected import ClientIdSum, Connected, ConnectedClient

SHOWN_MAX: Final = 100
"""Clients that are told of an instance; what is left is told as one."""
_EMPTY: Final = ConnectedClient(address="")


class Counted(NamedTuple):
    """What a worker counted last."""

    at_ms: int
    """Monotonic."""
    connected: Connected


class Clients(NamedTuple):
    """All of an instance's."""

    items: list[ConnectedClient]
    """Who carries most comes first."""
    others: ConnectedClient | None
    """Those that are not among them, together."""
    known: int
    """Clients, at least: each worker tells apart a bounded number."""
    age_ms: int | None
    """Of the oldest count; None: nobody has counted."""


def clients_of(counts: Sequence[Counted], now_ms: int) -> Clients:
    """One client that is connected by several workers is one."""
    sums: dict[tuple[str, str, str, str], ConnectedClient] = {}
    others: list[ConnectedClient] = []
    for _, told in counts:
        for one in told.clients:
            key = (one.address, one.client_id, one.user, one.software)
            sums[key] = _together((sums[key], one), one) if key in sums else one
        if told.others is not None:
            others.append(told.others)
    ranked = sorted(sums.values(), key=_weight, reverse=True)
    others += ranked[SHOWN_MAX:]
    return Clients(
        ranked[:SHOWN_MAX],
        _together(others, _EMPTY) if others else None,
        max((len(ranked), *(told.count for _, told in counts))),
        max((now_ms - at_ms for at_ms, _ in counts), default=None),
    )


def shortened(told: Connected, most: int, most_ids: int) -> Connected:
    """With so many clients, and client ids, by themselves."""
    rest = [*told.clients[most:], *([] if told.others is None else [told.others])]
    return Connected(
        seconds=told.seconds,
        clients=told.clients[:most],
        count=told.count,
        others=_together(rest, _EMPTY) if rest else None,
        by_client_id=_fewer(told.by_client_id, most_ids),
    )


def _fewer(ids: tuple[ClientIdSum, ...], most: int) -> tuple[ClientIdSum, ...]:
    """The first of them, and the others as one; those without an id are among the others already."""
    named = [one for one in ids if one.client_id]
    rest = [*named[most:], *(one for one in ids if not one.client_id)]
    if not rest:
        return tuple(named)
    others = ClientIdSum(
        connections=sum(one.connections for one in rest),
        in_bytes=sum(one.in_bytes for one in rest),
        out_bytes=sum(one.out_bytes for one in rest),
        requests=sum(one.requests for one in rest),
        throttled_ms=max(one.throttled_ms for one in rest),
    )
    return (*named[:most], others)


def _together(them: Iterable[ConnectedClient], name: ConnectedClient) -> ConnectedClient:
    them = list(them)
    return msgspec.structs.replace(
        name,
        connections=sum(one.connections for one in them),
        ended_per_s=round(sum(one.ended_per_s for one in them), 2),
        in_bytes_per_s=sum(one.in_bytes_per_s for one in them),
        out_bytes_per_s=sum(one.out_bytes_per_s for one in them),
    )


def _weight(one: ConnectedClient) -> tuple[float, float, str]:
    return one.in_bytes_per_s + one.out_bytes_per_s, one.connections + one.ended_per_s, one.address
