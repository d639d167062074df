"""Runs of offsets against plain sets: what is held, doubled and lacking."""

from collections import Counter
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from contracts.lake import LakeAuditRow
from pipeline.ingest.ranges import Bounds
from pipeline.lake.audit_findings import (
    BatchRows,
    Claims,
    Missing,
    PartitionFindings,
    TopicAudit,
    add_partition,
    doubt,
    lost_rows,
)
from pipeline.lake.audit_scan import NO_HOUR
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.planning.audit_runs import (
    Runs,
    as_ranges,
    clipped,
    held,
    joined,
    lacking,
    read_plan,
    runs_of,
    within,
)
from pipeline.schema.lake_audit import LAKE_AUDIT

OFFSETS = st.lists(st.integers(0, 60), max_size=80)
RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda r: (r[0], r[0] + r[1])), max_size=5
)

NOTHING_SAID = Claims({}, {}, None, {})


def ints(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, np.int64)


def runs(offsets: list[int], label: int = 0) -> Runs:
    _, starts, ends = runs_of(ints([0] * len(offsets)), ints(offsets))
    return Runs(starts, ends, np.full(len(starts), label, np.int64))


def both(one: Runs, other: Runs) -> Runs:
    return Runs(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


def expanded(ranges: list[tuple[int, int]]) -> list[int]:
    return [offset for start, end in ranges for offset in range(start, end)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=60))
def test_runs_hold_every_row_once(rows: list[tuple[int, int]]) -> None:
    partitions, starts, ends = runs_of(ints([p for p, _ in rows]), ints([offset for _, offset in rows]))
    found = [
        (int(p), offset)
        for p, start, end in zip(partitions, starts, ends, strict=True)
        for offset in range(start, end)
    ]
    assert sorted(found) == sorted(rows)


@settings(deadline=None)
@given(OFFSETS, OFFSETS)
def test_what_two_files_hold(first: list[int], second: list[int]) -> None:
    found = held(both(runs(first, 1), runs(second, 2)))
    counts = Counter(first + second)
    assert expanded(list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))) == sorted(counts)
    assert found.offsets == len(counts)
    doubled = list(zip(found.doubled.starts.tolist(), found.doubled.ends.tolist(), strict=True))
    assert Counter(expanded(doubled)) == Counter({offset: n - 1 for offset, n in counts.items() if n > 1})


@settings(deadline=None)
@given(OFFSETS, RANGES)
def test_what_is_lacking_of_claims(offsets: list[int], claims: list[tuple[int, int]]) -> None:
    found = held(runs(offsets))
    gaps = lacking(found, joined(claims))
    assert expanded(gaps) == sorted(set(expanded(claims)) - set(offsets))
    assert within(ints(list(range(80))), gaps).tolist() == [n in expanded(gaps) for n in range(80)]
    assert expanded(clipped(gaps, 10, 20)) == [n for n in expanded(gaps) if 10 <= n < 20]
    assert as_ranges(ints(offsets)) == joined((n, n + 1) for n in offsets)
    assert found.within(10, 40) == len({n for n in offsets if 10 <= n < 40})


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 3), RANGES, max_size=4), st.integers(0, 9), st.integers(1, 7))
def test_all_gaps_are_read_once(gaps: dict[int, list[tuple[int, int]]], apart: int, most: int) -> None:
    reads = read_plan({p: joined(found) for p, found in gaps.items()}, apart, most)
    read = [
        (part.partition, offset) for each in reads for part in each for offset in range(part.start, part.end)
    ]
    assert len(read) == len(set(read))
    assert {(p, offset) for p, found in gaps.items() for offset in expanded(found)} <= set(read)
    for each in reads:
        assert len({part.partition for part in each}) == len(each)
        assert all(0 < part.offsets <= most for part in each)


def test_doubt_is_what_nobody_has_explained() -> None:
    found = held(runs([10, 11, 12, 30]))
    claims = Claims({0: [(0, 40)]}, {0: [(13, 20)]}, None, {})
    told = doubt(0, found, claims, {0: Bounds(5, 100)})
    assert told.on_brokers == [(5, 10), (20, 30), (31, 40)] and told.unverified == [(0, 5)]
    expired = doubt(0, found, claims._replace(expired_before=7), {0: Bounds(25, 100)})
    assert (expired.expired, expired.unverified, expired.on_brokers) == (10, [(20, 25)], [(25, 30), (31, 40)])
    assert doubt(0, found, claims, {}).on_brokers == []


def test_findings_are_by_hour() -> None:
    lake = LakeTable("i-1", "clicks", "a" * 32, Path("x"))
    audit = TopicAudit(lake, 5)
    rows = both(both(runs([0, 1, 2], 100), runs([2, 3], 101)), runs([9], NO_HOUR))
    missing = Missing(ints([4, 5, 6, 7]), ints([101, 101, 102, 99]))
    claims = Claims({0: [(0, 12)]}, {}, 100, {})
    found = held(rows)
    add_partition(
        audit, PartitionFindings(0, rows, found, doubt(0, found, claims, {0: Bounds(9, 12)}), missing), 100
    )
    assert (audit.lake_rows, audit.duplicate_rows, audit.missing_rows, audit.expired_rows) == (6, 1, 3, 1)
    by_hour = {row.hour and row.hour.timestamp() / 3600: row for row in audit.rows}
    assert by_hour[101].missing_rows == 2 and by_hour[101].duplicate_rows == 1
    assert [(each.start, each.end) for each in by_hour[101].missing_ranges] == [(4, 6)]
    assert by_hour[100].is_complete and by_hour[99].expired_rows == 1 and not by_hour[102].is_complete
    assert by_hour[None].lake_rows == 1 and by_hour[None].unverified_offsets == 5
    assert not audit.is_complete


def test_rows_are_lost_where_no_commit_has_them() -> None:
    here = {0: held(runs([0, 1, 2, 5]))}
    told = [BatchRows({0: [(0, 4)]}, 4, 10), BatchRows({0: [(4, 8)]}, 1, 11), BatchRows({}, 7, 11)]
    assert lost_rows(told, here, {}, NOTHING_SAID) == 1
    assert lost_rows(told, here, {0: Missing(ints([3]), ints([10]))}, NOTHING_SAID) == 0
    assert lost_rows(told, here, {}, NOTHING_SAID._replace(expired_before=11)) == 0
    assert lost_rows(told, here, {}, NOTHING_SAID._replace(forgotten={0: [(3, 4)]})) == 0
    assert lost_rows([BatchRows({7: [(0, 9)]}, 9, 1)], here, {}, NOTHING_SAID) == 9


def test_the_table_has_the_columns_of_its_contract() -> None:
    kinds = {"int": "bigint", "str": "string", "bool": "boolean"}
    columns = {each.name: each.dataType.simpleString() for each in from_arrow_schema(LAKE_AUDIT)}
    assert list(columns) == [each.name for each in msgspec.structs.fields(LakeAuditRow)]
    for each in msgspec.structs.fields(LakeAuditRow):
        if each.name in ("missing_ranges", "duplicate_ranges"):
            assert columns[each.name] == "array<struct<start:bigint,end:bigint>>"
        elif each.name == "hour":
            assert columns[each.name] == "timestamp" and type(None) in get_args(each.type)
        elif each.name == "partition":
            assert columns[each.name] == "int"
        else:
            assert columns[each.name] == kinds[each.type.__name__]
