"""Advice: what a whole run over many instances takes."""

import tempfile
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import write_deltalake

from contracts.billing import DAY_MS, HOUR_MS, USAGE_HOUR, PeriodState
from contracts.usage_records import USAGE_RAW
from ctl.bench.measure import Say, Spread, seconds_of
from pipeline.advice.job import advise
from pipeline.advice.judging.hours import HISTORY_H
from pipeline.advice.judging.judgement import Bought
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.schema import rollup, usage_records

_BROKERS: Final = 3
_MINUTES: Final = 24 * 60
_MINUTE_MS: Final = 60_000
_NOW_MS: Final = 20_000 * DAY_MS
"""Any midnight."""
_ID: Final = "'i' || lpad(number::varchar, 11, '0')"
_RATE: Final = """(1e6 * (1 + number % 50) * (1.2 + sin(step / 24 * 6.2832) + random() / 10)
    * if(number % 3 = 0, 1 + step / 1000, 1))::bigint"""
"""A daily season with noise, every third instance growing."""
_HOUR_MS: Final = f"({_NOW_MS - HISTORY_H * HOUR_MS} + step * {HOUR_MS})"
_HOURS: Final = dict.fromkeys((*rollup.PEAKS_5M, *rollup.LARGEST[:2]), _RATE) | {
    "instance_id": _ID,
    "hour_start": f"epoch_ms({_HOUR_MS})",
    "day": f"epoch_ms({_HOUR_MS})::date",
    "stored_byte_ms": f"(1000000000 + number * step * 1000000)::hugeint * {HOUR_MS}",
    "state": f"'{PeriodState.COMPLETE}'",
}
_MINUTE: Final = f"({_NOW_MS - _MINUTES * _MINUTE_MS} + step // {_BROKERS} * {_MINUTE_MS})"
_BROKER: Final = f"(step % {_BROKERS} + 1)"
_POINTS: Final = {
    "instance_id": _ID,
    "node_id": _BROKER,
    "point": f"'broker-' || {_BROKER}",
    "interval_start_ms": _MINUTE,
    "interval_ms": str(_MINUTE_MS),
    "day": f"epoch_ms({_MINUTE})::date",
    "produce_bytes": f"(random() * 100000000)::bigint * {_BROKER}",
    "consume_bytes": "(random() * 100000000)::bigint",
    "partitions_led": "2",
    "stored_bytes": "1000000000",
}
"""Each broker is busier than the one before."""


def measure(rounds: int, instances: int, say: Say) -> dict[str, object]:
    """Runs over four weeks of hours, and a day of three brokers' minutes."""
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as name:
        layout = PipelineLayout(Path(name))
        say(f"advice: usage of {instances} instances")
        bought = [Bought(f"i{number:011d}", 20_000_000, 40_000_000, 10**11) for number in range(instances)]
        _fill(layout.table(USAGE_HOUR), instances, HISTORY_H, _HOURS, rollup.USAGE_HOUR)
        steps = _BROKERS * _MINUTES
        _fill(layout.table(USAGE_RAW), instances, steps, _POINTS, usage_records.USAGE_RAW)
        whole_s = []
        for turn in range(rounds):
            say(f"advice: run {turn + 1} of {rounds}")
            whole_s.append(seconds_of(lambda: _advise(layout, bought)))
    return {f"advise on {instances:,} instances, s": Spread.of(whole_s)}


def _advise(layout: PipelineLayout, bought: list[Bought]) -> None:
    advised = advise(layout, Silent(), bought, now_ms=_NOW_MS, places=lambda _: {})
    short = [row for row in advised.advice if not row.is_enough_history]
    if len(advised.advice) != len(bought) or short:
        raise RuntimeError(f"{len(advised.advice)} instances were advised, {len(short)} without a forecast")


def _fill(path: Path, instances: int, steps: int, columns: dict[str, str], schema: pa.Schema) -> None:
    """Columns that are not named are zero where they are numbers, else null."""
    selected = [
        f"{columns.get(field.name, '0' if _is_number(field.type) else 'null')} as {field.name}"
        for field in schema
    ]
    rows = (
        duckdb.connect()
        .sql(
            f"""select {", ".join(selected)} from (select unnest(range({instances})) as number),
        (select unnest(range({steps})) as step)"""
        )
        .to_arrow_reader(1_000_000)
    )
    cast = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))
    write_deltalake(str(path), cast, partition_by=["day"])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))
