"""Requests that are answered in portions: how many of an instance there may be."""

import asyncio

import pytest

from gateway.portions import ENTRIES_MAX, Portions
from gateway.stops import ConnectionStop


async def test_one_is_answered_at_a_time_and_few_wait() -> None:
    """Each keeps its question and what is answered so far: gigabytes of five thousand connections."""
    portions = Portions()
    under_way: list[int] = []
    most: list[int] = []

    async def answer() -> None:
        async with portions.turn(10_000):
            under_way.append(1)
            most.append(len(under_way))
            await asyncio.sleep(0)
            under_way.pop()

    waiting = [asyncio.create_task(answer()) for _ in range(ENTRIES_MAX // 10_000)]
    await asyncio.sleep(0)
    with pytest.raises(ConnectionStop, match="10000 entries, behind 200000 that wait"):
        await answer()
    waiting[-1].cancel()
    await asyncio.gather(*waiting[:-1])
    assert most == [1] * (len(waiting) - 1)
    assert portions.entries == 0
