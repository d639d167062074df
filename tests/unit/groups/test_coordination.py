"""The shell over a real offsets topic on disk: replay, rewriting, order of appends, full disk, deadlines."""

import asyncio
import errno
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.coordination import GroupCoordination
from broker.effects import Token
from broker.groups.batches import encode_batch
from broker.groups.config import GroupConfig
from broker.groups.messages import (
    AfterHousekeeping,
    Append,
    CommitRequest,
    CommitResult,
    JoinRequest,
    OffsetToCommit,
)
from broker.groups.records import (
    OFFSETS_TOPIC,
    OffsetAndMetadata,
    OffsetRecord,
    UnreadableRecord,
)
from broker.java_hash import partition_for
from broker.log.config import LogConfig
from broker.log.manager import LogManager
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from tests.unit.groups.world import Slot, subscription
from wire import batch

_PARTITIONS = 3
_CONFIG = GroupConfig(initial_rebalance_delay_ms=20, offsets_partitions=_PARTITIONS)
_LOG_CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4096)
_TOPIC_ID = uuid.UUID(int=7)


class Disk:
    """The offsets topic's directory, reopened as after a restart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.manager = LogManager([directory], cluster_id="c", node_id=1)
        self.logs = [
            self.manager.create(OFFSETS_TOPIC, number, _TOPIC_ID, _LOG_CONFIG, 0)
            for number in range(_PARTITIONS)
        ]

    def reopen(self) -> None:
        self.manager.close(clean=False)
        self.manager = LogManager([self._directory], cluster_id="c", node_id=1)
        self.manager.load(lambda _topic: _LOG_CONFIG, 0)
        self.logs = [self.manager.logs[OFFSETS_TOPIC, number] for number in range(_PARTITIONS)]

    def log_of(self, group: str) -> PartitionLog:
        return self.logs[partition_for(group, _PARTITIONS)]

    async def coordination(self, config: GroupConfig = _CONFIG) -> GroupCoordination:
        started = GroupCoordination(self.logs, config)
        await started.load()
        return started


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "logs"
    path.mkdir()
    made = Disk(path)
    yield made
    made.manager.close(clean=False)


def _commit(
    coordination: GroupCoordination, group: str, offset: int, token: Token, partition: int = 0
) -> None:
    one = OffsetToCommit("t", partition, offset, -1, "")
    request = CommitRequest(group, -1, "", None, None, (one,))
    coordination.submit(coordination.core.commit_offsets(request, token, coordination.now()))


def _committed(coordination: GroupCoordination, group: str, partition: int = 0) -> int | None:
    found = coordination.core.fetch_offset(group, "t", partition)
    return None if found is None else found.offset


def _join(coordination: GroupCoordination, token: Token, *, session_ms: int = 6_000) -> None:
    protocols = (("range", subscription("t")),)
    request = JoinRequest("g", "", None, "c", "/h", session_ms, 6_000, "consumer", protocols, False)
    coordination.submit(coordination.core.join(request, token, coordination.now()))


async def test_a_restart_replays_every_segment_of_every_partition(disk: Disk) -> None:
    coordination = await disk.coordination()
    for number in range(300):
        slot = Slot()
        _commit(coordination, f"group-{number % 10}", number, slot, partition=number % 7)
        assert isinstance(slot.result, CommitResult)
    before = {
        one.group_id: coordination.core.fetch_all_offsets(one.group_id)
        for one in coordination.core.list_groups()
    }
    assert max(log.segment_count for log in disk.logs) > 1
    assert all(log.high_watermark == log.log_end_offset for log in disk.logs)
    disk.reopen()
    again = await disk.coordination()
    after = {one.group_id: again.core.fetch_all_offsets(one.group_id) for one in again.core.list_groups()}
    assert after == before
    assert len(after) == 10


async def test_requests_are_refused_until_it_has_loaded(disk: Disk) -> None:
    coordination = GroupCoordination(disk.logs, _CONFIG)
    assert coordination.is_loading
    await coordination.load()
    assert not coordination.is_loading


async def test_what_is_deleted_while_loading_is_deleted_afterwards(disk: Disk) -> None:
    coordination = await disk.coordination()
    _commit(coordination, "iaaaaaaaaaaa.g", 1, Slot())
    _commit(coordination, "other", 1, Slot())
    again = GroupCoordination(disk.logs, _CONFIG)
    again.purge_instance("iaaaaaaaaaaa")
    again.on_topics_deleted(["t"])
    await again.load()
    assert again.core.list_groups() == []
    disk.reopen()
    assert (await disk.coordination()).core.list_groups() == []


async def test_a_full_disk_refuses_the_commit_and_loses_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordination = await disk.coordination()
    _commit(coordination, "g", 1, Slot())

    def full(*_arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        for name in ("write", "pwrite", "pwritev", "writev"):
            patched.setattr(os, name, full)
        slot = Slot()
        _commit(coordination, "g", 2, slot)
    assert list(slot.result.errors.values()) == [ErrorCode.not_coordinator]
    assert _committed(coordination, "g") == 1
    slot = Slot()
    _commit(coordination, "g", 3, slot)
    assert list(slot.result.errors.values()) == [ErrorCode.none]
    disk.reopen()
    assert _committed(await disk.coordination(), "g") == 3


async def test_an_answer_that_brings_the_next_request_does_not_overtake_what_was_decided(disk: Disk) -> None:
    coordination = await disk.coordination()
    last = Slot()

    def pipelined(_result: object) -> None:
        _commit(coordination, "g", 2, last)

    _commit(coordination, "g", 1, pipelined)
    assert last.result is not None
    values = []
    log = disk.log_of("g")
    piece = log.read_bytes(0, 1 << 20, up_to=log.log_end_offset, min_one_batch=True)
    for at, header in batch.iterate_batches(piece):
        payload = piece[at + batch.HEADER_SIZE : at + header.size_bytes]
        values += [record.value for record in batch.decode_records(header, payload)]
    assert [int.from_bytes(value[2:10], "big") for value in values if value] == [1, 2]


async def test_deadlines_are_met_by_the_loops_timer(disk: Disk) -> None:
    coordination = await disk.coordination(replace(_CONFIG, session_timeout_min_ms=30))
    slot = Slot()
    _join(coordination, slot, session_ms=60)
    assert slot.is_parked
    await asyncio.sleep(0.04)
    assert slot.error is ErrorCode.none
    await asyncio.sleep(0.1)
    assert coordination.core.describe("g").state == "Empty"
    coordination.close()


async def test_closing_stops_the_timer(disk: Disk) -> None:
    coordination = await disk.coordination()
    slot = Slot()
    _join(coordination, slot)
    coordination.close()
    await asyncio.sleep(0.05)
    assert slot.is_parked


async def test_records_it_cannot_read_stop_it_and_say_where(disk: Disk) -> None:
    odd = batch.build_batch((batch.Record(0, 0, bytes.fromhex("0001000167"), b"\x00\x09"),))
    disk.logs[1].append(odd, now_ms=0, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    coordination = GroupCoordination(disk.logs, _CONFIG)
    with pytest.raises(UnreadableRecord, match="offset 0"):
        await coordination.load()
    assert coordination.is_loading


async def test_records_of_newer_coordinators_are_passed_over(disk: Disk) -> None:
    newer = batch.build_batch((batch.Record(0, 0, bytes.fromhex("0003000167"), b"\x00\x00"),))
    disk.logs[0].append(newer, now_ms=0, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    assert (await disk.coordination()).core.list_groups() == []


async def test_batches_larger_than_a_piece_are_read_whole(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.coordinators.loading.READ_BYTES", 1_000)
    log = disk.log_of("g")
    for start in range(0, 60, 20):
        records = [
            OffsetRecord("g", "t", number, OffsetAndMetadata(number, -1, "m" * 50, 1))
            for number in range(start, start + 20)
        ]
        log.append(
            encode_batch(Append("g", tuple(records), AfterHousekeeping()), 1),
            now_ms=1,
            leader_epoch=0,
            origin=AppendOrigin.COORDINATOR,
        )
    coordination = await disk.coordination()
    assert [_committed(coordination, "g", number) for number in range(60)] == list(range(60))
