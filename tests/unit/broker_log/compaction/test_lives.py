"""Any life of a compacted log: what consumers know is what they would know without."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from broker.log.results import AppendOrigin
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    crash,
    flush,
    new_log_in,
    open_manager,
)
from tests.unit.broker_log.compaction.compacted_log import (
    COMPACT,
    roll,
    rows,
)
from tests.unit.broker_log.test_transactions import end, put
from wire.batch import TRANSACTIONAL_BIT, build_batch


def committed(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes]]:
    """What a read_committed consumer knows in the end: offset and value of each key that has one."""
    aborted = log.reading.aborted(0, log.log_end_offset)
    known: dict[bytes | None, tuple[int, bytes]] = {}
    for segment in log.segments:
        for position, header in segment.headers(0):
            gone = any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset <= entry.last_offset
                for entry in aborted
            )
            if header.is_control or (gone and header.is_transactional):
                continue
            for record in records_of(segment.read(position, header.size_bytes), header):
                if record.value is None:
                    known.pop(record.key, None)
                else:
                    known[record.key] = (record.offset, record.value)
    return known


class Twins:
    """Two logs with the same appends; one is compacted and crashes."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.directory = directory / "compacted"
        self.manager, _ = open_manager(self.directory, COMPACT)
        self.log = new_log_in(self.manager, COMPACT)
        self.shadow = new_log_in(open_manager(directory / "shadow", COMPACT)[0], COMPACT)
        self.sequences: dict[int, int] = {}
        self.now_ms = NOW_MS

    def both(self, act: Callable[[PartitionLog], object]) -> None:
        act(self.log)
        act(self.shadow)

    def write(self) -> None:
        producer_id = self.draw.randrange(4)
        pairs = [
            (
                f"k{self.draw.randrange(12)}",
                None if self.draw.random() < 0.2 else self.draw.randbytes(20).hex(),
            )
            for _ in range(self.draw.randrange(1, 6))
        ]
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(pairs)
        data = build_batch(
            rows(*pairs),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT if producer_id else 0,
        )
        self.both(lambda log: put(log, bytearray(data), AppendOrigin.CLIENT))

    def end(self) -> None:
        producer_id, commit = self.draw.randrange(1, 4), self.draw.random() < 0.6
        self.both(lambda log: end(log, producer_id, commit=commit))

    def compact(self) -> None:
        self.log.advance_high_watermark()
        self.log.durability.flush()
        if self.log.segments.active.size_bytes and self.draw.random() < 0.5:
            roll(self.log)
        job = self.log.compaction.begin(self.now_ms, self.draw.choice((500, 10**6)))
        if job is not None:
            job.run()
            assert self.log.compaction.complete(job) is not None

    def crash(self) -> None:
        flush(self.manager)
        crash(self.manager)
        if self.draw.random() < 0.5:
            for path in self.log.directory.glob("*.snapshot"):
                path.unlink()
        self.manager, report = open_manager(self.directory, COMPACT)
        assert report.truncated_bytes == 0
        self.log = self.manager.logs[TOPIC, 0]

    def step(self) -> None:
        self.now_ms += self.draw.randrange(300)
        chance = self.draw.random()
        if chance < 0.6:
            self.write()
        elif chance < 0.8:
            self.end()
        elif chance < 0.95:
            self.compact()
        else:
            self.crash()


@pytest.mark.parametrize("seed", [*range(10), 206])
def test_any_life_of_a_compacted_log(tmp_path: Path, seed: int) -> None:
    twins = Twins(tmp_path, seed)
    for _ in range(120):
        twins.step()
        assert twins.log.log_end_offset == twins.shadow.log_end_offset
        twins.shadow.advance_high_watermark()
        twins.log.advance_high_watermark()
        assert twins.log.last_stable_offset == twins.shadow.last_stable_offset
    for producer_id in (1, 2, 3):
        twins.both(lambda log, producer_id=producer_id: end(log, producer_id, commit=False))  # type: ignore[misc]
    assert committed(twins.log) == committed(twins.shadow)
    assert twins.log.size_bytes < twins.shadow.size_bytes
    known = {entry.producer_id: entry.last_sequence for entry in twins.log.producers.describe()}
    assert known == {entry.producer_id: entry.last_sequence for entry in twins.shadow.producers.describe()}
    crash(twins.manager)
