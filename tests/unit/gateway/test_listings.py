"""Lists of an instance's topics that a gateway asks for in its own name: the instance pays for each."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.backend import Backend
from gateway.outside import Outside
from gateway.served import ServedInstance
from tests.unit.gateway.session_host import served_instance
from traffic.engine_time import of_listing_us
from traffic.relayed import RelayedFlows

PARTITIONS = 200


class Lists:
    """A cluster that lists as many as it has, and is told how many are expected."""

    def __init__(self) -> None:
        self.expected: list[int] = []

    async def partition_counts(self, _instance_id: str, expected: int) -> dict[str, int]:
        self.expected.append(expected)
        await asyncio.sleep(0)
        return {f"orders-{number}": 1 for number in range(PARTITIONS)}


def _outside(served: ServedInstance, lists: Lists, relay: RelayedFlows | None, spent: list[int]) -> Outside:
    backend = cast(Backend, lists)
    return Outside(served, backend, 1, None, relay, spent.append, lambda: 0, 1000, None)


@pytest.mark.parametrize("ours", [False, True])
async def test_what_a_flood_of_listings_costs_a_broker_is_paid_where_no_quota_sees_it(ours: bool) -> None:
    served, lists, spent = served_instance(), Lists(), cast("list[int]", [])
    relay = None if ours else RelayedFlows(served.instance_id, 1)
    clients = [_outside(served, lists, relay, spent) for _ in range(32)]
    answers = await asyncio.gather(*(client.partition_counts() for client in clients))
    assert all(len(answer) == PARTITIONS for answer in answers)
    assert lists.expected == [0, PARTITIONS], "one, and one for all who came while it was under way"
    assert spent == ([] if ours else [of_listing_us(PARTITIONS)] * 2)


async def test_a_list_that_fails_costs_nothing() -> None:
    served, spent = served_instance(), cast("list[int]", [])

    async def gone(*_: Any) -> dict[str, int]:
        raise ConnectionError

    broken = cast(Lists, SimpleNamespace(partition_counts=gone))
    with pytest.raises(ConnectionError):
        await _outside(served, broken, RelayedFlows(served.instance_id, 1), spent).partition_counts()
    assert not spent
