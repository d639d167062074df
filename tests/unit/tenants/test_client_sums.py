"""What clients did within a step, by client id: every byte is somebody's, once, at whichever worker."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.connected import ClientIdSum, Connected, ConnectedClient
from tenants.rules.client_sums import (
    BEHIND_S,
    ClientFigure,
    Part,
    Taken,
    WorkerCounts,
    busiest,
    figures,
    over_workers,
    tells_of_ids,
)
from tenants.rules.series import STEP_MS

_STEP_S = STEP_MS / 1000


def _count(*ids: ClientIdSum, seconds: float = 5) -> Connected:
    return Connected(seconds=seconds, count=len(ids), by_client_id=ids)


def _carried(in_bytes: int) -> ClientIdSum:
    return ClientIdSum(client_id="a", connections=1, in_bytes=in_bytes)


def _steps(counts: list[tuple[float, Connected]], count: int) -> list[dict[str, ClientFigure] | None]:
    """What steps get of one worker whose counts come at these seconds, until it says no more."""
    found: list[dict[str, ClientFigure] | None] = []
    worker: WorkerCounts | None = None
    left = list(counts)
    for step in range(1, count + 1):
        while left and left[0][0] < step * _STEP_S:
            _, told = left.pop(0)
            if worker is None:
                worker = WorkerCounts(told)
            else:
                worker.add(told)
        taken = None if worker is None else worker.take(goes_on=bool(left))
        found.append(None if taken is None else figures(taken))
    return found


def _in_bytes(found: list[dict[str, ClientFigure] | None]) -> list[int]:
    return [one["a"].in_bytes_per_s if one and "a" in one else 0 for one in found]


def _rhythm(seed: int, seconds: float) -> list[tuple[float, float]]:
    """When a worker counts, and of how many seconds."""
    draw, at_s, found = Random(seed), Random(seed).uniform(0, 15), list[tuple[float, float]]()
    while at_s < seconds:
        length_s = draw.uniform(5, 6.9)
        at_s += length_s
        found.append((at_s, length_s))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_what_steps_say_adds_up_to_what_was_carried_in_whatever_rhythm_it_was_counted(seed: int) -> None:
    draw = Random(seed)
    sizes = [(at, length, draw.choice((0, 0, 10**6))) for at, length in _rhythm(seed, 300)]
    counts = [(at, _count(_carried(size), seconds=length)) for at, length, size in sizes]
    found = _in_bytes(_steps([*counts, (counts[-1][0] + 5, _count())], 30))
    assert min(found) >= 0 and found[-1] == 0
    assert sum(found) * _STEP_S == pytest.approx(sum(size for *_, size in sizes), abs=30 * _STEP_S / 2)


@pytest.mark.parametrize("seed", range(20))
def test_a_steady_rate_is_a_straight_line(seed: int) -> None:
    counts = [
        (at, _count(_carried(round(1_000 * length)), seconds=length)) for at, length in _rhythm(seed, 300)
    ]
    found = _in_bytes(_steps(counts, 20))
    first = next(place for place, rate in enumerate(found) if rate)
    assert first * _STEP_S <= counts[0][0] + _STEP_S + BEHIND_S
    assert all(abs(rate - 1_000) <= 1 for rate in found[first + 1 : -1])


def test_what_lasts_longer_than_steps_and_what_is_missed_is_an_average() -> None:
    """Counts of thousands of instances take their turns; other control processes hear of some."""
    long = [(78.0 * n, _count(_carried(78_000), seconds=78)) for n in range(1, 5)]
    assert set(_in_bytes(_steps(long, 20))[6:]) == {1_000}
    some = [(47.0 * n, _count(_carried(5_000))) for n in range(1, 6)]
    assert set(_in_bytes(_steps(some, 15))[5:]) == {1_000}


def test_of_a_worker_that_is_gone_the_rest_is_told_and_then_nothing() -> None:
    counts = [(5.0 * n, _count(_carried(5_000))) for n in range(1, 8)]
    found = _steps(counts, 6)
    assert _in_bytes(found)[1:3] == [1_000, 1_000]
    assert sum(_in_bytes(found)) * _STEP_S == pytest.approx(35_000, abs=_STEP_S)
    assert found[-1] is None


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=200), st.integers(0, 20))
def test_what_nobody_takes_is_bounded(lengths: list[float], ids: int) -> None:
    told = [ClientIdSum(client_id=f"c{number}", connections=1) for number in range(ids)]
    worker = WorkerCounts(_count(*told))
    for length in lengths:
        worker.add(_count(*told, seconds=length))
    taken = worker.take(goes_on=True)
    assert taken is not None and len(taken.parts) <= 16
    assert all(0 <= part.share <= 1 for part in taken.parts)


def test_one_client_is_summed_over_counts_and_workers_as_throttled_as_where_it_is_most() -> None:
    busy = ClientIdSum(client_id="a", connections=3, in_bytes=600, requests=60, throttled_ms=1_500)
    still = ClientIdSum(client_id="a", connections=1)
    here = Taken((Part(_count(busy), 0.5), Part(_count(still), 1.0)), 10)
    assert figures(here) == {"a": ClientFigure(30, 0, 3, 3, 75)}
    there = Taken((Part(_count(ClientIdSum(client_id="a", connections=1, throttled_ms=9_000)), 1.0),), 5)
    assert over_workers([here, there]) == {"a": ClientFigure(30, 0, 3, 4, 1_000)}
    assert over_workers([]) == {}


def test_who_carries_most_comes_first_and_the_others_are_nobody() -> None:
    found = {
        "": ClientFigure(10**9, 0, 0, 0, 0),
        "asks": ClientFigure(1, 1, 50, 1, 0),
        "idle": ClientFigure(0, 0, 0, 9, 0),
        "reads": ClientFigure(0, 90, 1, 1, 0),
        "sits": ClientFigure(1, 1, 2, 1, 0),
    }
    assert busiest(found) == ["reads", "asks", "sits", "idle"]


def test_a_worker_of_a_release_before_does_not_count_by_ids() -> None:
    someone = ConnectedClient(address="10.0.0.1", connections=1)
    assert not tells_of_ids(Connected(seconds=5, clients=(someone,), count=1))
    assert not tells_of_ids(Connected(seconds=5, others=someone))
    assert tells_of_ids(Connected(seconds=5)), "nobody was there"
    assert tells_of_ids(_count(ClientIdSum(connections=1)))
