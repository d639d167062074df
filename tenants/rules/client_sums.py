"""What clients of an instance did within a step of the series, by client id, over all gateway workers. Pure.

Workers tell sums of some seconds each, one behind the other and never in time with steps. So a step takes as
many seconds as it has from what a worker told and nobody took yet, the oldest first, and a part of the count
in which they end: what steps say adds up to what was carried, and a steady rate is a straight line. That is
some seconds behind the clock, so that a count which comes late finds its step.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from contracts.connected import Connected
from tenants.rules.series import REST, STEP_MS

BEHIND_S: Final = 8
"""How far a step is behind what workers have told: they count every five or six seconds."""
_STEP_S: Final = STEP_MS / 1000
_LATE_S: Final = 30
"""Beyond a step: so much is waiting where counts of very many instances take their turns."""
_COUNTS_MAX: Final = 16
"""Of one instance at one worker, that nobody took: more than come within a minute."""
_MS_PER_S: Final = 1000


class ClientFigure(NamedTuple):
    """Of one client id."""

    in_bytes_per_s: int
    """From the clients, on the wire."""
    out_bytes_per_s: int
    requests_per_s: int
    connections: int
    throttled_ms_per_s: int
    """Of the connection that was told to wait longest."""


class Part(NamedTuple):
    """So much of a count, 0 to 1."""

    counted: Connected
    share: float


class Taken(NamedTuple):
    """What one worker told of one instance for a step."""

    parts: tuple[Part, ...]
    seconds: float
    """What that is divided by."""


class WorkerCounts:
    """What one worker counted of one instance, until a step takes it."""

    __slots__ = ("_begun_s", "_counts", "_idle_s", "_last")

    def __init__(self, first: Connected) -> None:
        self._counts = deque([first], maxlen=_COUNTS_MAX)
        self._last = first
        self._begun_s = 0.0
        """Of the oldest count, what was taken before."""
        self._idle_s: float | None = None
        """Before it, time in which nobody was there and that nobody took; None: no step took anything yet."""

    def add(self, count: Connected) -> None:
        """The next one: it begins where the one before ended."""
        if len(self._counts) == _COUNTS_MAX:
            self._begun_s = 0.0
        self._counts.append(count)
        self._last = count

    def take(self, *, goes_on: bool) -> Taken | None:
        """What a step gets; None: nothing is left, and nothing comes. `goes_on`: the worker reports."""
        counted_s = sum(one.seconds for one in self._counts) - self._begun_s
        goes_on = goes_on and bool(self._last.by_client_id)
        if self._idle_s is None:
            self._idle_s = max(0.0, _STEP_S + BEHIND_S - counted_s)
        here_s = self._idle_s + counted_s
        if _STEP_S <= here_s <= _STEP_S + _LATE_S or (self._counts and not goes_on and here_s < _STEP_S):
            return Taken(tuple(self._oldest(_STEP_S)), _STEP_S)
        if self._counts:  # one of them is missing, or is of a long time: what is known is an average
            return Taken(tuple(self._oldest(here_s)), max(counted_s, 0.001))
        return Taken((Part(self._last, 1.0),), self._last.seconds) if goes_on else None

    def _oldest(self, seconds: float) -> Iterable[Part]:
        assert self._idle_s is not None
        idle_s = min(self._idle_s, seconds)
        self._idle_s -= idle_s
        seconds -= idle_s
        while seconds > 0 and self._counts:
            first = self._counts[0]
            taken_s = min(seconds, first.seconds - self._begun_s)
            seconds -= taken_s
            yield Part(first, taken_s / first.seconds)
            self._begun_s += taken_s
            if self._begun_s >= first.seconds:
                self._counts.popleft()
                self._begun_s = 0.0


@dataclass(slots=True)
class _Sum:
    in_bytes: float = 0
    out_bytes: float = 0
    requests: float = 0
    connections: int = 0
    throttled_ms: float = 0

    def over(self, seconds: float) -> ClientFigure:
        return ClientFigure(
            round(self.in_bytes / seconds),
            round(self.out_bytes / seconds),
            round(self.requests / seconds),
            self.connections,
            min(_MS_PER_S, round(self.throttled_ms / seconds)),
        )


def figures(taken: Taken) -> dict[str, ClientFigure]:
    """By client id, the others without one."""
    sums: dict[str, _Sum] = {}
    for count, share in taken.parts:
        for one in count.by_client_id:
            found = sums.setdefault(one.client_id, _Sum())
            found.in_bytes += one.in_bytes * share
            found.out_bytes += one.out_bytes * share
            found.requests += one.requests * share
            found.connections = max(found.connections, one.connections)
            found.throttled_ms += one.throttled_ms * share
    return {name: one.over(taken.seconds) for name, one in sums.items()}


def tells_of_ids(told: Connected) -> bool:
    """Whether the worker counts by client id: one of a release before did not."""
    return bool(told.by_client_id) or not (told.count or told.others is not None)


def over_workers(taken: Iterable[Taken]) -> dict[str, ClientFigure]:
    """The same client id at several workers is one."""
    found: dict[str, ClientFigure] = {}
    for worker in taken:
        for name, one in figures(worker).items():
            known = found.get(name)
            found[name] = one if known is None else _together(known, one)
    return found


def _together(one: ClientFigure, other: ClientFigure) -> ClientFigure:
    return ClientFigure(
        one.in_bytes_per_s + other.in_bytes_per_s,
        one.out_bytes_per_s + other.out_bytes_per_s,
        one.requests_per_s + other.requests_per_s,
        one.connections + other.connections,
        max(one.throttled_ms_per_s, other.throttled_ms_per_s),
    )


def busiest(found: Mapping[str, ClientFigure]) -> Sequence[str]:
    """Their client ids, who carries most first."""

    def weight(name: str) -> tuple[int, int, int, str]:
        one = found[name]
        return -(one.in_bytes_per_s + one.out_bytes_per_s), -one.requests_per_s, -one.connections, name

    return sorted((name for name in found if name != REST), key=weight)
