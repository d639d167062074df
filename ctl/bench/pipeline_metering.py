"""Metering: records through the gateway into usage_raw, many and few; a day rolled up, a month's p95."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from deltalake import write_deltalake

from contracts.billing import DAY_MS, SLOT_MS
from contracts.usage_batches import COLUMNS, OF_RUN
from contracts.usage_records import USAGE_TOPIC, USAGE_VERSION
from ctl.bench import servers
from ctl.bench.measure import Say, Spread, cpu_seconds, seconds_of
from ctl.bench.random_records import create_topics, produce
from pipeline.ingest.offsets import KafkaSource
from pipeline.layout import PipelineLayout
from pipeline.metering.ingest import ingest
from pipeline.metering.month_usage import month_usage
from pipeline.metering.rollup import UsageTables, roll_up
from pipeline.metering.versioned_tables import Table
from pipeline.schema.usage_records import USAGE_RECORD

INSTANCES: Final = 1_000
_POINTS: Final = 3
_PAIRS: Final = INSTANCES * _POINTS
_MINUTES: Final = 500
_FEW: Final = 144
_MINUTE_MS: Final = 60_000
_PARTITIONS: Final = 4
_REPEATED: Final = 50
"""One record in so many is there twice."""
_DAY: Final = date(2026, 11, 2)
_START_MS: Final = 1_793_577_600_000
_NOW_MS: Final = _START_MS + (_MINUTES + 1) * _MINUTE_MS
_MONTH: Final = date(2026, 10, 1)
_SLOTS: Final = 8_928
"""All that the month has."""
_ROWS_AT_ONCE: Final = 100_000
_READ_AT_ONCE: Final = 10_000
_READ_S: Final = 60.0


def measure(rounds: int, say: Say, minutes: int = _MINUTES) -> dict[str, object]:
    """Rates in records a second, and CPU seconds of this process per million of them."""
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(2_000_000_000)) as name, ExitStack() as stack:
        bench = _MeteringBench(Path(name), stack, minutes)
        say(f"metering: {bench.records:,} usage records on a topic")
        bench.fill()
        rates, cpu_s, ratios = [], [], []
        for turn in range(rounds + 1):
            say(f"metering: round {turn} of {rounds}")
            plain_s = bench.read()
            spent_s, used_s = bench.from_topic()
            if turn > 0:
                rates.append(bench.records / spent_s)
                cpu_s.append(used_s * 1e6 / bench.records)
                ratios.append(plain_s / spent_s)
        say(f"metering: {_FEW} records at a time")
        few = bench.few(rounds)
        say(f"metering: a day of {INSTANCES:,} instances")
        rolled = bench.rollup(rounds)
        say("metering: what bills need of a month")
        month = bench.month(rounds)
    return {
        "ingest through the gateway, records/s": Spread.of(rates),
        "ingest, CPU s per million records": Spread.of(cpu_s),
        "ingest : plain read to nowhere": Spread.of(ratios),
        f"{_FEW} new records ingested and rolled up, s": Spread.of(few),
        f"a day of {INSTANCES:,} instances x {_POINTS} brokers rolled up, s": Spread.of(rolled),
        f"sums and p95 of {INSTANCES:,} instances x {_SLOTS:,} slots, s": Spread.of(month),
    }


class _MeteringBench:
    """A broker and a gateway with a topic of usage records."""

    def __init__(self, directory: Path, stack: ExitStack, minutes: int) -> None:
        self._directory = directory
        broker = stack.enter_context(servers.broker(directory))
        gateway = stack.enter_context(servers.gateway(directory, broker.port))
        self._source = KafkaSource(f"127.0.0.1:{gateway.port}")
        self._rounds = 0
        self._rows = _PAIRS * minutes
        self.records = self._rows + -(-self._rows // _REPEATED)
        self._messages = 2 * _POINTS * minutes

    def fill(self) -> None:
        """Make the records."""
        create_topics(self._source.bootstrap, [USAGE_TOPIC], _PARTITIONS)
        produce(self._source.bootstrap, _messages(0, self._rows))
        produce(self._source.bootstrap, _messages(0, self._rows, every=_REPEATED))

    def read(self) -> float:
        """Seconds of a consumer for every message, which does nothing with them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._source.bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        started, messages = time.perf_counter(), 0
        try:
            consumer.assign([TopicPartition(USAGE_TOPIC, each, 0) for each in range(_PARTITIONS)])
            while messages < self._messages:
                found = consumer.consume(min(_READ_AT_ONCE, self._messages - messages), _READ_S)
                if not found or (error := next((one.error() for one in found if one.error()), None)):
                    raise KafkaException(error) if found else RuntimeError("the topic's messages do not come")
                messages += len(found)
            return time.perf_counter() - started
        finally:
            consumer.close()

    def from_topic(self) -> tuple[float, float]:
        """Seconds and CPU seconds of ingestion through the gateway."""
        layout = self._layout()
        cpu_s, started = cpu_seconds(os.getpid()), time.perf_counter()
        rows = ingest(layout, self._source, now_ms=lambda: _NOW_MS).rows
        spent_s = time.perf_counter() - started
        if rows != self._rows:
            raise RuntimeError(f"{rows} rows were ingested, not {self._rows}")
        shutil.rmtree(layout.root)
        return spent_s, cpu_seconds(os.getpid()) - cpu_s

    def few(self, rounds: int) -> list[float]:
        """Seconds for some more records in a table that has all: ingested, and their hours made."""
        layout = self._layout()
        ingest(layout, self._source, now_ms=lambda: _NOW_MS)
        roll_up(layout)
        spent = []
        for first in range(self._rows, self._rows + _FEW * (rounds + 1), _FEW):
            produce(self._source.bootstrap, _messages(first, first + _FEW))
            spent.append(seconds_of(lambda: self._taken(layout)))
        shutil.rmtree(layout.root)
        return spent[1:]

    def _taken(self, layout: PipelineLayout) -> None:
        rows = ingest(layout, self._source, now_ms=lambda: _NOW_MS).rows
        if rows != _FEW or not roll_up(layout).hours:
            raise RuntimeError(f"{rows} rows were ingested, not {_FEW}")

    def rollup(self, rounds: int) -> list[float]:
        """Seconds for a day, all hours of which are touched."""
        layout = self._layout()
        rows = _records(_ms(_DAY), 0, _PAIRS * DAY_MS // _MINUTE_MS)
        times = f"date '{_DAY}' as day, make_timestamp_ms(interval_start_ms) as interval_start"
        _write(UsageTables(layout).raw, f"select *, false as recovered, {times} from ({rows})")
        spent = [seconds_of(lambda: roll_up(layout, days=[_DAY])) for _ in range(rounds + 1)]
        shutil.rmtree(layout.root)
        return spent[1:]

    def month(self, rounds: int) -> list[float]:
        """Seconds for all that bills need of a month: sums, gaps and percentiles of all instances."""
        layout = self._layout()
        table = UsageTables(layout).slots
        _write(
            table,
            f"""select *, slot_start::date as day from (
                select format('i{{:011d}}', i) as instance_id, hash(i, s) % 1000000000000 as produce_bytes,
                    produce_bytes * 2 as consume_bytes,
                    make_timestamp_ms({_ms(_MONTH)} + s * {SLOT_MS}) as slot_start
                from range(1, {INSTANCES} + 1) a(i), range({_SLOTS}) b(s))""",
        )
        spent = [seconds_of(lambda: self._used(table)) for _ in range(rounds + 1)]
        shutil.rmtree(layout.root)
        return spent[1:]

    def _used(self, slots: Table) -> None:
        found = month_usage(slots, slots.version(), f"{_MONTH:%Y-%m}")
        if len(found) != INSTANCES:
            raise RuntimeError(f"{len(found)} instances have usage, not {INSTANCES}")

    def _layout(self) -> PipelineLayout:
        self._rounds += 1
        return PipelineLayout(self._directory / f"round-{self._rounds}")


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _write(table: Table, query: str) -> None:
    """The query's columns; the table's others are empty or zero."""
    table.ensure()
    with duckdb.connect() as database:
        made = database.sql(query)
        nothing = {
            field.name: "''" if pa.types.is_string(field.type) else "0"
            for field in table.schema
            if field.name not in made.columns
        }
        filled = (f"{nothing.get(name, name)} as {name}" for name in table.schema.names)
        rows = database.sql(f"select {', '.join(filled)} from made").to_arrow_reader(_ROWS_AT_ONCE)
        cast = pa.RecordBatchReader.from_batches(table.schema, (each.cast(table.schema) for each in rows))
        write_deltalake(str(table.path), cast, mode="append")


def _messages(first: int, end: int, every: int = 1) -> Iterator[tuple[str, int, bytes]]:
    """Records of `_records` as they come in: of each point a message a minute."""
    lists = ", ".join(f"{name} := list({name} order by n)" for name in COLUMNS)
    with duckdb.connect() as database:
        made = database.sql(
            f"""select any_value(node_id) % {_PARTITIONS} as place, to_json(struct_pack(
                {", ".join(f"{name} := any_value({name})" for name in ("version", *OF_RUN))},
                instance_id := list(instance_id order by n), columns := struct_pack({lists}))) as value
            from ({_records(_START_MS, first, end)}) where n % {every} = 0
            group by boot_id, interval_start_ms order by interval_start_ms, boot_id"""
        )
        for batch in made.to_arrow_reader(_ROWS_AT_ONCE):
            for place, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield USAGE_TOPIC, place, value.encode()


def _records(start_ms: int, first: int, end: int) -> str:
    """One per instance, point and minute, in order of time; counted from 0."""
    known = {
        "id": "concat_ws('/', boot_id, instance_id, interval_start_ms)",
        "point": "'broker-' || p",
        "node_id": "p",
        "cluster_id": "'builtin-1'",
        "boot_id": "boot_id",
        "counted_since_ms": str(start_ms),
        "instance_id": "instance_id",
        "interval_start_ms": "interval_start_ms",
        "interval_ms": str(_MINUTE_MS),
        "grid_ms": str(_MINUTE_MS),
        "produce_bytes": "used",
        "consume_bytes": "used * 2",
        "produce_bytes_total": "used * (m + 1)",
        "consume_bytes_total": "used * 2 * (m + 1)",
        "partitions_led": "4",
        "stored_bytes": "used * (m + 1)",
        "stored_byte_ms": f"used * (m + 1) * {_MINUTE_MS}",
        "sent_at_ms": f"interval_start_ms + {_MINUTE_MS + 100}",
        "version": str(USAGE_VERSION),
    }
    columns = ", ".join(f"{known.get(name, 'used % 1000')} as {name}" for name in USAGE_RECORD.names)
    return f"""
        select n, i, {columns} from (
            select n, i, p, m, {start_ms} + m * {_MINUTE_MS} as interval_start_ms,
                format('i{{:011d}}', i) as instance_id, format('{{:032d}}', p) as boot_id,
                (hash(i) % 10000000 + 1)::bigint as used
            from (select n, n % {INSTANCES} as i, n % {_PAIRS} // {INSTANCES} as p, n // {_PAIRS} as m
                from range({first}, {end}) r(n)))"""
