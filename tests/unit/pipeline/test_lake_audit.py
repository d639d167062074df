"""Sets of offsets against plain sets: what is held, doubled and lacking; and what an audit says of them."""

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from contracts.lake import LakeAuditRow
from pipeline.ingest.ranges import Bounds
from pipeline.lake.audit_findings import BatchRows, Claims, TopicAudit, doubt, lost_rows
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.planning.offset_sets import (
    are_in,
    by_partition,
    common,
    held,
    joined,
    minus,
    read_plan,
    runs_of,
    total,
)
from pipeline.schema.lake_audit import LAKE_AUDIT

RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda r: (r[0], r[0] + r[1])), max_size=9
)
PLACES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=60)
NOTHING_SAID = Claims({}, {}, {}, {})


def ints(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, np.int64)


def expanded(ranges: list[tuple[int, int]]) -> list[int]:
    return [offset for start, end in ranges for offset in range(start, end)]


def columns(rows: list[tuple[int, int]]) -> "list[np.ndarray[tuple[int], np.dtype[np.int64]]]":
    return [ints([p for p, _ in rows]), ints([offset for _, offset in rows])]


@settings(deadline=None)
@given(PLACES)
def test_runs_hold_every_row_once(rows: list[tuple[int, int]]) -> None:
    partitions, starts, ends = runs_of(*columns(rows))
    found = [
        (int(p), offset)
        for p, start, end in zip(partitions, starts, ends, strict=True)
        for offset in range(start, end)
    ]
    assert sorted(found) == sorted(rows)
    places = by_partition(*columns(rows))
    assert sorted((p, n) for p, ranges in places.items() for n in expanded(ranges)) == sorted(set(rows))


@settings(deadline=None)
@given(RANGES)
def test_what_files_hold(runs: list[tuple[int, int]]) -> None:
    found = held(each for each in runs if each[0] < each[1])
    counts = Counter(expanded(runs))
    assert expanded(found.there) == sorted(counts)
    assert found.rows == counts.total()
    assert Counter(expanded(found.doubled)) == Counter({n: c - 1 for n, c in counts.items() if c > 1})


@settings(deadline=None)
@given(RANGES, RANGES)
def test_sets_of_offsets_are_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    first, second = joined(one), joined(other)
    assert expanded(first) == sorted(set(expanded(one))) and total(first) == len(expanded(first))
    assert expanded(minus(first, second)) == sorted(set(expanded(one)) - set(expanded(other)))
    assert expanded(common(first, second)) == sorted(set(expanded(one)) & set(expanded(other)))
    everywhere = [(p, n) for p in (0, 1, 2) for n in range(80)]
    wanted = {0: first, 1: second}
    assert are_in(*columns(everywhere), wanted).tolist() == [
        n in expanded(wanted.get(p, [])) for p, n in everywhere
    ]


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
    found = held([(10, 13), (30, 31)])
    claims = Claims({0: [(0, 40)]}, {0: [(13, 20)]}, {}, {})
    told = doubt(0, found, claims, {0: Bounds(5, 100)})
    assert told.on_brokers == [(5, 10), (20, 30), (31, 40)] and told.unverified == [(0, 5)]
    expired = doubt(0, found, claims._replace(expired={0: 22}), {0: Bounds(25, 100)})
    assert expired == ([(25, 30), (31, 40)], [(0, 10), (20, 22)], [(22, 25)])
    assert doubt(0, found, claims._replace(forgotten={0: [(0, 8)]}), {0: Bounds(0, 9)}).on_brokers == [(8, 9)]
    assert doubt(0, found, claims, {}).on_brokers == []


def test_findings_are_by_partition() -> None:
    audit = TopicAudit(LakeTable("i-1", "clicks", "a" * 32, Path("x")), 5)
    found = held([(0, 3), (2, 4), (9, 10)])
    claims = Claims({0: [(0, 12)]}, {}, {0: 5}, {})
    audit.add(0, found, doubt(0, found, claims, {0: Bounds(6, 12)}), [(6, 7), (10, 12)])
    audit.add(1, held([(0, 2)]), doubt(1, held([(0, 2)]), claims, {}), [])
    assert (audit.lake_rows, audit.duplicate_rows, audit.missing_rows, audit.expired_offsets) == (8, 1, 3, 1)
    assert audit.unverified_offsets == 1 and not audit.is_complete
    first, second = audit.rows
    assert [(each.start, each.end) for each in first.missing_ranges] == [(6, 7), (10, 12)]
    assert [(each.start, each.end) for each in first.duplicate_ranges] == [(2, 3)]
    assert (first.is_complete, second.is_complete) == (False, True)


def test_rows_are_lost_where_no_commit_has_them() -> None:
    here = {0: held([(0, 3), (5, 6)])}
    told = [BatchRows({0: [(0, 4)]}, 4), BatchRows({0: [(4, 8)]}, 1), BatchRows({}, 7)]
    assert lost_rows(told, here, {}, NOTHING_SAID) == 1
    assert lost_rows(told, here, {0: [(3, 4)]}, NOTHING_SAID) == 0
    assert lost_rows(told, here, {}, NOTHING_SAID._replace(expired={0: 1})) == 0
    assert lost_rows(told, here, {}, NOTHING_SAID._replace(forgotten={0: [(3, 4)]})) == 0
    assert lost_rows([BatchRows({7: [(0, 9)]}, 9)], here, {}, NOTHING_SAID) == 9


def test_the_table_has_the_columns_of_its_contract() -> None:
    kinds = {"int": "bigint", "str": "string", "bool": "boolean"}
    columns = {each.name: each.dataType.simpleString() for each in from_arrow_schema(LAKE_AUDIT)}
    assert list(columns) == [each.name for each in msgspec.structs.fields(LakeAuditRow)]
    for each in msgspec.structs.fields(LakeAuditRow):
        if each.name in ("missing_ranges", "duplicate_ranges"):
            assert columns[each.name] == "array<struct<start:bigint,end:bigint>>"
        elif each.name == "partition":
            assert columns[each.name] == "int"
        else:
            assert columns[each.name] == kinds[each.type.__name__]
