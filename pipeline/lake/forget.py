"""Every record of some keys out of a topic's tables, and every file that held one off the disk.

The order survives a kill at any moment: what was decoded goes first, found by the offsets that the lake table
still has; then the offsets are noted; then the lake's rows go, so that a run that is started again finds the
same until all is done. No commit, name or note says a key: rows are told by their offsets.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from contracts.lake import LakeForgetRow
from pipeline.errors import PipelineError
from pipeline.ingest.lease import IsOurs, LeasedError, table_lease
from pipeline.ingest.staging import move_into, staging_area
from pipeline.ingest.transactions import LOG
from pipeline.lake.backfill import JOB as BACKFILL
from pipeline.lake.decode.source import file_path
from pipeline.lake.decode.target_tables import DEAD_KIND, DECODED_KIND
from pipeline.lake.forgotten import JOB, note_offsets
from pipeline.lake.held import ints, whole_files
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.own_rows import append_rows
from pipeline.lake.planning.compact_plan import DataFile
from pipeline.lake.planning.offset_sets import Bools, Ranges, are_in, by_partition
from pipeline.lake.rewrite import (
    IsDropped,
    addition,
    batches,
    check_protocol,
    commit,
    data_files,
    in_files,
    removal,
    rewritten,
)
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.lake_audit import LAKE_FORGETS
from pipeline.store import AnyPath, relative_to

FORGETS: Final = "lake_forgets"
_DESCRIPTION: Final = "Keys whose records were forgotten"
LAKE_KIND: Final = "lake"
_HOLDER: Final = f"portico pipeline {JOB}"
_LEASE_WAIT_S: Final = 60.0
_MAINTENANCE: Final = "maintenance"


@dataclass
class ForgetResult:
    """What one run did to the tables of one topic."""

    lake: LakeTable
    run: str
    tables: tuple[LakeForgetRow, ...] = ()
    proof: AnyPath | None = None
    """The table `lake_forgets`; None where there was nothing to forget, or where it was only looked."""

    @property
    def rows(self) -> int:
        """Of the lake table."""
        return sum(each.rows for each in self.tables if each.kind == LAKE_KIND)


def forget(
    layout: PipelineLayout,
    lake: LakeTable,
    keys: frozenset[bytes],
    progress: Progress,
    *,
    now_ms: int,
    only_look: bool = False,
) -> ForgetResult:
    """Take the records of these keys out of the lake table, what was decoded of them, and their dead letters.

    What is loaded later is not touched. Older versions of the tables cannot be read afterwards.
    Raises: PipelineError, LeasedError, ConflictError.
    """
    assert keys, "somebody is named"
    with _held(layout, lake) as is_ours, staging_area(layout.lake_staging_here) as area:
        of_keys = _of_keys(keys)
        in_lake = _look(lake.path, of_keys)
        offsets = in_lake.places
        meant = {
            DECODED_KIND: _of_offsets(offsets, "_partition", "_offset"),
            DEAD_KIND: _either(of_keys, _of_offsets(offsets, "partition", "offset")),
            LAKE_KIND: of_keys,
        }
        paths = {
            kind: path for kind, path in _paths(layout, lake).items() if DeltaTable.is_deltatable(str(path))
        }
        progress.planned(len(paths), "tables")
        result = ForgetResult(lake, uuid.uuid4().hex)
        done = []
        for number, (kind, path) in enumerate(paths.items(), 1):
            found = in_lake if kind == LAKE_KIND else _look(path, meant[kind])
            deleted = 0
            if not only_look:
                if kind == LAKE_KIND and offsets:
                    note_offsets(layout, lake, result.run, offsets, now_ms)
                _take_out(path, found, meant[kind], area, result.run, now_ms)
                if not is_ours():
                    raise LeasedError(
                        f"table {path} is not ours any more: the store was not reached: start it again"
                    )
                deleted = _sweep(path)
                progress.done(number)
            done.append(
                LakeForgetRow(
                    run=result.run,
                    forgotten_at_ms=now_ms,
                    instance_id=lake.instance_id,
                    topic=lake.topic,
                    topic_id=lake.topic_id,
                    kind=kind,
                    keys=len(keys),
                    rows=found.rows,
                    files_rewritten=0 if only_look else len(found.files),
                    files_deleted=deleted,
                    version=0,
                )
            )
        if not only_look:
            looked_at = {kind: _must_be_gone(path, meant[kind]) for kind, path in paths.items()}
            done = [msgspec.structs.replace(row, version=looked_at[row.kind]) for row in done]
            result.proof = append_rows(layout, FORGETS, LAKE_FORGETS, _DESCRIPTION, done, JOB)
        result.tables = tuple(done)
        return result


def _paths(layout: PipelineLayout, lake: LakeTable) -> dict[str, AnyPath]:
    """In the order in which they are cleaned."""
    derived = {kind: lake.derived(layout, kind) for kind in (DECODED_KIND, DEAD_KIND)}
    return derived | {LAKE_KIND: lake.path}


@contextmanager
def _held(layout: PipelineLayout, lake: LakeTable) -> Iterator[IsOurs]:
    """All that writes these tables waits: what is in the middle of a batch could bring a record again."""
    decoded, dead = lake.derived(layout, DECODED_KIND), lake.derived(layout, DEAD_KIND)
    works = [(lake.path, ""), (lake.path, BACKFILL), (lake.path, _MAINTENANCE)]
    works += [(decoded, ""), (decoded, _MAINTENANCE), (dead, _MAINTENANCE)]
    with ExitStack() as held:
        leases = [
            held.enter_context(table_lease(path, _HOLDER, work, wait_s=_LEASE_WAIT_S)) for path, work in works
        ]
        yield lambda: all(is_ours() for is_ours in leases)


def _of_keys(keys: frozenset[bytes]) -> IsDropped:
    wanted = pa.array(sorted(keys), pa.binary())

    def is_meant(rows: pa.RecordBatch) -> Bools:
        found: Bools = pc.is_in(rows.column("key"), value_set=wanted).to_numpy(zero_copy_only=False)
        return found

    return is_meant


def _of_offsets(offsets: Mapping[int, Ranges], partition: str, offset: str) -> IsDropped:
    return lambda rows: are_in(ints(rows, partition), ints(rows, offset), offsets)


def _either(one: IsDropped, other: IsDropped) -> IsDropped:
    return lambda rows: one(rows) | other(rows)


class _Found(NamedTuple):
    """Rows that are meant, in one version of a table."""

    table: DeltaTable
    files: list[tuple[DataFile, int]]
    """Those that have some, and how many."""
    places: dict[int, Ranges]
    """Of a lake table's, by partition."""

    @property
    def rows(self) -> int:
        """How many."""
        return sum(rows for _, rows in self.files)


_PLACE: Final = ("partition", "offset")
_LOOKED_AT: Final = (*_PLACE, "_partition", "_offset", "key")


def _look(path: AnyPath, is_meant: IsDropped) -> _Found:
    """Read all rows of the newest version, of what tells them apart. Raises: PipelineError."""
    table = DeltaTable(str(path))
    check_protocol(table)
    whole_files(path, table)
    schema = pa.schema([each for each in in_files(table) if each.name in _LOOKED_AT])
    files, found = [], []
    for file in data_files(table):
        place = file_path(path, file.path)
        rows = [each.filter(pa.array(is_meant(each))) for each in batches([place], schema)]
        if count := sum(each.num_rows for each in rows):
            files.append((file, count))
            found += rows
    if not found or not set(_PLACE) <= set(schema.names):
        return _Found(table, files, {})
    all_rows = pa.Table.from_batches(found)
    return _Found(table, files, by_partition(*(ints(all_rows, name) for name in _PLACE)))


def _take_out(path: AnyPath, found: _Found, is_meant: IsDropped, area: Path, run: str, now_ms: int) -> None:
    """Rewrite the files that have such rows, in one commit."""
    actions: list[dict[str, object]] = []
    for file, rows in found.files:
        actions.append(removal(file, now_ms, data_change=True))
        rest = rewritten(path, found.table, [file], area, is_meant)
        if rest.rows + rows != file.rows:
            raise PipelineError(
                f"file {file_path(path, file.path)} has {rest.rows + rows} rows, where the log says "
                f"{file.rows}: the table was not changed"
            )
        if rest.rows:
            actions.append(addition(move_into(path, rest), rest, now_ms, data_change=True))
    if actions:
        document = {"job": JOB, "run": run, "files": len(found.files), "rows": found.rows}
        commit(path, int(found.table.version()), actions, "DELETE", document, now_ms)


def _sweep(path: AnyPath) -> int:
    """Delete every file that the newest version does not name, however young; nobody else writes now.

    Counted on the disk: what the library tells has files of earlier sweeps in it.
    """
    before = len(_on_disk(path))
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    return before - len(_on_disk(path))


def _on_disk(path: AnyPath) -> list[AnyPath]:
    return [each for each in path.rglob("*.parquet") if LOG not in relative_to(each, path).parts]


def _must_be_gone(path: AnyPath, is_meant: IsDropped) -> int:
    """Look once more, at what is on the disk; returns the version that it is. Raises: PipelineError."""
    found = _look(path, is_meant)
    if found.rows:
        raise PipelineError(f"table {path} has {found.rows} rows of these keys still: start it again")
    named = {file_path(path, each.path) for each in data_files(found.table)}
    if beside := [each for each in _on_disk(path) if each not in named]:
        raise PipelineError(
            f"{len(beside)} files that table {path} does not name could not be deleted, first "
            f"{beside[0]}: remove them, and start it again"
        )
    return int(found.table.version())
