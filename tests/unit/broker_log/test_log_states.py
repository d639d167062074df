"""Random lives of a log: whatever happens, what was flushed is there and what is read is right."""

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.log.log_config import LogConfig
from broker.log.offset_index import OffsetIndex
from broker.log.time_index import TimeIndex
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    append,
    crash,
    flush,
    idempotent,
    latest_found,
    new_log_in,
    open_manager,
    read_all,
    records,
)
from wire.batch import build_batch, iterate_batches

CONFIG = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=200,
    segment_ms=50_000,
    retention_ms=100_000,
    cleanup_policy=frozenset({"delete"}),
)
PRODUCER = 42
_MEMORY = Path("/dev/shm")
"""Power cuts are made by hand here, so no disk has to take part: each of thousands of fsyncs waits for it."""


class LogLife(RuleBasedStateMachine):
    """`written` is everything appended and not lost, `model` the part of it from the log start on: offset ->
    (value, timestamp)."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(
            tempfile.mkdtemp(prefix="log-states-", dir=_MEMORY if _MEMORY.is_dir() else None)
        )
        self.written: dict[int, tuple[str, int]] = {}
        self.model: dict[int, tuple[str, int]] = {}
        self.start = self.end = self.flushed = self.checkpointed_start = 0
        self.flushed_sizes: dict[str, int] = {}
        self.sequence = 0
        self.sent: list[tuple[int, int, int]] = []
        self.now_ms = NOW_MS

    @initialize()
    def begin(self) -> None:
        self.manager, _ = open_manager(self.directory, CONFIG)
        self.log = new_log_in(self.manager, CONFIG)
        self.flush()

    def note(self, found: list[tuple[str, int]]) -> None:
        for offset, entry in enumerate(found, self.end):
            self.model[offset] = self.written[offset] = entry
        self.end += len(found)

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 200),
        step_ms=st.integers(-20, 20),
        gap_ms=st.integers(0, 20_000),
    )
    def produce(self, count: int, size: int, step_ms: int, gap_ms: int) -> None:
        self.now_ms += gap_ms
        texts = [f"{self.end + number}".ljust(size, ".") for number in range(count)]
        rows = records(*texts, at_ms=self.now_ms, step_ms=step_ms)
        assert append(self.log, build_batch(rows), now_ms=self.now_ms).base_offset == self.end
        self.note([(text, row.timestamp_ms) for text, row in zip(texts, rows, strict=True)])

    @rule(count=st.integers(1, 3))
    def produce_idempotently(self, count: int) -> None:
        data = idempotent(PRODUCER, self.sequence, count)
        assert append(self.log, data, now_ms=self.now_ms).base_offset == self.end
        self.sent.append((self.sequence, count, self.end))
        self.note([(f"p{PRODUCER}s{self.sequence + number}", NOW_MS) for number in range(count)])
        self.sequence += count

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(1, 5))
    def repeat(self, back: int) -> None:
        sequence, count, offset = self.sent[-min(back, len(self.sent))]
        result = append(self.log, idempotent(PRODUCER, sequence, count), now_ms=self.now_ms)
        assert (result.is_duplicate, result.base_offset) == (True, offset)

    @rule(share=st.floats(0, 1))
    def read(self, share: float) -> None:
        offset = self.start + int(share * (self.end - self.start))
        found = [(r.offset, ((r.value or b"").decode(), r.timestamp_ms)) for r in read_all(self.log, offset)]
        assert found == [(at, self.model[at]) for at in range(offset, self.end)]

    @rule(share=st.floats(0, 1))
    def look_up_a_time(self, share: float) -> None:
        wanted = NOW_MS + int(share * (self.now_ms - NOW_MS + 100))
        late = [(stamp, at) for at, (_, stamp) in sorted(self.model.items()) if stamp >= wanted]
        assert self.log.reading.offset_for_timestamp(wanted) == (late[0] if late else None)

    @rule(share=st.floats(0, 1))
    def look_up_the_latest(self, share: float) -> None:
        found = self.log.segments.find(self.start + int(share * (self.end - self.start)))
        up_to = self.end if found is None or found[2] is None else found[2].base_offset
        committed = [(stamp, -at) for at, (_, stamp) in self.model.items() if at < up_to]
        stamp, at = max(committed, default=(0, 0))
        assert latest_found(self.log, up_to=up_to) == ((stamp, -at) if committed else None)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = self.start + int(share * (self.end - self.start))
        assert self.log.retention.delete_records_before(offset) == offset
        self.start_at(offset)

    @rule()
    def retain(self) -> None:
        self.log.retention.apply(self.now_ms)
        expired = [stamp for at, (_, stamp) in self.model.items() if at < self.log.log_start_offset]
        assert all(self.now_ms - stamp > CONFIG.retention_ms for stamp in expired)
        self.start_at(self.log.log_start_offset)

    def start_at(self, offset: int) -> None:
        self.start = offset
        self.model = {at: self.written[at] for at in range(offset, self.end)}

    @rule()
    def roll(self) -> None:
        self.log.rolling.roll_if_due(self.now_ms)

    @rule()
    def flush(self) -> None:
        flush(self.manager)
        assert self.log.recovery_point == self.end
        self.flushed, self.checkpointed_start = self.end, self.start
        self.flushed_sizes = {path.name: path.stat().st_size for path in self.log.directory.glob("*.log")}

    @rule()
    def restart_cleanly(self) -> None:
        assert self.manager.close() == []
        self.reopen()
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.recovered_bytes == 0
        self.flush()

    @rule(
        damage=st.sampled_from(["none", "cut", "flip", "append"]),
        spoil=st.sampled_from(["", ".index", ".timeindex"]),
        keep=st.floats(0, 1),
    )
    def crash(self, damage: str, spoil: str, keep: float) -> None:
        """Kill -9, or a power cut that spoils what was not synced."""
        crash(self.manager)
        unsynced = [
            (path, self.flushed_sizes.get(path.name, 0))
            for path in sorted(self.log.directory.glob("*.log"))
            if path.stat().st_size > self.flushed_sizes.get(path.name, 0)
        ]
        if unsynced and damage != "none":
            hurt(*unsynced[int(keep * (len(unsynced) - 1))], damage, keep)
        path = max(self.log.directory.glob("*" + spoil), default=None) if spoil else None
        if path is not None:
            os.truncate(path, int(keep * path.stat().st_size))
        self.reopen()
        assert self.flushed <= self.log.log_end_offset <= self.end
        if damage in ("none", "append"):
            assert self.log.log_end_offset == self.end
        for offset in range(self.log.log_end_offset, self.end):
            del self.written[offset]
        self.end = self.log.log_end_offset
        assert self.checkpointed_start <= self.log.log_start_offset <= max(self.start, self.flushed)
        self.start_at(self.log.log_start_offset)
        self.sequence = self.sent[-1][0] + self.sent[-1][1] if self.sent else 0

    def reopen(self) -> None:
        self.manager, _ = open_manager(self.directory, CONFIG, self.now_ms)
        self.log = self.manager.logs[TOPIC, 0]
        first = min(int(path.stem) for path in self.log.directory.glob("*.log"))
        self.sent = [sent for sent in self.sent if sent[2] < self.log.log_end_offset]
        self.sent = [sent for sent in self.sent if sent[2] >= first or sent is self.sent[-1]]

    @invariant()
    def offsets_are_in_order(self) -> None:
        assert self.log.log_start_offset <= self.log.high_watermark <= self.log.log_end_offset
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.size_bytes == sum(path.stat().st_size for path in self.log.directory.glob("*.log"))

    @invariant()
    def index_files_point_at_batches(self) -> None:
        for path in self.log.directory.glob("*.log"):
            batches = dict(iterate_batches(path.read_bytes()))
            base = int(path.stem)
            entries = OffsetIndex(base, index_content(path.with_suffix(".index")))
            for offset, position in entries_of(entries):
                assert batches[position].last_offset == offset
            times = TimeIndex(base, index_content(path.with_suffix(".timeindex")))
            assert times.is_sound()
            ends = {header.last_offset: header.max_timestamp_ms for header in batches.values()}
            for number in range(len(times)):
                stamp, offset = times.entry(number)
                assert ends[offset] == stamp == max(t for end, t in ends.items() if end <= offset)

    def teardown(self) -> None:
        crash(self.manager)
        shutil.rmtree(self.directory)


def index_content(path: Path) -> bytes:
    """Of a new log they have no file before their first entry."""
    return path.read_bytes() if path.exists() else b""


def entries_of(index: OffsetIndex) -> list[tuple[int, int]]:
    data = index.to_bytes()
    return [
        (
            index.base_offset + int.from_bytes(data[at : at + 4], "big"),
            int.from_bytes(data[at + 4 : at + 8], "big"),
        )
        for at in range(0, len(data), 8)
    ]


def hurt(path: Path, synced: int, damage: str, keep: float) -> None:
    size = path.stat().st_size
    at = synced + int(keep * (size - synced - 1))
    if damage == "cut":
        os.truncate(path, at)
    elif damage == "append":
        with max(path.parent.glob("*.log")).open("ab") as file:
            file.write(b"\0" * 100)
    else:
        data = bytearray(path.read_bytes())
        starts = [start for start, _ in iterate_batches(bytes(data)) if start <= at]
        in_batch = at - starts[-1]
        if (
            in_batch >= 16 or 8 <= in_batch < 12
        ):  # no CRC covers base offset and leader epoch, in Kafka neither
            data[at] ^= 0x04
        path.write_bytes(data)


TestLogLife = LogLife.TestCase
TestLogLife.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
