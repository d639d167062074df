"""What each instance used in a month, from batches of rows of `usage_5m`: pure, on columns.

The 95th percentile is the value of nearest rank (`calendar.p95_rank`) among all slots of the calendar month;
slots without a row are zeros.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contracts.billing import HOUR_MS, SLOT_MS
from pipeline.metering.amounts.calendar import p95_rank

_ADDED: Final = (
    *("produce_bytes", "consume_bytes", "produce_requests", "consume_requests", "stored_byte_ms"),
    *("produce_limit_bytes_per_s", "consume_limit_bytes_per_s", "expected_ms", "covered_ms"),
)
SUMS_READ: Final = ("instance_id", "slot_start", *_ADDED)
"""Columns that `MonthSums` needs."""
P95_READ: Final = ("instance_id", "slot_start", "produce_bytes", "consume_bytes")
"""Columns that `month_p95` needs."""
_BIG: Final = pa.decimal128(38, 0)


class MonthSums:
    """Sums by instance, and hours of which reports are missing; rows come in batches of any size."""

    def __init__(self) -> None:
        self._sums: dict[str, Counter[str]] = {}
        self._missing_ms: dict[str, Counter[int]] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows of `SUMS_READ`."""
        table = pa.table([rows["instance_id"], *(_addable(rows[name]) for name in _ADDED)], ["id", *_ADDED])
        for sums in table.group_by("id").aggregate([(name, "sum") for name in _ADDED]).to_pylist():
            counter = self._sums.setdefault(sums["id"], Counter())
            counter.update({name: int(sums[f"{name}_sum"]) for name in _ADDED})
        less = rows.filter(pc.greater(rows["expected_ms"], rows["covered_ms"]))
        at_ms = _epoch_ms(less["slot_start"]).tolist()
        missing_ms = pc.subtract(less["expected_ms"], less["covered_ms"]).to_pylist()
        for instance, at, missing in zip(less["instance_id"].to_pylist(), at_ms, missing_ms, strict=True):
            self._missing_ms.setdefault(instance, Counter())[at - at % HOUR_MS] += missing

    def instances(self) -> list[str]:
        """Those that have rows."""
        return sorted(self._sums)

    def of(self, instance: str) -> dict[str, int]:
        """Its sums by the names that a month's usage has."""
        sums = self._sums[instance]
        limits = sums["produce_limit_bytes_per_s"] + sums["consume_limit_bytes_per_s"]
        same = ("produce_bytes", "consume_bytes", "stored_byte_ms", "expected_ms", "covered_ms")
        return {name: sums[name] for name in same} | {
            "requests": sums["produce_requests"] + sums["consume_requests"],
            "provisioned_bytes": limits * (SLOT_MS // 1000),
        }

    def gaps(self, instance: str) -> tuple[tuple[int, int], ...]:
        """(start of the hour, how long nothing was reported in it), in ms."""
        return tuple(sorted(self._missing_ms.get(instance, {}).items()))


def month_p95(
    slots: Iterable[pa.RecordBatch],
    instances: Sequence[str],
    first_ms: int,
    slots_in_month: int,
    *,
    with_total: bool = False,
) -> dict[str, list[int]]:
    """`produce_p95`, `consume_p95` and, if asked for, `total_p95` of each instance: bytes in five minutes.

    Each instance has a row of the whole month's slots, so memory is 150 KB for each of them.
    """
    produce, consume = (np.zeros((len(instances), slots_in_month), np.int64) for _ in range(2))
    wanted = pa.array(instances, pa.string())
    for each in slots:
        row = pc.index_in(each["instance_id"], wanted).to_numpy()
        slot = (_epoch_ms(each["slot_start"]) - first_ms) // SLOT_MS
        produce[row, slot] = each["produce_bytes"].to_numpy()
        consume[row, slot] = each["consume_bytes"].to_numpy()
    found = {"total_p95": _p95(produce + consume)} if with_total else {}
    return found | {"produce_p95": _p95(produce), "consume_p95": _p95(consume)}


def _addable(numbers: pa.Array) -> pa.Array:
    """As decimals, which are slower, only where a sum of longs might not be one."""
    largest = pc.max(pc.abs(numbers)).as_py() or 0
    return numbers if largest * len(numbers) < 2**63 else numbers.cast(_BIG)


def _p95(values: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> list[int]:
    """Of each row, in whose place its values are left in another order."""
    rank = p95_rank(values.shape[1]) - 1
    values.partition(rank, axis=1)
    return [int(each) for each in values[:, rank]]


def _epoch_ms(times: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.asarray(times.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False))
