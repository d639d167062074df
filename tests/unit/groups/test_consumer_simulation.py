"""Many seeds of the simulation of consumer groups. `story(seed)` replays one exactly."""

import pytest

from tests.unit.groups.consumer_simulation import story


@pytest.mark.parametrize("block", range(4))
def test_invariants_hold(block: int) -> None:
    for seed in range(5 * block, 5 * block + 5):
        try:
            story(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_seeds_see_something() -> None:
    told = story(1)
    assert told.restarts > 0
    assert len({record.value.epoch for record in told.world.log if hasattr(record.value, "epoch")}) > 5


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_invariants_hold_for_many_seeds(block: int) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        try:
            story(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
