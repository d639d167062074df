"""Acks that wait for the disk, and a disk that refuses."""

import asyncio
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.errors import StorageFailed
from broker.log.files import LogFiles
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from broker.storage.flusher import Flusher
from broker.storage.manager import LogManager
from wire.batch import Record, build_batch


class Disk:
    """Syncs, counts, refuses on demand."""

    def __init__(self) -> None:
        self.syncs = 0
        self.refuses = False

    def sync(self, fd: int) -> None:
        self.syncs += 1
        if self.refuses:
            raise OSError(errno.EIO, "Input/output error")
        os.fdatasync(fd)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def logs(tmp_path: Path, disk: Disk) -> Iterator[LogManager]:
    manager = LogManager([tmp_path], cluster_id="c", node_id=1, files=LogFiles(sync=disk.sync))
    for partition in range(3):
        manager.create("topic", partition, uuid.uuid4(), LogConfig(flush_messages=1), 0)
    yield manager
    manager.close()


def _append(log: PartitionLog) -> None:
    records = build_batch((Record(0, 1, None, b"value"),))
    log.append(records, now_ms=1, leader_epoch=0, origin=AppendOrigin.CLIENT)
    log.advance_high_watermark()


async def _sync(flusher: Flusher, *logs: PartitionLog) -> bool:
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    flusher.sync(logs, done.set_result)
    return await asyncio.wait_for(done, 5)


async def test_synced_means_on_the_disk(logs: LogManager) -> None:
    flusher = Flusher(logs, asyncio.get_running_loop(), lambda: 1, lambda what, error: None)
    first, second, _ = logs.logs.values()
    _append(first)
    _append(second)
    _append(second)
    assert await _sync(flusher, first, second, second) is False
    assert (first.recovery_point, second.recovery_point) == (1, 2)
    assert await _sync(flusher, first) is False, "nothing to do is done"
    await flusher.aclose()


async def test_requests_that_come_meanwhile_share_the_next_flush(logs: LogManager, disk: Disk) -> None:
    flusher = Flusher(logs, asyncio.get_running_loop(), lambda: 1, lambda what, error: None)
    log = logs.logs["topic", 0]
    _append(log)
    await _sync(flusher, log)
    before = disk.syncs

    async def one() -> bool:
        _append(log)
        return await _sync(flusher, log)

    assert await asyncio.gather(*[one() for _ in range(20)]) == [False] * 20
    assert log.recovery_point == 21
    assert 1 <= disk.syncs - before <= 3
    await flusher.aclose()


async def test_a_refused_flush_is_told(logs: LogManager, disk: Disk) -> None:
    failures: list[str] = []
    flusher = Flusher(
        logs, asyncio.get_running_loop(), lambda: 1, lambda what, error: failures.append(str(error))
    )
    log, other, _ = logs.logs.values()

    _append(log)
    disk.refuses = True
    assert await _sync(flusher, log) is True
    disk.refuses = False
    assert failures
    assert log.recovery_point == 0
    with pytest.raises(StorageFailed, match="has failed"):
        _append(other)  # its directory is offline, with every log in it
    assert await _sync(flusher, log) is True, "until a restart"
    await flusher.aclose()


async def test_ticks_flush_what_is_due(logs: LogManager) -> None:
    flusher = Flusher(logs, asyncio.get_running_loop(), lambda: 5_000, lambda what, error: None)
    for log in logs.logs.values():
        _append(log)
    await flusher.flush_dirty(1_000)
    assert [log.recovery_point for log in logs.logs.values()] == [1, 1, 1]
    await flusher.aclose()
