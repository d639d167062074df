"""The background loop that compacts: one log after the other, dropped when the broker stops."""

import asyncio
from pathlib import Path

import pytest

from broker.log.partition_log import PartitionLog
from broker.upkeep.compacting import Compacting
from tests.unit.broker_log.builders import NOW_MS, new_log_in, open_manager
from tests.unit.broker_log.compaction.compacted_log import COMPACT, layout, roll, write


class Failures(list[str]):
    def __call__(self, what: str, error: Exception) -> None:
        self.append(f"{what}: {error}")


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def compacting(tmp_path: Path, failures: Failures) -> tuple[Compacting, PartitionLog]:
    manager, _ = open_manager(tmp_path, COMPACT)
    log = new_log_in(manager, COMPACT)
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    return Compacting(manager, lambda: NOW_MS, failures), log


async def test_logs_are_compacted_until_nothing_is_worth_it(
    compacting: tuple[Compacting, PartitionLog], failures: Failures
) -> None:
    loop, log = compacting
    assert await loop.compact_one()
    assert layout(log) == [(1, "2")]
    assert not await loop.compact_one()
    assert failures == []


async def test_a_damaged_log_is_passed_over(compacting: tuple[Compacting, PartitionLog]) -> None:
    loop, log = compacting
    log.segments.first.path().write_bytes(b"x" * log.segments.first.size_bytes)
    assert await loop.compact_one()
    assert log.compaction.uncleanable is not None
    assert not await loop.compact_one()


async def test_a_refusing_disk_is_told(
    compacting: tuple[Compacting, PartitionLog], failures: Failures
) -> None:
    loop, log = compacting
    log.segments.first.path().unlink()
    assert not await loop.compact_one()
    assert len(failures) == 1


async def test_a_broker_that_stops_leaves_nothing_behind(
    compacting: tuple[Compacting, PartitionLog],
) -> None:
    loop, log = compacting
    running = asyncio.create_task(loop.compact_one())
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    log.begin_close()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert {path.suffix for path in log.directory.iterdir()}.isdisjoint({".cleaned", ".swap"})
