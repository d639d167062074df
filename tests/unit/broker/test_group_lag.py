"""Group lag: what a tenant names is bounded, and nothing of it is lost from the sums."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.monitoring import group_lag
from broker.monitoring.group_lag import NAMED_PER_INSTANCE, GroupLag, Lags, shown_name, told

A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


def _lag(committed: list[tuple[str, str, int, int]], ends: dict[tuple[str, int], int]) -> GroupLag:
    lag = GroupLag(lambda: iter(committed), lambda topic, index: ends.get((topic, index)))
    asyncio.run(lag.look())
    return lag


def test_the_lag_of_a_pair_is_that_of_its_partitions() -> None:
    committed = [(f"{A}.g", f"{A}.t", 0, 90), (f"{A}.g", f"{A}.t", 1, 40), (f"{A}.g", f"{A}.u", 0, 7)]
    lag = _lag(committed, {(f"{A}.t", 0): 100, (f"{A}.t", 1): 40, (f"{A}.u", 0): 5})
    assert [tuple(each) for each in lag.lags.named] == [(A, "g", "t", 10), (A, "g", "u", 0)]
    assert lag.lags.rest == ((A, 0),) and lag.lags.unknown == ()


def test_partitions_without_a_replica_here_are_counted_not_guessed() -> None:
    lag = _lag([(f"{A}.g", f"{A}.t", 0, 90), (f"{A}.g", f"{A}.t", 1, 5)], {(f"{A}.t", 1): 6})
    assert lag.lags == Lags(((A, "g", "t", 1),), ((A, 0),), ((A, 1),))  # type: ignore[arg-type]


def test_names_without_an_instance_are_nobodys_business() -> None:
    assert _lag([("of-an-operator", "t", 0, 1)], {("t", 0): 9}).lags == Lags()


def test_one_tenant_with_many_groups_has_few_series_and_takes_nobody_elses() -> None:
    pairs = {(A, f"g{number}", "t"): number for number in range(5_000)} | {(B, "g", "t"): 1}
    lags = told(pairs, {})
    of_a = [each for each in lags.named if each.instance_id == A]
    assert len(of_a) == NAMED_PER_INSTANCE and of_a[0].records == 4_999
    assert (B, "g", "t", 1) in lags.named
    assert sum(each.records for each in of_a) + dict(lags.rest)[A] == sum(range(5_000))


def test_all_instances_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lag, "NAMED_MAX", 10)
    lags = told({(f"i{number:011d}", "g", "t"): number for number in range(50)}, {})
    assert len(lags.named) == 10 and len(lags.rest) == 50
    assert sum(each.records for each in lags.named) + sum(n for _, n in lags.rest) == sum(range(50))


def test_long_names_are_cut_and_stay_different() -> None:
    first, second = "x" * 3_000 + "1", "x" * 3_000 + "2"
    assert len(shown_name(first)) < 220 and shown_name(first) != shown_name(second)


async def test_others_have_their_turn_while_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    looked: list[int] = []

    def committed() -> Iterator[tuple[str, str, int, int]]:
        for number in range(5 * group_lag.PARTITIONS_AT_ONCE):
            looked.append(turns)
            yield f"{A}.g", f"{A}.t", number, 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await GroupLag(committed, lambda _topic, _index: 1).look()
    beside.cancel()
    for turn in set(looked):
        assert looked.count(turn) <= group_lag.PARTITIONS_AT_ONCE
