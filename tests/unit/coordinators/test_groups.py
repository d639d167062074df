"""Group coordinators over a real offsets topic: loading, order of appends, commits above the high watermark,
leadership that comes and goes, a full disk, deadlines."""

import asyncio
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.coordination.java_hash import partition_for
from broker.coordinators import shard as shard_module
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.shard import Shard
from broker.groups.batches import encode_batch
from broker.groups.coordinator import GroupCoordinator
from broker.groups.group_config import GroupConfig
from broker.groups.messages import (
    AfterHousekeeping,
    Append,
    CommitRequest,
    CommitResult,
    JoinRequest,
    OffsetToCommit,
)
from broker.groups.records import OFFSETS_TOPIC, OffsetAndMetadata, OffsetRecord
from broker.log.results import AppendOrigin
from broker.replication.partition import Partition
from tests.unit.coordinators.world import FOLLOWER, ME, PARTITIONS, Disk, until
from tests.unit.groups.world import Slot, subscription
from wire import batch

_CONFIG = GroupConfig(initial_rebalance_delay_ms=20)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path, OFFSETS_TOPIC)
    yield made
    made.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Disk]:
    """With a follower: nothing is committed before it has it."""
    made = Disk(tmp_path, OFFSETS_TOPIC, replicas=(ME, FOLLOWER))
    yield made
    made.close()


async def _start(disk: Disk, config: GroupConfig = _CONFIG) -> GroupCoordinators:
    groups = GroupCoordinators(disk.metadata, config)
    disk.replicas.on_leadership(groups.leadership)
    disk.lead()
    await until(lambda: not groups.is_loading)
    return groups


def _shard(groups: GroupCoordinators, group: str = "g") -> Shard[GroupCoordinator]:
    shard = groups.of(group)
    assert isinstance(shard, Shard), shard
    return shard


def _commit(
    groups: GroupCoordinators, offset: int, token: Token, *, group: str = "g", partition: int = 0
) -> None:
    one = OffsetToCommit("t", partition, offset, -1, "")
    request = CommitRequest(group, -1, "", None, None, (one,))
    shard = _shard(groups, group)
    shard.submit(shard.core.commit_offsets(request, token, shard.now()))


def _committed(groups: GroupCoordinators, group: str = "g", partition: int = 0) -> int | None:
    found = _shard(groups, group).core.fetch_offset(group, "t", partition)
    return None if found is None else found.offset


def _error(slot: Slot) -> ErrorCode:
    assert isinstance(slot.result, CommitResult), slot.result
    (error,) = slot.result.errors.values()
    return error


def _join(groups: GroupCoordinators, token: Token, *, session_ms: int = 6_000) -> None:
    protocols = (("range", subscription("t")),)
    request = JoinRequest("g", "", None, "c", "/h", session_ms, 6_000, "consumer", protocols, False)
    shard = _shard(groups)
    shard.submit(shard.core.join(request, token, shard.now()))


async def test_a_restart_replays_every_segment_of_every_partition(disk: Disk) -> None:
    groups = await _start(disk)
    for number in range(300):
        slot = Slot()
        _commit(groups, number, slot, group=f"group-{number % 10}", partition=number % 7)
        assert _error(slot) is ErrorCode.none
    expected = {(number % 10, number % 7): number for number in range(300)}
    assert max(disk.partition(index).log.segment_count for index in range(PARTITIONS)) > 1
    disk.restart()
    again = await _start(disk)
    found = {key: _committed(again, f"group-{key[0]}", key[1]) for key in expected}
    assert found == expected
    assert len(again.list_groups(frozenset())) == 10


async def test_batches_larger_than_a_piece_are_read_whole(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.coordinators.loading.READ_BYTES", 1_000)
    await _start(disk)
    partition = disk.partition(partition_for("g", PARTITIONS))
    for start in range(0, 60, 20):
        records = tuple(
            OffsetRecord("g", "t", number, OffsetAndMetadata(number, -1, "m" * 50, 1))
            for number in range(start, start + 20)
        )
        stored = encode_batch(Append("g", records, AfterHousekeeping()), 1)
        partition.append(stored, now_ms=1, origin=AppendOrigin.COORDINATOR)
    disk.restart()
    groups = await _start(disk)
    assert [_committed(groups, "g", number) for number in range(60)] == list(range(60))


async def test_requests_are_refused_until_it_has_loaded_and_when_it_leads_no_more(disk: Disk) -> None:
    groups = GroupCoordinators(disk.metadata, _CONFIG)
    disk.replicas.on_leadership(groups.leadership)
    assert groups.of("g") is ErrorCode.coordinator_not_available
    assert groups.node_of("g") is None
    disk.lead()
    assert groups.of("g") is ErrorCode.coordinator_load_in_progress
    await until(lambda: not groups.is_loading)
    node = groups.node_of("g")
    assert node is not None and node.broker_id == ME
    disk.lead(FOLLOWER)
    assert groups.of("g") is ErrorCode.not_coordinator
    node = groups.node_of("g")
    assert node is not None and node.port == 9000 + FOLLOWER


async def test_what_is_deleted_while_loading_is_deleted_afterwards(disk: Disk) -> None:
    groups = await _start(disk)
    _commit(groups, 1, Slot(), group="iaaaaaaaaaaa.g")
    _commit(groups, 1, Slot(), group="other")
    disk.restart()
    again = GroupCoordinators(disk.metadata, _CONFIG)
    disk.replicas.on_leadership(again.leadership)
    disk.lead()
    again.purge_instance("iaaaaaaaaaaa")
    again.topics_deleted(["t"])
    await until(lambda: not again.is_loading)
    assert again.list_groups(frozenset()) == []


async def test_an_answer_waits_until_the_follower_has_the_record(pair: Disk) -> None:
    groups = GroupCoordinators(pair.metadata, _CONFIG)
    pair.replicas.on_leadership(groups.leadership)
    pair.lead()
    await until(lambda: not groups.is_loading)
    first, second = Slot(), Slot()
    _commit(groups, 1, first)
    _commit(groups, 2, second)
    assert first.is_parked
    assert _committed(groups) is None
    pair.replicate()
    assert (_error(first), _error(second)) == (ErrorCode.none, ErrorCode.none)
    assert _committed(groups) == 2


async def test_loading_ends_when_all_that_was_read_is_committed(pair: Disk) -> None:
    groups = GroupCoordinators(pair.metadata, _CONFIG)
    pair.replicas.on_leadership(groups.leadership)
    pair.lead()
    await until(lambda: not groups.is_loading)
    _commit(groups, 1, Slot())
    pair.lead()
    await asyncio.sleep(0.05)
    assert groups.of("g") is ErrorCode.coordinator_load_in_progress
    pair.replicate()
    await until(lambda: not groups.is_loading)
    assert _committed(groups) == 1


async def test_who_waits_too_long_is_told_and_the_record_counts_when_it_is_committed(
    pair: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "COMMIT_TIMEOUT_MS", 30)
    groups = GroupCoordinators(pair.metadata, _CONFIG)
    pair.replicas.on_leadership(groups.leadership)
    pair.lead()
    await until(lambda: not groups.is_loading)
    slot = Slot()
    _commit(groups, 1, slot)
    await until(lambda: not slot.is_parked)
    assert _error(slot) is ErrorCode.coordinator_not_available
    pair.replicate()
    assert _committed(groups) == 1


async def test_who_waits_when_leadership_ends_is_sent_away(pair: Disk) -> None:
    groups = GroupCoordinators(pair.metadata, _CONFIG)
    pair.replicas.on_leadership(groups.leadership)
    pair.lead()
    await until(lambda: not groups.is_loading)
    commit, join = Slot(), Slot()
    _commit(groups, 1, commit)
    _join(groups, join)
    pair.lead(FOLLOWER)
    assert _error(commit) is ErrorCode.not_coordinator
    assert join.error is ErrorCode.not_coordinator
    assert groups.of("g") is ErrorCode.not_coordinator


async def test_a_new_leader_epoch_reads_the_log_again(disk: Disk) -> None:
    groups = await _start(disk)
    _commit(groups, 1, Slot())
    former = _shard(groups)
    disk.lead()
    assert former.is_closed
    await until(lambda: not groups.is_loading)
    assert _committed(groups) == 1


async def test_a_full_disk_refuses_the_commit_and_loses_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = await _start(disk)
    _commit(groups, 1, Slot())

    def full(*_arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        for name in ("write", "pwrite", "pwritev", "writev"):
            patched.setattr(os, name, full)
        slot = Slot()
        _commit(groups, 2, slot)
    assert _error(slot) is ErrorCode.not_coordinator
    assert _committed(groups) == 1
    slot = Slot()
    _commit(groups, 3, slot)
    assert _error(slot) is ErrorCode.none
    disk.restart()
    assert _committed(await _start(disk)) == 3


async def test_an_answer_that_brings_the_next_request_does_not_overtake_what_was_decided(disk: Disk) -> None:
    groups = await _start(disk)
    last = Slot()

    def pipelined(_result: object) -> None:
        _commit(groups, 2, last)

    _commit(groups, 1, pipelined)
    assert last.result is not None
    assert _values(disk.partition(partition_for("g", PARTITIONS))) == [1, 2]


def _values(partition: Partition) -> list[int]:
    log = partition.log
    piece = log.reading.read_bytes(0, 1 << 20, up_to=log.log_end_offset, min_one_batch=True)
    values = []
    for at, header in batch.iterate_batches(piece):
        payload = piece[at + batch.HEADER_SIZE : at + header.size_bytes]
        values += [record.value for record in batch.decode_records(header, payload)]
    return [int.from_bytes(value[2:10], "big") for value in values if value]


async def test_deadlines_are_met_by_the_loops_timer(disk: Disk) -> None:
    groups = await _start(disk, replace(_CONFIG, session_timeout_min_ms=30))
    slot = Slot()
    _join(groups, slot, session_ms=60)
    assert slot.is_parked
    await until(lambda: not slot.is_parked)
    assert slot.error is ErrorCode.none
    await until(lambda: _shard(groups).core.describe("g").state == "Empty")
    groups.close()


async def test_closing_stops_the_timer(disk: Disk) -> None:
    groups = await _start(disk)
    slot = Slot()
    _join(groups, slot)
    groups.close()
    await asyncio.sleep(0.05)
    assert slot.is_parked


async def test_records_it_cannot_read_keep_the_partition_from_being_served(disk: Disk) -> None:
    await _start(disk)
    odd = batch.build_batch((batch.Record(0, 0, bytes.fromhex("0001000167"), b"\x00\x09"),))
    disk.partition(partition_for("g", PARTITIONS)).append(odd, now_ms=0, origin=AppendOrigin.COORDINATOR)
    disk.restart()
    groups = GroupCoordinators(disk.metadata, _CONFIG)
    disk.replicas.on_leadership(groups.leadership)
    disk.lead()
    await asyncio.sleep(0.05)
    assert groups.of("g") is ErrorCode.coordinator_load_in_progress
    others = [groups.at(index) for index in range(PARTITIONS) if index != partition_for("g", PARTITIONS)]
    assert all(isinstance(shard, Shard) for shard in others)


async def test_records_of_newer_coordinators_are_passed_over(disk: Disk) -> None:
    await _start(disk)
    newer = batch.build_batch((batch.Record(0, 0, bytes.fromhex("00ff000167"), b"\x00\x00"),))
    disk.partition(0).append(newer, now_ms=0, origin=AppendOrigin.COORDINATOR)
    disk.restart()
    assert (await _start(disk)).list_groups(frozenset()) == []
