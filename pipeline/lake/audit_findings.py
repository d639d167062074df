"""What an audit says of a topic: which rows are there, doubled, missing, expired or not known of. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from contracts.lake import LakeAuditRow, OffsetRange
from pipeline.ingest.ranges import Bounds
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.planning.offset_sets import LAST, Held, Ranges, common, joined, minus, total

_RANGES_MAX: Final = 1000


class Claims(NamedTuple):
    """What a table's commits say that it has; each by partition."""

    loaded: Mapping[int, Ranges]
    """Offsets that loads and backfills have read."""
    passed_over: Mapping[int, Ranges]
    """What retention had removed before it was loaded."""
    expired: Mapping[int, int]
    """Offsets below are of loads that expired."""
    forgotten: Mapping[int, Ranges]
    """Offsets whose records were taken out on purpose, and that hold no row."""


class Doubt(NamedTuple):
    """Offsets of a partition that are claimed and hold no row."""

    on_brokers: Ranges
    """To be read again."""
    expired: Ranges
    unverified: Ranges
    """The brokers have removed them meanwhile."""


def doubt(partition: int, found: Held, claims: Claims, bounds: Mapping[int, Bounds]) -> Doubt:
    """Where a partition has to be looked at again."""
    gaps = minus(joined(claims.loaded.get(partition, ())), found.there)
    for explained in (claims.passed_over, claims.forgotten):
        gaps = minus(gaps, joined(explained.get(partition, ())))
    earliest, end = bounds.get(partition, Bounds(LAST, LAST))
    old = [(0, claims.expired.get(partition, 0))]
    rest = minus(gaps, old)
    return Doubt(common(rest, [(earliest, end)]), common(gaps, old), common(rest, [(0, earliest)]))


@dataclass
class TopicAudit:
    """What the audit of one lake table found."""

    lake: LakeTable
    audited_at_ms: int
    lake_rows: int = 0
    duplicate_rows: int = 0
    missing_rows: int = 0
    expired_offsets: int = 0
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

    def add(self, partition: int, found: Held, told: Doubt, missing: Ranges) -> None:
        """A partition, and its share of the totals; `missing`: what the brokers gave of the doubt."""
        row = LakeAuditRow(
            audited_at_ms=self.audited_at_ms,
            instance_id=self.lake.instance_id,
            topic=self.lake.topic,
            topic_id=self.lake.topic_id,
            partition=partition,
            lake_rows=found.rows,
            duplicate_rows=total(found.doubled),
            missing_rows=total(missing),
            expired_offsets=total(told.expired),
            unverified_offsets=total(told.unverified),
            is_complete=not missing and not found.doubled,
            missing_ranges=_shown(missing),
            duplicate_ranges=_shown(joined(found.doubled)),
        )
        self.rows.append(row)
        self.lake_rows += row.lake_rows
        self.duplicate_rows += row.duplicate_rows
        self.missing_rows += row.missing_rows
        self.expired_offsets += row.expired_offsets
        self.unverified_offsets += row.unverified_offsets


class BatchRows(NamedTuple):
    """What a commit said of its rows."""

    ranges: Mapping[int, Ranges]
    """The offsets that they are of, by partition; no other commit's."""
    rows: int


def lost_rows(
    told: Sequence[BatchRows], here: Mapping[int, Held], missing: Mapping[int, Ranges], claims: Claims
) -> int:
    """Rows that commits brought and that neither are there, by whatever commit, nor known to be missing.

    Commits that expiry may have touched say nothing.
    """
    lost = 0
    for each in told:
        known = 0
        is_expired = False
        for partition, ranges in each.ranges.items():
            own = joined(ranges)
            is_expired |= bool(common(own, [(0, claims.expired.get(partition, 0))]))
            there = here[partition].there if partition in here else []
            explained = (there, missing.get(partition, []), joined(claims.forgotten.get(partition, ())))
            known += total(common(own, joined(range_ for found in explained for range_ in found)))
        if each.ranges and not is_expired:
            lost += max(0, each.rows - known)
    return lost


def _shown(ranges: Ranges) -> list[OffsetRange]:
    return [OffsetRange(start, end) for start, end in ranges[:_RANGES_MAX]]
