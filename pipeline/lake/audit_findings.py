"""What an audit says of a topic: which rows are there, doubled, missing, expired or not known of. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from contracts.lake import LakeAuditRow, OffsetRange
from pipeline.ingest.ranges import Bounds
from pipeline.lake.audit_scan import NO_HOUR
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.planning.audit_runs import Held, Ints, Runs, as_ranges, clipped, joined, lacking, within

_RANGES_MAX: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Ranges = list[tuple[int, int]]


class Claims(NamedTuple):
    """What a table's commits say that it has."""

    loaded: dict[int, Ranges]
    """Offsets that loads and backfills have read, by partition."""
    passed_over: dict[int, Ranges]
    """What retention had removed before it was loaded."""
    expired_before: int | None
    """Epoch hour before which all hours were expired."""
    forgotten: Mapping[int, Ranges]
    """Offsets whose records were taken out on purpose, and that hold no row."""


class Doubt(NamedTuple):
    """Offsets of a partition that are claimed and hold no row."""

    on_brokers: Ranges
    """To be read again."""
    expired: int
    """Older than all that is left of a table from which old hours were removed."""
    unverified: Ranges
    """The brokers have removed them meanwhile."""


def doubt(partition: int, found: Held, claims: Claims, bounds: Mapping[int, Bounds]) -> Doubt:
    """Where a partition has to be looked at again."""
    wanted = joined(claims.loaded.get(partition, ()))
    gaps = lacking(found, wanted)
    for start, end in (*joined(claims.passed_over.get(partition, ())), *claims.forgotten.get(partition, ())):
        gaps = [*clipped(gaps, 0, start), *clipped(gaps, end, 2**63 - 1)]
    earliest, end = bounds.get(partition, Bounds(2**63 - 1, 2**63 - 1))
    gone = clipped(gaps, 0, earliest)
    expired: Ranges = []
    if claims.expired_before is not None:
        lowest = int(found.starts[0]) if len(found.starts) else 2**63 - 1
        expired, gone = clipped(gone, 0, lowest), clipped(gone, lowest, 2**63 - 1)
    return Doubt(clipped(gaps, earliest, end), _total(expired), gone)


class Missing(NamedTuple):
    """Records of one partition that the brokers have and the table has not."""

    offsets: Ints
    hours: Ints
    """The epoch hour of each; NO_HOUR without a usable time."""


@dataclass
class TopicAudit:
    """What the audit of one lake table found."""

    lake: LakeTable
    audited_at_ms: int
    lake_rows: int = 0
    duplicate_rows: int = 0
    missing_rows: int = 0
    expired_rows: int = 0
    forgotten_rows: int = 0
    unverified_offsets: int = 0
    lost_rows: int = 0
    """That the table's commits brought and that neither are there nor were found missing on the brokers."""
    waiting_offsets: int = 0
    """Not loaded yet: no fault."""
    missing_files: list[str] = field(default_factory=list)
    note: str = ""
    rows: list[LakeAuditRow] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Every record that was loaded is there once."""
        return not (self.duplicate_rows or self.missing_rows or self.lost_rows or self.missing_files)


class PartitionFindings(NamedTuple):
    """What is known of one partition."""

    partition: int
    runs: Runs
    held: Held
    doubt: Doubt
    missing: Missing


def add_partition(audit: TopicAudit, found: PartitionFindings, expired_before: int | None) -> None:
    """Its hours, and its share of the totals."""
    is_expired = np.zeros(len(found.missing.hours), bool)
    if expired_before is not None:
        is_expired = (found.missing.hours != NO_HOUR) & (found.missing.hours < expired_before)
    missing = Missing(found.missing.offsets[~is_expired], found.missing.hours[~is_expired])
    rows = _per_label(found.runs)
    doubled = _per_label(found.held.doubled)
    expired = Counter(found.missing.hours[is_expired].tolist())
    labels = {*rows, *missing.hours.tolist(), *expired}
    unverified = _total(found.doubt.unverified)
    if unverified or found.doubt.expired:
        labels.add(NO_HOUR)
    for label in sorted(labels):
        without_hour = label == NO_HOUR
        lost = missing.offsets[missing.hours == label]
        row = LakeAuditRow(
            audited_at_ms=audit.audited_at_ms,
            instance_id=audit.lake.instance_id,
            topic=audit.lake.topic,
            topic_id=audit.lake.topic_id,
            partition=found.partition,
            hour=None if without_hour else _EPOCH + timedelta(hours=label),
            lake_rows=rows[label],
            duplicate_rows=doubled[label],
            missing_rows=len(lost),
            expired_rows=expired[label] + (found.doubt.expired if without_hour else 0),
            unverified_offsets=unverified if without_hour else 0,
            is_complete=not len(lost) and not doubled[label],
            missing_ranges=_shown(as_ranges(lost)),
            duplicate_ranges=_shown(_of_label(found.held.doubled, label)),
        )
        audit.rows.append(row)
    audit.lake_rows += rows.total()
    audit.duplicate_rows += doubled.total()
    audit.missing_rows += len(missing.offsets)
    audit.expired_rows += expired.total() + found.doubt.expired
    audit.unverified_offsets += unverified


def _of_label(runs: Runs, label: int) -> Ranges:
    chosen = runs.labels == label
    return joined(zip(runs.starts[chosen].tolist(), runs.ends[chosen].tolist(), strict=True))


class BatchRows(NamedTuple):
    """What a commit said of its rows."""

    ranges: dict[int, Ranges]
    """The offsets that they are of, by partition; no other commit's."""
    rows: int
    first_hour: int | None
    """The hour of its oldest row."""


def lost_rows(
    told: Sequence[BatchRows],
    here: Mapping[int, Held],
    missing: Mapping[int, Missing],
    claims: Claims,
) -> int:
    """Rows that commits brought and that neither are there, by whatever commit, nor known to be missing.

    Commits that expiry may have touched say nothing.
    """
    lost = 0
    expired_before = claims.expired_before
    for each in told:
        if not each.ranges:
            continue
        if expired_before is not None and (each.first_hour is None or each.first_hour < expired_before):
            continue
        known = 0
        for partition, ranges in each.ranges.items():
            known += sum(here[partition].within(*one) for one in ranges if partition in here)
            forgotten = claims.forgotten.get(partition, ())
            known += sum(_total(clipped(forgotten, start, end)) for start, end in ranges)
            if partition in missing:
                known += int(within(missing[partition].offsets, joined(ranges)).sum())
        lost += max(0, each.rows - known)
    return lost


def _per_label(runs: Runs) -> Counter[int]:
    counts: Counter[int] = Counter()
    for label in np.unique(runs.labels):
        chosen = runs.labels == label
        counts[int(label)] = int((runs.ends[chosen] - runs.starts[chosen]).sum())
    return counts


def _total(ranges: Ranges) -> int:
    return sum(end - start for start, end in ranges)


def _shown(ranges: Ranges) -> list[OffsetRange]:
    return [OffsetRange(start, end) for start, end in ranges[:_RANGES_MAX]]
