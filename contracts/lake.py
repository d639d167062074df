"""What the audit of lake tables found: rows of the table `lake_audit`."""

import datetime

import msgspec


class OffsetRange(msgspec.Struct, frozen=True):
    """Offsets `start <= offset < end`."""

    start: int
    end: int


class LakeAuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a topic in one hour, as one audit found it."""

    audited_at_ms: int
    instance_id: str
    topic: str
    topic_id: str
    partition: int
    hour: datetime.datetime | None
    """The records' hour; None for those without a usable time, and for what nobody can tell any more."""
    lake_rows: int
    duplicate_rows: int
    """Rows of an offset that another row has already."""
    missing_rows: int
    """Records that the brokers have, that were loaded and that are not in the table."""
    expired_rows: int
    """Not there because their hour was expired."""
    unverified_offsets: int
    """Offsets that were loaded, hold no row, and are no longer on the brokers to look at."""
    is_complete: bool
    missing_ranges: list[OffsetRange]
    """The first thousand, as of the duplicates."""
    duplicate_ranges: list[OffsetRange]
