"""Many ask at once: how often the question is put, and what each of them gets."""

import asyncio

import pytest

from gateway.shared_question import SharedQuestion


class Cluster:
    """Answers with how often it was asked, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None

    async def count(self) -> int:
        self.asked += 1
        mine = self.asked
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return mine


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_comes_while_one_is_under_way_shares_the_next() -> None:
    cluster, shared = Cluster(), SharedQuestion[int]()
    first = asyncio.create_task(shared.ask(cluster.count))
    await _settle()
    later = [asyncio.create_task(shared.ask(cluster.count)) for _ in range(30)]
    await _settle()
    assert cluster.asked == 1
    cluster.may_answer.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 30


async def test_nothing_is_remembered_for_who_comes_later() -> None:
    cluster, shared = Cluster(), SharedQuestion[int]()
    cluster.may_answer.set()
    assert [await shared.ask(cluster.count) for _ in range(3)] == [1, 2, 3]


async def test_a_failure_is_everybodys_who_waited_for_it() -> None:
    cluster, shared = Cluster(), SharedQuestion[int]()
    cluster.failure = OSError("gone")
    askers = [asyncio.create_task(shared.ask(cluster.count)) for _ in range(5)]
    await _settle()
    cluster.may_answer.set()
    assert all(isinstance(each, OSError) for each in await asyncio.gather(*askers, return_exceptions=True))
    assert cluster.asked == 2, "one for the first, one for all who came while it was under way"
    cluster.failure = None
    assert await shared.ask(cluster.count) == 3


async def test_who_goes_away_fails_nobody_else() -> None:
    cluster, shared = Cluster(), SharedQuestion[int]()
    first = asyncio.create_task(shared.ask(cluster.count))
    await _settle()
    waiting = [asyncio.create_task(shared.ask(cluster.count)) for _ in range(2)]
    await _settle()
    first.cancel()
    waiting[0].cancel()
    cluster.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await waiting[1] == 2
