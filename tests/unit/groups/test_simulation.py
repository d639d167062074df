"""Many seeds of the simulation. A failure prints its seed: `story(seed)` replays it exactly."""

import pytest

from tests.unit.groups.simulation import Broken, story

_SEEDS = range(60)


@pytest.mark.parametrize("seed", _SEEDS)
def test_invariants_hold(seed: int) -> None:
    try:
        story(seed)
    except AssertionError as error:
        raise Broken(f"seed {seed}: {error}") from error


def test_the_seeds_see_something() -> None:
    stories = [story(seed) for seed in range(5)]
    assert sum(one.rebalances for one in stories) > 50
    assert all(one.incarnation > 1 for one in stories)
    assert sum(len(one.acknowledged) for one in stories) > 10


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_invariants_hold_for_many_seeds(block: int) -> None:
    for seed in range(1_000 + 200 * block, 1_200 + 200 * block):
        try:
            story(seed)
        except AssertionError as error:
            raise Broken(f"seed {seed}: {error}") from error
