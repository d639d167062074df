"""Transactions in a log: the last stable offset, aborted ones, markers, fencing, verification."""

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused, StorageFailed
from broker.log.log_config import LogConfig
from broker.log.log_producers import ActiveProducer
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin, AppendResult
from broker.log.txn_index import (
    AbortedTransaction,
    TxnIndexCorrupt,
    encode_txn_index,
    find_aborted,
    parse_txn_index,
)
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    SMALL,
    TOPIC,
    batch,
    crash,
    flush,
    new_log,
    new_log_in,
    open_manager,
    records,
)
from wire.batch import HEADER_SIZE, TRANSACTIONAL_BIT, build_batch, parse_header
from wire.control import EndMarker, build_marker, parse_marker

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION


def transactional(
    producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1, payload: str = "v"
) -> bytearray:
    return build_batch(
        records(*[payload] * count),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_BIT,
    )


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    return build_marker(producer_id, epoch, EndMarker(commit, coordinator_epoch), now_ms=NOW_MS)


def put(log: PartitionLog, data: bytearray, origin: AppendOrigin, *, version: int = 0) -> AppendResult:
    """Like a leader with lagging followers: the high watermark stays. `version`: of what a marker ends."""
    header = parse_header(data)
    guard = None
    if header.is_transactional and not header.is_control:
        guard = log.producers.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, NOW_MS
        )
    return log.append(
        data,
        now_ms=NOW_MS,
        leader_epoch=0,
        origin=origin,
        verification=guard,
        transaction_version=version,
    )


def write(
    log: PartitionLog, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1, payload: str = "v"
) -> int:
    data = transactional(producer_id, sequence, epoch=epoch, count=count, payload=payload)
    return put(log, data, CLIENT).base_offset


def end(
    log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0
) -> int:
    data = marker(producer_id, commit=commit, epoch=epoch, coordinator_epoch=coordinator_epoch)
    return put(log, data, COORDINATOR).base_offset


def refused(log: PartitionLog, data: bytearray, origin: AppendOrigin = CLIENT) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(AppendRefused) as raised:
        log.append(data, now_ms=NOW_MS, leader_epoch=0, origin=origin)
    assert log.log_end_offset == before
    return raised.value.error_code


# The last stable offset


def test_it_waits_for_the_first_open_transaction(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    put(log, batch("plain"), CLIENT)
    log.advance_high_watermark()
    assert log.last_stable_offset == 1
    write(log, 1, 0)
    write(log, 2, 0)
    log.advance_high_watermark()
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    end(log, 2, commit=True)
    log.advance_high_watermark()
    assert log.last_stable_offset == 1, "the earlier transaction is still open"
    end(log, 1, commit=False)
    log.advance_high_watermark()
    assert log.last_stable_offset == log.log_end_offset == 5


def test_it_waits_for_the_marker_to_be_committed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    put(log, batch("plain"), CLIENT)
    log.advance_high_watermark()
    end(log, 1, commit=True)
    assert log.last_stable_offset == 0
    write(log, 1, 1)
    assert not log.advance_high_watermark(2)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    log.advance_high_watermark()
    assert log.last_stable_offset == 3


def test_it_is_the_high_watermark_where_that_is_lower(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    put(log, batch("plain"), CLIENT)
    write(log, 1, 0)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 1


def test_it_is_not_below_the_log_start(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    put(log, batch("plain"), CLIENT)
    log.advance_high_watermark()
    log.retention.delete_records_before(1)
    assert log.last_stable_offset == 1


def test_a_marker_without_records_changes_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    end(log, 1, commit=False)
    log.advance_high_watermark()
    assert log.last_stable_offset == 1
    assert log.reading.aborted(0, 1) == []


# Aborted transactions


def test_aborted_transactions_are_found_across_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    aborted = []
    for number in range(60):
        first = write(log, number % 7, number // 7, payload="x" * 300)
        if number % 2:
            aborted.append((number % 7, first, end(log, number % 7, commit=False)))
        else:
            end(log, number % 7, commit=True)
    log.advance_high_watermark()
    assert log.segment_count > 3
    log.durability.flush()
    found = log.reading.aborted(0, log.log_end_offset)
    assert [tuple(entry[:3]) for entry in found] == aborted
    for producer_id, first, last in aborted:
        assert [tuple(entry[:3]) for entry in log.reading.aborted(first, first + 1)] == [
            (producer_id, first, last)
        ]
        assert log.reading.aborted(last + 1, last + 2) == []


def test_a_fetch_is_told_about_what_it_reads(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(index_interval_bytes=256))
    for number in range(40):
        write(log, number, 0, payload="x" * 300)
        end(log, number, commit=False)
    log.advance_high_watermark()
    found = log.read(20, 1000, up_to=log.last_stable_offset, min_one_batch=True)
    assert found is not None
    told = log.reading.aborted_in(found, log.last_stable_offset)
    assert told[0].first_offset == 20
    assert 3 <= len(told) <= 6
    everything = log.read(0, 10**6, up_to=log.last_stable_offset, min_one_batch=True)
    assert everything is not None
    assert len(log.reading.aborted_in(everything, log.last_stable_offset)) == 40


def test_the_index_file_is_kafkas() -> None:
    entries = [AbortedTransaction(7, 10, 20, 5), AbortedTransaction(8, 12, 30, 31)]
    data = encode_txn_index(entries)
    assert data[:34].hex() == "0000" + "".join(f"{number:016x}" for number in (7, 10, 20, 5))
    assert parse_txn_index(data, 0) == entries
    assert find_aborted(entries, 0, 11) == ([entries[0]], True)
    assert find_aborted(entries, 21, 40) == ([entries[1]], False)


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        bytes(33),
        b"\0\1" + bytes(32),
        encode_txn_index([AbortedTransaction(7, 30, 20, 5)]),
        encode_txn_index([AbortedTransaction(7, 10, 20, 5), AbortedTransaction(7, 10, 20, 5)]),
    ],
)
def test_damaged_index_files_are_noticed(data: bytes) -> None:
    with pytest.raises(TxnIndexCorrupt):
        parse_txn_index(data, 0)


def test_nothing_is_written_for_logs_without_aborts(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    end(log, 1, commit=True)
    log.durability.flush()
    assert not list(log.directory.glob("*.txnindex"))


# What is refused


def test_a_transactional_batch_needs_a_verified_transaction(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.producers.needs_verification(1, 0)
    assert refused(log, transactional(1, 0)) is ErrorCode.invalid_txn_state
    assert refused(log, transactional(1, -1), COORDINATOR) is ErrorCode.invalid_txn_state
    write(log, 1, 0)
    assert not log.producers.needs_verification(1, 0)
    assert log.producers.begin_verification(1, 0, 1, NOW_MS) is None
    log.append(transactional(1, 1), now_ms=NOW_MS, leader_epoch=0, origin=CLIENT)
    end(log, 1, commit=True)
    assert log.producers.needs_verification(1, 0)
    assert refused(log, transactional(1, 2)) is ErrorCode.invalid_txn_state


def test_a_marker_ends_a_verification(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    guard = log.producers.begin_verification(1, 0, 0, NOW_MS)
    assert guard is not None
    end(log, 1, commit=False)
    with pytest.raises(AppendRefused) as raised:
        log.append(transactional(1, 0), now_ms=NOW_MS, leader_epoch=0, origin=CLIENT, verification=guard)
    assert raised.value.error_code is ErrorCode.invalid_txn_state
    assert log.producers.begin_verification(1, 0, 0, NOW_MS) != guard


def test_a_verification_belongs_to_one_epoch_and_the_lowest_sequence(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    old = log.producers.begin_verification(1, 0, 7, NOW_MS)
    new = log.producers.begin_verification(1, 1, 7, NOW_MS)
    assert None not in (old, new) and old != new
    assert log.producers.begin_verification(1, 1, 5, NOW_MS) == new
    with pytest.raises(AppendRefused) as raised:
        log.append(
            transactional(1, 7, epoch=1), now_ms=NOW_MS, leader_epoch=0, origin=CLIENT, verification=new
        )
    assert raised.value.error_code is ErrorCode.out_of_order_sequence_number
    log.append(transactional(1, 5, epoch=1), now_ms=NOW_MS, leader_epoch=0, origin=CLIENT, verification=new)
    assert log.last_stable_offset == 0


def test_forgotten_verifications_expire(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    guard = log.producers.begin_verification(1, 0, 0, NOW_MS)
    log.expire_producers(NOW_MS + log.config.producer_id_expiration_ms)
    with pytest.raises(AppendRefused):
        log.append(transactional(1, 0), now_ms=NOW_MS, leader_epoch=0, origin=CLIENT, verification=guard)


def test_nothing_is_written_beside_an_open_transaction(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    beside = build_batch(records("v"), producer_id=1, producer_epoch=0, base_sequence=1)
    assert refused(log, beside) is ErrorCode.invalid_txn_state


def test_old_epochs_are_fenced(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0, epoch=3)
    assert refused(log, marker(1, commit=True, epoch=2), COORDINATOR) is ErrorCode.invalid_producer_epoch
    end(log, 1, commit=False, epoch=4)
    assert refused(log, transactional(1, 1, epoch=3)) is ErrorCode.invalid_producer_epoch
    assert write(log, 1, 0, epoch=4) == 2


def test_old_coordinators_are_fenced(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    end(log, 1, commit=False, coordinator_epoch=7)
    stale = marker(1, commit=True, coordinator_epoch=6)
    assert refused(log, stale, COORDINATOR) is ErrorCode.transaction_coordinator_fenced
    end(log, 1, commit=True, coordinator_epoch=7)


def test_a_late_marker_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0, epoch=0)
    late = marker(1, commit=False, epoch=1, coordinator_epoch=3)
    put(log, bytearray(late), COORDINATOR, version=2)
    put(log, bytearray(late), COORDINATOR, version=2)  # nothing is open: the same attempt again
    first = write(log, 1, 0, epoch=1)
    with pytest.raises(AppendRefused) as raised:
        put(log, bytearray(late), COORDINATOR, version=2)
    assert raised.value.error_code is ErrorCode.invalid_producer_epoch
    put(log, marker(1, commit=True, epoch=2, coordinator_epoch=3), COORDINATOR, version=2)
    log.advance_high_watermark()
    assert log.reading.aborted(first, log.log_end_offset) == []
    assert log.last_stable_offset == log.log_end_offset


def test_brokers_of_before_say_no_version_with_their_markers(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0, epoch=1)
    put(log, marker(1, commit=True, epoch=1), COORDINATOR, version=1)
    write(log, 1, 1, epoch=1)
    put(log, marker(1, commit=True, epoch=1), COORDINATOR)
    log.advance_high_watermark()
    assert log.last_stable_offset == log.log_end_offset == 4


def test_a_repeated_batch_of_an_ended_transaction_gets_its_first_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    end(log, 1, commit=True)
    repeated = log.append(transactional(1, 0), now_ms=NOW_MS, leader_epoch=0, origin=CLIENT)
    assert (repeated.is_duplicate, repeated.base_offset) == (True, 0)


def test_an_unknown_producer_may_start_anywhere(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert write(log, 1, 4711) == 0
    assert write(log, 1, 4712) == 1


def test_sequences_go_on_across_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0, count=3)
    end(log, 1, commit=True)
    with pytest.raises(AppendRefused):
        write(log, 1, 5)
    assert write(log, 1, 3) == 4


def test_an_open_transaction_keeps_its_producer(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0)
    write(log, 2, 0)
    end(log, 2, commit=True)
    assert log.expire_producers(NOW_MS + log.config.producer_id_expiration_ms) == 1
    log.advance_high_watermark()
    assert log.last_stable_offset == 0
    log.producers.states.producers_max = 1
    write(log, 3, 0)
    end(log, 3, commit=True)
    write(log, 4, 0)
    assert {entry.producer_id for entry in log.producers.describe()} >= {1, 4}


def test_producers_are_described(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 1, 0, count=2)
    write(log, 2, 9, epoch=5)
    end(log, 2, commit=True, epoch=6, coordinator_epoch=3)
    assert log.producers.describe() == [
        ActiveProducer(1, 0, 1, NOW_MS, -1, 0),
        ActiveProducer(2, 6, -1, NOW_MS, 3, -1),
    ]


def test_markers_are_kafkas() -> None:
    data = marker(7, commit=True, epoch=2, coordinator_epoch=9)
    header = parse_header(data)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    # length, attributes, timestamp delta, offset delta; key of 4: version 0, type 1; value of 6; no headers
    assert data[HEADER_SIZE:].hex() == "20000000" + "0800000001" + "0c000000000009" + "00"
    assert parse_marker(data, header) == EndMarker(True, 9)
    data[HEADER_SIZE + 8] = 5
    assert parse_marker(data, header) is None
    assert parse_marker(data, header._replace(record_count=0)) is None
    assert parse_marker(data[:-9], header) is None


# Any life of a log


class Model:
    """What the batches of a log say, read from the first to the last."""

    def __init__(self, log: PartitionLog) -> None:
        self.open: dict[int, int] = {}
        self.ended: list[tuple[int, int, int]] = []
        self.aborted: list[AbortedTransaction] = []
        data = b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            self._read(header.base_offset, header.producer_id, data[at : at + header.size_bytes])
            at += header.size_bytes

    def _read(self, offset: int, producer_id: int, data: bytes) -> None:
        header = parse_header(data)
        if not header.is_transactional:
            return
        if not header.is_control:
            self.open.setdefault(producer_id, offset)
            return
        found = parse_marker(data, header)
        first = self.open.pop(producer_id, None)
        if found is None or first is None:
            return
        self.ended.append((producer_id, first, offset))
        if not found.is_commit:
            stable = min(self.open.values(), default=offset + 1)
            self.aborted.append(AbortedTransaction(producer_id, first, offset, stable))

    def last_stable_offset(self, high_watermark: int) -> int:
        waiting = [first for _, first, last in self.ended if last >= high_watermark]
        return min([*self.open.values(), *waiting, high_watermark])

    def aborted_between(self, first: int, upper: int) -> list[AbortedTransaction]:
        return [entry for entry in self.aborted if entry.last_offset >= first and entry.first_offset < upper]


class Life:
    """Random steps of a log with transactions."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.manager: LogManager = open_manager(directory)[0]
        self.log = new_log_in(self.manager)
        self.sequences: dict[int, int] = {}

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.55:
            self.write()
        elif draw < 0.8:
            producer_id = self.random.randrange(6)
            end(self.log, producer_id, commit=self.random.random() < 0.5)
        elif draw < 0.9:
            self.log.advance_high_watermark(
                self.random.randint(self.log.high_watermark, self.log.log_end_offset)
            )
        elif draw < 0.94:
            flush(self.manager)
        elif draw < 0.97:
            self.truncate()
        else:
            self.restart()

    def write(self) -> None:
        if self.random.random() < 0.2:
            put(self.log, batch("x" * self.random.randrange(400)), CLIENT)
            return
        producer_id = self.random.randrange(6)
        known = {entry.producer_id: entry for entry in self.log.producers.describe()}
        sequence = known[producer_id].last_sequence + 1 if producer_id in known else 0
        write(self.log, producer_id, sequence, payload="x" * self.random.randrange(400))

    def truncate(self) -> None:
        offset = self.random.randint(self.log.high_watermark, self.log.log_end_offset)
        self.log.truncation.truncate_to(offset)

    def restart(self) -> None:
        if self.random.random() < 0.3:
            assert self.manager.close() == []
        else:
            crash(self.manager)
            if self.random.random() < 0.3:
                for path in self.log.directory.glob("*.txnindex"):
                    path.write_bytes(os.urandom(self.random.randrange(1, 100)))
            if self.random.random() < 0.3:
                for path in self.log.directory.glob("*.snapshot"):
                    path.write_bytes(b"damaged")
        high_watermark = self.log.high_watermark
        self.manager = LogManager([self.directory], cluster_id="test", node_id=0)
        self.manager.load(lambda _: SMALL, NOW_MS)
        self.log = self.manager.logs[TOPIC, 0]
        self.log.advance_high_watermark(high_watermark)

    def check(self) -> None:
        log, model = self.log, Model(self.log)
        low, high = model.last_stable_offset(log.high_watermark), log.high_watermark
        assert low <= log.last_stable_offset <= high
        described = log.producers.describe()
        assert {p.producer_id: p.txn_start_offset for p in described if p.txn_start_offset >= 0} == model.open
        first = self.random.randint(0, log.log_end_offset)
        upper = self.random.randint(first, log.log_end_offset)
        found: Sequence[AbortedTransaction] = log.reading.aborted(first, upper)
        assert found == model.aborted_between(first, upper)


@pytest.mark.parametrize("seed", range(12))
def test_any_life_of_a_log_with_transactions(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    for _ in range(150):
        life.step()
        life.check()
    crash(life.manager)


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    for number in range(30):
        write(log, number, 0, payload="x" * 300)
        end(log, number, commit=False)
    log.advance_high_watermark()
    expected = log.reading.aborted(0, log.log_end_offset)
    assert manager.close() == []
    path = sorted(log.directory.glob("*.txnindex"))[1]
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    manager, report = open_manager(tmp_path)
    assert report.clean
    log = manager.logs[TOPIC, 0]
    assert log.reading.aborted(0, log.log_end_offset) == expected
    manager.close()
    assert path.read_bytes() == content


def test_damage_while_running_is_a_storage_error(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(30):
        write(log, number, 0, payload="x" * 300)
        end(log, number, commit=False)
    log.advance_high_watermark()
    first = log.segments.first
    first.drop_indexes()
    first.path(".txnindex").write_bytes(b"x")
    with pytest.raises(StorageFailed):
        log.reading.aborted(0, 5)
