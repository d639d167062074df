"""Histories by seed: 50 in every run, a thousand in the tier `long`; and the seeds that once found something.

A failure names the seed, the invariant and the end of the history. The clock, the network's delays, faults,
deaths and what disks forget come from the seed; connections are real ones inside this process, so now and
then a history takes another turn.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.world import simulate

SEEDS_PER_TEST = 10
FOUND = {
    3: "a follower that was registered anew kept fetching under its old epoch and never came into the ISR",
    1: "a link refused for its stale epoch tried the same login for ever",
}


@pytest.fixture
def memory_dir() -> Iterator[Path]:
    """In memory where there is room: thousands of small files."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    directory = Path(tempfile.mkdtemp(dir=parent))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def _live_through(seeds: range, directory: Path, seconds: float) -> None:
    for seed in seeds:
        print(f"seed {seed}")
        own = directory / str(seed)
        own.mkdir()
        simulate(seed, own, seconds)
        shutil.rmtree(own, ignore_errors=True)


@pytest.mark.parametrize("first", range(100, 150, SEEDS_PER_TEST))
def test_nothing_that_must_hold_is_broken(first: int, memory_dir: Path) -> None:
    _live_through(range(first, first + SEEDS_PER_TEST), memory_dir, seconds=8.0)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int, memory_dir: Path) -> None:
    simulate(seed, memory_dir, seconds=25.0)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1_000, 2_000, 100))
def test_a_thousand_histories(first: int, memory_dir: Path) -> None:
    _live_through(range(first, first + 100), memory_dir, seconds=25.0)
