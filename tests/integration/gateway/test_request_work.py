"""No request holds a loop: work is counted in calls, of every turn of gateway and broker, for every API.

A turn is one callback of the loop: all others wait for its end. 50 ms are 300,000 to 400,000 calls (`portico
bench requests` prints the time). Strings count their comparisons: a search in a list shows as the work it is.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from cProfile import Profile
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

import broker.net.server
import gateway.session.mapped
from ctl.bench.one_loop import Pair, Turn, metered, running_pair
from ctl.bench.request_shapes import Filling, Shape, hostile_request, largest_request
from gateway.apis import APIS, Row
from wire.api_table import ApiKey

CALLS_MAX: Final = 320_000
TOPICS: Final = 300
ENTRIES: Final = 200
GROWTH_MAX: Final = 2.5
"""For twice the entries."""
NOISE: Final = 2_000
"""Calls that come or stay away: first uses, timers, an accept in the same turn."""
LOOKS: Final = 3
"""A timer that fires within a measured turn adds its own work to it: what is too much is so each time."""
ROWS: Final = list(APIS.values())


class Counted(str):
    """A string whose comparisons are calls, so that they are counted."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    __hash__ = str.__hash__


def counted(value: Any) -> Any:
    """A message with strings that count."""
    if isinstance(value, str):
        return Counted(value)
    if isinstance(value, tuple):
        return tuple(map(counted, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: counted(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.init and isinstance(getattr(value, field.name), (str, tuple))
        }
        return dataclasses.replace(value, **changes) if changes else value
    return value


def calls_of(work: Callable[[], None]) -> float:
    """How many functions are called, Python's and built-in ones."""
    profile = Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(each.callcount for each in profile.getstats())


async def longest(pair: Pair, request: Any) -> dict[str, Turn]:
    """The turn with the most work, of gateway and of broker, until nothing is left to do of the request."""
    with metered(calls_of) as turns:
        await pair.answer(request)
        seen = -1
        while seen < 0 or any(turn.cost > NOISE for turn in turns[seen:]):
            seen = len(turns)
            await asyncio.sleep(0.01)
    return {
        whose: max((turn for turn in turns if turn.whose == whose), key=lambda turn: turn.cost)
        for whose in {turn.whose for turn in turns}
    }


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    with capture_logs():  # printing a line prettily is a thousand calls
        async with running_pair(tmp_path, TOPICS) as running:
            yield running


@pytest.fixture
async def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """A pair whose instance has address lists for half of the names that are asked for."""
    lists = {f"n{number}": ("10.9.8.0/24",) for number in range(0, 4 * ENTRIES, 2)}
    lists |= {f"topic-{number}": ("10.9.8.0/24",) for number in range(0, TOPICS, 2)}
    for module in (broker.net.server, gateway.session.mapped):
        decode = module.decode
        monkeypatch.setattr(module, "decode", lambda *a, _decode=decode, **k: counted(_decode(*a, **k)))
    with capture_logs():
        async with running_pair(tmp_path, TOPICS, lists) as running:
            yield running


@pytest.mark.long
async def test_the_largest_request_of_every_api_is_one_short_turn(pair: Pair) -> None:
    too_long = []
    for row in ROWS:
        for shape in Shape:
            request = largest_request(row.key, row.versions.highest, shape, pair.topics)
            if request is None:
                continue
            for _ in range(LOOKS):
                over = [
                    (row.key.name, shape.name, whose, turn.what, turn.cost)
                    for whose, turn in (await longest(pair, request)).items()
                    if turn.cost > CALLS_MAX
                ]
                if not over:
                    break
            too_long += over
    assert not too_long


async def test_work_grows_with_the_request_and_not_with_its_square(listed: Pair) -> None:
    grown = []
    for row in ROWS:
        for version in _versions(row):
            for shape in set(Shape) - {Shape.LONG}:
                grown += await _growth(listed, row.key, version, shape)
    assert not grown


def _versions(row: Row) -> list[int]:
    edited = row.key in (ApiKey.PRODUCE, ApiKey.FETCH)
    return sorted({row.versions.lowest if edited else row.versions.highest, row.versions.highest})


async def _growth(pair: Pair, key: ApiKey, version: int, shape: Shape) -> list[Any]:
    fillings = [Filling(shape, entries, pair.topics) for entries in (ENTRIES, 2 * ENTRIES)]
    requests = [hostile_request(key, version, filling) for filling in fillings]
    if requests[0] is None:
        return []
    await pair.answer(requests[0])  # what is done once is done
    grown: list[Any] = []
    for _ in range(LOOKS):
        few, many = [await longest(pair, request) for request in requests]
        grown = [
            (key.name, version, shape.name, whose, few[whose].cost, many[whose].cost)
            for whose in few.keys() & many.keys()
            if many[whose].cost > GROWTH_MAX * few[whose].cost + NOISE
        ]
        if not grown:
            break
    return grown
