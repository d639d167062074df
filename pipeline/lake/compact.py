"""Maintenance of lake tables and of what is made from them: small files become large, old hours go.

Beside a running loader: a compaction replaces files that its commit names and nothing else, so what is
appended meanwhile stays, and the loader's positions, which are Delta's `txn` actions, are not touched.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from deltalake import DeltaTable

from pipeline.ingest.commits import IngestTable
from pipeline.ingest.lease import LeasedError, table_lease
from pipeline.ingest.staging import StagedFile, move_into, staging_area
from pipeline.lake.decode.source import file_path
from pipeline.lake.held import held_in
from pipeline.lake.planning.compact_plan import (
    AFTER_LOAD,
    RETENTION_H_MIN,
    WHOLE,
    DataFile,
    Limits,
    commits_of,
    expired,
    expiry,
    plan_bins,
    small_share,
)
from pipeline.lake.rewrite import (
    ConflictError,
    addition,
    check_protocol,
    commit,
    data_files,
    expired_app,
    must_be_equal,
    removal,
    rewritten,
)
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress, Silent
from pipeline.store import AnyPath

COMMIT_BYTES: Final = 1024 * 1024 * 1024
_LEASE_WAIT_S: Final = 60.0


@dataclass
class CompactResult:
    """What was done to one table."""

    table: AnyPath
    files_before: int = 0
    files_after: int = 0
    rewritten_files: int = 0
    rewritten_rows: int = 0
    rewritten_bytes: int = 0
    small_share: float = 0.0
    vacuumed_files: int = 0


@dataclass
class ExpireResult:
    """What was taken from one table."""

    table: AnyPath
    before: datetime
    files: int = 0
    rows: int = 0
    bytes: int = 0
    vacuumed_files: int = 0


def compact(layout: PipelineLayout, path: AnyPath, now: datetime, progress: Progress) -> CompactResult:
    """Join the small files of every hour of a table. Raises: PipelineError, ConflictError."""
    with _leased(path, "compact", _LEASE_WAIT_S) as table:
        result = CompactResult(path, files_before=len(data_files(table)))
        _join(layout, path, table, now, WHOLE, COMMIT_BYTES, progress, result, None)
        after = data_files(DeltaTable(str(path)))
        result.files_after, result.small_share = len(after), small_share(after, WHOLE.small_bytes)
        return result


def tidy(layout: PipelineLayout, path: AnyPath, now: datetime, until_s: float) -> int:
    """Join the very small files of hours that have many, as long as `time.monotonic()` is below `until_s`.

    Returns how many are gone. Where somebody else maintains or changes the table, it is left to them.
    """
    result = CompactResult(path)
    try:
        with _leased(path, "load", 0.0) as table:
            _join(layout, path, table, now, AFTER_LOAD, 1, Silent(), result, until_s)
    except (LeasedError, ConflictError):
        pass
    return result.rewritten_files


def _join(
    layout: PipelineLayout,
    path: AnyPath,
    table: DeltaTable,
    now: datetime,
    limits: Limits,
    commit_bytes: int,
    progress: Progress,
    result: CompactResult,
    until_s: float | None,
) -> None:
    groups = commits_of(plan_bins(data_files(table), limits), commit_bytes)
    progress.planned(sum(file.size_bytes for group in groups for each in group for file in each), "bytes")
    for group in groups:
        if until_s is not None and time.monotonic() >= until_s:
            return
        with staging_area(layout.lake_staging_here) as area:
            replaced = [file for each in group for file in each]
            staged = [rewritten(path, table, each, area) for each in group]
            must_be_equal(path, table, replaced, staged)
            _commit(path, int(table.version()), replaced, staged, now)
        result.rewritten_files += len(replaced)
        result.rewritten_rows += sum(each.rows for each in staged)
        result.rewritten_bytes += sum(each.size_bytes for each in replaced)
        progress.done(result.rewritten_bytes)


def _commit(
    path: AnyPath, version: int, replaced: Sequence[DataFile], staged: Sequence[StagedFile], now: datetime
) -> None:
    now_ms = _ms(now)
    actions = [removal(each, now_ms, data_change=False) for each in replaced]
    actions += [addition(move_into(path, each), each, now_ms) for each in staged]
    rows = sum(each.rows for each in staged)
    document = {"job": "compact", "files": len(replaced), "into": len(staged), "rows": rows}
    commit(path, version, actions, "OPTIMIZE", document, now_ms)


def expire(path: AnyPath, now: datetime, older_than: timedelta) -> ExpireResult:
    """Remove what was loaded in hours that are older. Positions stay: nothing is loaded again.

    The commit says of each partition below which offset loads have expired, so that nobody misses them.
    Raises: ConflictError.
    """
    with _leased(path, "expire", _LEASE_WAIT_S) as table:
        before = expiry(now, older_than)
        gone = expired(data_files(table), before)
        rows = sum(each.rows for each in gone)
        if gone:
            now_ms = _ms(now)
            actions = [removal(each, now_ms, data_change=True) for each in gone]
            for name, end in _ends(path, table, gone).items():
                actions.append({"txn": {"appId": name, "version": end, "lastUpdated": now_ms}})
            document = {"job": "expire", "before": before.isoformat(), "files": len(gone), "rows": rows}
            commit(path, int(table.version()), actions, "DELETE", document, now_ms)
        return ExpireResult(path, before, len(gone), rows, sum(each.size_bytes for each in gone))


def _ends(path: AnyPath, table: DeltaTable, files: Sequence[DataFile]) -> dict[str, int]:
    """Behind the last offset of files, by the partition's `txn`; tables of decoded rows have none."""
    if "partition" not in {each.name for each in table.schema().fields}:
        return {}
    places = [file_path(path, each.path) for each in files]
    found = held_in(each for each in places if each.exists())
    told = IngestTable(path, table).numbers({each: expired_app(each) for each in found})
    return {expired_app(each): max(held.there[-1][1], told.get(each, 0)) for each, held in found.items()}


def vacuum(path: AnyPath, retention_h: int) -> int:
    """Delete files that no version of the last hours needs; returns how many."""
    assert retention_h >= RETENTION_H_MIN, "readers of older versions need their files"
    with _leased(path, "vacuum", _LEASE_WAIT_S) as table:
        return len(table.vacuum(retention_h, dry_run=False, enforce_retention_duration=False, full=True))


@contextmanager
def _leased(path: AnyPath, job: str, wait_s: float) -> Iterator[DeltaTable]:
    """Beside whoever appends; only one maintains."""
    with table_lease(path, f"portico pipeline {job}", "maintenance", wait_s=wait_s):
        table = DeltaTable(str(path))
        check_protocol(table)
        yield table


def _ms(now: datetime) -> int:
    return int(now.timestamp() * 1000)
