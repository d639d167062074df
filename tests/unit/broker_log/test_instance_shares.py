"""What a tenant may make of a broker's memory and files by its producer ids and timestamps."""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from heapq import nsmallest
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.log import instance_shares
from broker.log.errors import AppendRefused
from broker.log.instance_shares import (
    SMALL_SEGMENTS_MIN,
    SMALL_SEGMENTS_PER_INSTANCE,
    SMALL_SEGMENTS_PER_LOG,
    InstanceShares,
)
from broker.log.log_config import LogConfig
from broker.log.log_producers import SNAPSHOTS_KEPT
from broker.log.partition_log import PartitionLog
from broker.log.producer_state import ProducerStates
from broker.log.rolling import ROLL_AGE_MIN_MS
from broker.log.segment import SMALL_SEGMENT_BYTES
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    append,
    batch,
    crash,
    flush,
    idempotent,
    read_all,
    values,
)
from tests.unit.broker_log.test_transactions import end, write

MINE, OTHERS = "iaaaaaaaaaaa", "ibbbbbbbbbbb"
PRODUCERS_MAX = 64
DAY_MS = 24 * 3_600_000


def _manager(directory: Path) -> LogManager:
    manager = LogManager([directory], cluster_id="test", node_id=0, producers_per_instance_max=PRODUCERS_MAX)
    manager.load(lambda _: LogConfig(), NOW_MS)
    return manager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    manager = _manager(tmp_path)
    yield manager
    manager.close()


def _log(manager: LogManager, instance_id: str, partition: int = 0, **configs: int) -> PartitionLog:
    config = replace(LogConfig(), **configs)
    return manager.create(f"{instance_id}.t", partition, uuid.uuid4(), config, NOW_MS)


def _files(log: PartitionLog) -> int:
    return len(list(log.directory.iterdir()))


class TestFiles:
    def test_leaping_timestamps_make_no_files(self, manager: LogManager) -> None:
        log = _log(manager, MINE)
        for number in range(1_500):
            append(log, batch("v", at_ms=NOW_MS - (number % 2) * 365 * DAY_MS), now_ms=NOW_MS + number)
        assert log.segment_count == 1
        assert _files(log) <= 6
        assert len(values(read_all(log))) == 1_500

    def test_a_segment_of_some_age_is_closed_for_its_timestamps(self, manager: LogManager) -> None:
        log = _log(manager, MINE)
        append(log, batch("old", at_ms=NOW_MS - 30 * DAY_MS))
        append(log, batch("new", at_ms=NOW_MS), now_ms=NOW_MS + ROLL_AGE_MIN_MS - 1)
        assert log.segment_count == 1
        append(log, batch("new", at_ms=NOW_MS), now_ms=NOW_MS + ROLL_AGE_MIN_MS)
        assert log.segment_count == 2

    def test_a_segment_of_some_size_is_closed_for_its_timestamps_at_once(self, manager: LogManager) -> None:
        """As a mirror or a backfill of history does it: retention works by segments."""
        log = _log(manager, MINE)
        append(log, batch("x" * 1_000_000, at_ms=NOW_MS - 60 * DAY_MS))
        append(log, batch("x" * 100_000, at_ms=NOW_MS - 30 * DAY_MS))
        assert (log.segment_count, log.size_bytes > SMALL_SEGMENT_BYTES) == (1, True)
        append(log, batch("x", at_ms=NOW_MS))
        assert log.segment_count == 2

    def test_a_clock_that_was_set_back_does_not_stop_it(self, manager: LogManager) -> None:
        log = _log(manager, MINE)
        append(log, batch("old", at_ms=NOW_MS - 400 * DAY_MS))
        append(log, batch("new", at_ms=NOW_MS - 365 * DAY_MS), now_ms=NOW_MS - 365 * DAY_MS)
        assert log.segment_count == 2

    def test_small_segments_are_few_whatever_time_says(self, manager: LogManager) -> None:
        log = _log(manager, MINE, segment_ms=1_000)
        for number in range(SMALL_SEGMENTS_PER_LOG + 100):
            append(log, batch("v", at_ms=NOW_MS + number * 2_000), now_ms=NOW_MS + number * 2_000)
        assert log.segment_count == SMALL_SEGMENTS_PER_LOG + 1
        assert not log.rolling.roll_if_due(NOW_MS + 365 * DAY_MS)
        at_ms = NOW_MS + 10_000 * 2_000
        log.retention.delete_records_before(10)
        append(log, batch("v", at_ms=at_ms), now_ms=at_ms)
        assert log.segment_count == SMALL_SEGMENTS_PER_LOG + 1 - 10 + 1, "there is room again"

    def test_snapshots_are_few(self, manager: LogManager) -> None:
        log = _log(manager, MINE, segment_bytes=1_000)
        for number in range(100):
            append(log, batch("x" * 600, at_ms=NOW_MS + number))
        assert log.segment_count == 100
        assert len(list(log.directory.glob("*.snapshot"))) <= SNAPSHOTS_KEPT + 2

    def test_a_truncation_behind_every_snapshot_knows_the_producers(self, manager: LogManager) -> None:
        log = _log(manager, MINE, segment_bytes=100)
        for number in range(50):
            append(log, idempotent(7, number))
        log.truncation.truncate_to(5)
        (producer,) = log.producers.describe()
        assert (producer.producer_id, producer.last_sequence) == (7, 4)

    def test_many_logs_share_what_an_instance_may_have(self) -> None:
        shares = InstanceShares(PRODUCERS_MAX)
        for number in range(4_000):
            shares.log_added(f"{MINE}.t{number}", ProducerStates())
        shares.log_added(f"{OTHERS}.t", ProducerStates())
        assert shares.small_segments_max(f"{MINE}.t0") == SMALL_SEGMENTS_MIN
        assert shares.small_segments_max(f"{OTHERS}.t") == SMALL_SEGMENTS_PER_LOG
        several = InstanceShares(PRODUCERS_MAX)
        for number in range(200):
            several.log_added(f"{MINE}.t{number}", ProducerStates())
        total = 200 * several.small_segments_max(f"{MINE}.t0")
        assert total <= SMALL_SEGMENTS_PER_INSTANCE


class TestProducers:
    def test_the_longest_idle_of_an_instance_are_forgotten_over_all_its_logs(
        self, manager: LogManager
    ) -> None:
        other = _log(manager, OTHERS)
        append(other, idempotent(1, 0), now_ms=NOW_MS)
        logs = [_log(manager, MINE, partition) for partition in range(4)]
        for number in range(400):
            append(logs[number % 4], idempotent(100 + number, 0), now_ms=NOW_MS + number)
        assert sum(len(log.producers) for log in logs) <= PRODUCERS_MAX
        left = {each.producer_id for log in logs for each in log.producers.describe()}
        assert left >= set(range(500 - PRODUCERS_MAX // 2, 500)), "the newest stay"
        evicted = manager.shares.evicted
        assert evicted.forgotten == 400 - len(left)
        assert manager.shares.producers == len(left) + 1
        assert append(other, idempotent(1, 0)).is_duplicate, "another instance's are older, and stay"

    def test_who_was_forgotten_goes_on_as_after_its_expiry(self, manager: LogManager) -> None:
        """Any sequence is its next; only a repetition is not recognized (KIP-360)."""
        log = _log(manager, MINE)
        append(log, idempotent(1, 0), now_ms=NOW_MS)
        for number in range(2 * PRODUCERS_MAX):
            append(log, idempotent(100 + number, 0), now_ms=NOW_MS + 1 + number)
        assert not append(log, idempotent(1, 1)).is_duplicate
        assert append(log, idempotent(1, 1)).is_duplicate
        with pytest.raises(AppendRefused) as gap:
            append(log, idempotent(1, 9))
        assert gap.value.error_code is ErrorCode.out_of_order_sequence_number

    def test_open_transactions_are_never_forgotten_and_no_more_are_let_in(self, manager: LogManager) -> None:
        log, other = _log(manager, MINE), _log(manager, OTHERS)
        for number in range(PRODUCERS_MAX):
            write(log, number, 0)
        assert len(log.producers) == PRODUCERS_MAX
        for refused in (lambda: write(log, 900, 0), lambda: append(log, idempotent(901, 0))):
            with pytest.raises(AppendRefused) as policy:
                refused()
            assert policy.value.error_code is ErrorCode.policy_violation
        assert manager.shares.evicted.refused == 2
        write(log, 0, 1)
        append(other, idempotent(1, 0))
        end(log, 0, commit=True)
        write(log, 900, 0)
        assert {each.producer_id for each in log.producers.describe()} == {900, *range(1, PRODUCERS_MAX)}
        assert log.last_stable_offset <= 1, "who is open is still known"

    def test_nobody_looks_for_idle_producers_again_and_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Counted work: a walk over all of them for each one that ends would be a lever."""
        manager = LogManager([tmp_path], cluster_id="test", node_id=0, producers_per_instance_max=1_024)
        manager.load(lambda _: LogConfig(), NOW_MS)
        log = _log(manager, MINE)
        for number in range(1_024):
            write(log, number, 0)
        walks: list[int] = []

        def counted(count: int, producers: Any, key: Any) -> Any:
            walks.append(count)
            return nsmallest(count, producers, key=key)

        monkeypatch.setattr(instance_shares, "nsmallest", counted)
        let_in = 0
        for number in range(200):
            end(log, number, commit=True)
            for attempt in range(3):
                with suppress(AppendRefused):
                    write(log, 5_000 + 3 * number + attempt, 0)
                    let_in += 1
        assert len(walks) <= 200 // 16 + 2
        assert let_in >= 150, "room that comes up is given away"
        manager.close()

    def test_what_goes_no_longer_counts(self, manager: LogManager) -> None:
        logs = [_log(manager, MINE, partition) for partition in range(2)]
        for log in logs:
            append(log, idempotent(1, 0))
        append(logs[1], idempotent(2, 0))
        assert manager.shares.producers == 3
        logs[1].truncation.truncate_to(1)
        assert manager.shares.producers == 2
        logs[1].truncation.truncate_fully_and_start_at(9)
        assert manager.shares.producers == 1
        manager.delete(f"{MINE}.t", 1)
        assert manager.shares.producers == 1
        assert manager.expire_producers(NOW_MS + 2 * DAY_MS) == 1
        assert manager.shares.producers == 0
        manager.delete(f"{MINE}.t", 0)
        assert manager.shares._logs == {}

    def test_what_a_restart_finds_is_bounded_too(self, tmp_path: Path) -> None:
        manager = LogManager([tmp_path], cluster_id="test", node_id=0)
        manager.load(lambda _: LogConfig(), NOW_MS)
        log = _log(manager, MINE)
        for number in range(3 * PRODUCERS_MAX):
            append(log, idempotent(number, 0), now_ms=NOW_MS + number)
        flush(manager)
        crash(manager)
        again = _manager(tmp_path)
        assert 0 < again.shares.producers <= PRODUCERS_MAX
        assert again.shares.producers == len(again.logs[f"{MINE}.t", 0].producers)
        again.close()
