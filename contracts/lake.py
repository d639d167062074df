"""What was seen of lake tables, and taken from them: `lake_audit`, `lake_forgotten`, `lake_forgets`."""

import msgspec


class OffsetRange(msgspec.Struct, frozen=True):
    """Offsets `start <= offset < end`."""

    start: int
    end: int


class LakeAuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a topic, as one audit found it."""

    audited_at_ms: int
    instance_id: str
    topic: str
    topic_id: str
    partition: int
    lake_rows: int
    duplicate_rows: int
    """Rows of an offset that another row has already."""
    missing_rows: int
    """Records that the brokers have, that were loaded and that are not in the table."""
    expired_offsets: int
    """Without a row, of loads that expired."""
    unverified_offsets: int
    """Offsets that were loaded, hold no row, and are no longer on the brokers to look at."""
    is_complete: bool
    missing_ranges: list[OffsetRange]
    """The first thousand, as of the duplicates."""
    duplicate_ranges: list[OffsetRange]


class LakeForgottenRow(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one partition that were to be forgotten, written before they were: no key, only offsets."""

    run: str
    """Whose `lake_forgets` say that it was done."""
    named_at_ms: int
    instance_id: str
    topic: str
    topic_id: str
    partition: int
    ranges: list[OffsetRange]
    """All of them."""


class LakeForgetRow(msgspec.Struct, frozen=True, kw_only=True):
    """One table out of which a run took the records of some keys, after it was looked at once more."""

    run: str
    forgotten_at_ms: int
    instance_id: str
    topic: str
    topic_id: str
    kind: str
    """`lake`, `decoded` or `dead_letters`."""
    keys: int
    """How many were named; what they are is nowhere."""
    rows: int
    files_rewritten: int
    files_deleted: int
    """Those that were rewritten and those that only older versions had."""
    version: int
    """Of the table when it was looked at: it had no row of these keys, and no other file lay beside it."""
