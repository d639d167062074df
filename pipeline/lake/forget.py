"""Every record of some keys out of a topic's tables, and every file that held one off the disk.

The order survives a kill at any moment: what was decoded goes first, found by the offsets that the lake table
still has; then the offsets are noted; then the lake's rows go, so that a run that is started again finds the
same until all is done. No commit, name or note says a key: rows are told by their offsets.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from contracts.lake import LakeForgetRow
from pipeline.errors import PipelineError
from pipeline.ingest.lease import IsOurs, LeasedError, table_lease
from pipeline.ingest.staging import move_into, staged_file, staging_area
from pipeline.lake.backfill import JOB as BACKFILL
from pipeline.lake.compact import data_files
from pipeline.lake.compact_log import addition, check_protocol, commit, removal
from pipeline.lake.decode.source import file_path, log_files
from pipeline.lake.decode.target_tables import DEAD_KIND, DECODED_KIND
from pipeline.lake.forgotten import JOB, Ranges, note_offsets, note_proof
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.planning.audit_runs import Bools, Ints, as_ranges, within
from pipeline.lake.planning.compact_plan import DataFile
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.lake import LAKE_OPAQUE
from pipeline.store import AnyPath, open_parquet, relative_to

LAKE_KIND: Final = "lake"
_HOLDER: Final = f"portico pipeline {JOB}"
_LEASE_WAIT_S: Final = 60.0
_MAINTENANCE: Final = "maintenance"

IsMeant = Callable[[pa.Table], Bools]
"""Which rows go."""


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
        offsets = _offsets(in_lake)
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
            result.proof = note_proof(layout, done)
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


def _of_keys(keys: frozenset[bytes]) -> IsMeant:
    wanted = pa.array(sorted(keys), pa.binary())

    def is_meant(rows: pa.Table) -> Bools:
        found: Bools = pc.is_in(rows.column("key").cast(pa.binary()), value_set=wanted).to_numpy()
        return found

    return is_meant


def _of_offsets(offsets: Mapping[int, Ranges], partition: str, offset: str) -> IsMeant:
    def is_meant(rows: pa.Table) -> Bools:
        partitions, at = rows.column(partition).to_numpy(), rows.column(offset).to_numpy().astype(np.int64)
        found = np.zeros(rows.num_rows, bool)
        for each in np.unique(partitions):
            if int(each) in offsets:
                chosen = partitions == each
                found[chosen] = within(at[chosen], offsets[int(each)])
        return found

    return is_meant


def _either(one: IsMeant, other: IsMeant) -> IsMeant:
    return lambda rows: one(rows) | other(rows)


class _Found(NamedTuple):
    """Rows that are meant, in one version of a table."""

    version: int
    files: dict[AnyPath, list[pa.Table]]
    """Where they are, by file."""

    @property
    def rows(self) -> int:
        """How many."""
        return sum(rows.num_rows for found in self.files.values() for rows in found)


_PLACE: Final = ("partition", "offset", "_partition", "_offset")


def _look(path: AnyPath, is_meant: IsMeant) -> _Found:
    """Read every row group of the newest version, of what tells rows apart. Raises: PipelineError."""
    table = DeltaTable(str(path))
    files: dict[AnyPath, list[pa.Table]] = {}
    for told in log_files(table):
        place = _must_be_there(path, told)
        with open_parquet(place) as file:
            where = [name for name in _PLACE if name in file.schema_arrow.names]
            keys = [name for name in ("key",) if name in file.schema_arrow.names]
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, [*where, *keys])
                found = rows.filter(pa.array(is_meant(rows))).select(where)
                if found.num_rows:
                    files.setdefault(place, []).append(found)
    return _Found(int(table.version()), files)


def _must_be_there(path: AnyPath, told: Mapping[str, object]) -> AnyPath:
    place = file_path(path, told)
    if not place.exists():
        raise PipelineError(
            f"file {place} of the table is missing, so nobody can say what it had: give it back, or run "
            "`portico pipeline audit --forget-missing-files` and then this again"
        )
    return place


def _offsets(found: _Found) -> dict[int, Ranges]:
    by_partition: dict[int, list[Ints]] = {}
    for rows in (each for several in found.files.values() for each in several):
        partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
        for each in np.unique(partitions):
            by_partition.setdefault(int(each), []).append(offsets[partitions == each])
    return {partition: as_ranges(np.concatenate(parts)) for partition, parts in by_partition.items()}


def _take_out(path: AnyPath, found: _Found, is_meant: IsMeant, area: Path, run: str, now_ms: int) -> None:
    """Rewrite the files that have such rows, in one commit."""
    table = DeltaTable(str(path), version=found.version)
    check_protocol(table)
    files = {file_path(path, {"path": each.path}): each for each in data_files(table)}
    actions: list[dict[str, object]] = []
    for place, rows in found.files.items():
        count = sum(each.num_rows for each in rows)
        actions += _replaced(path, place, files[place], count, is_meant, area, now_ms)
    if actions:
        document = {"job": JOB, "run": run, "files": len(found.files), "rows": found.rows}
        commit(path, found.version, actions, "DELETE", document, now_ms)


def _replaced(
    path: AnyPath, place: AnyPath, file: DataFile, rows: int, is_meant: IsMeant, area: Path, now_ms: int
) -> list[dict[str, object]]:
    removed = removal(file, now_ms, data_change=True)
    folder = area / uuid.uuid4().hex
    folder.mkdir()
    rest = folder / f"part-{uuid.uuid4().hex}.parquet"
    kept = _write_rest(place, rest, is_meant)
    if kept + rows != file.rows:
        raise PipelineError(
            f"file {place} has {kept + rows} rows, where the log says {file.rows}: the table was not changed"
        )
    if not kept:
        return [removed]
    staged = staged_file(rest, folder)._replace(partition_values=file.partition_values)
    return [removed, addition(move_into(path, staged), staged, now_ms, data_change=True)]


def _write_rest(place: AnyPath, rest: Path, is_meant: IsMeant) -> int:
    """All other rows, in their order; how many."""
    kept = 0
    with open_parquet(place) as file:
        names = file.schema_arrow.names
        told = [name for name in names if name not in LAKE_OPAQUE]
        with pq.ParquetWriter(
            rest,
            file.schema_arrow,
            compression="zstd",
            compression_level=1,
            use_dictionary=told,
            write_statistics=told,
        ) as writer:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group)
                rows = rows.filter(pa.array(~is_meant(rows)))
                kept += rows.num_rows
                if rows.num_rows:
                    writer.write_table(rows)
    return kept


def _sweep(path: AnyPath) -> int:
    """Delete every file that the newest version does not name, however young; nobody else writes now.

    Counted on the disk: what the library tells has files of earlier sweeps in it.
    """
    before = len(_on_disk(path))
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    return before - len(_on_disk(path))


def _on_disk(path: AnyPath) -> list[AnyPath]:
    return [each for each in path.rglob("*.parquet") if "_delta_log" not in relative_to(each, path).parts]


def _must_be_gone(path: AnyPath, is_meant: IsMeant) -> int:
    """Look once more, at what is on the disk; returns the version that it is. Raises: PipelineError."""
    found = _look(path, is_meant)
    if found.rows:
        raise PipelineError(f"table {path} has {found.rows} rows of these keys still: start it again")
    table = DeltaTable(str(path), version=found.version)
    named = {file_path(path, told) for told in log_files(table)}
    if beside := [each for each in _on_disk(path) if each not in named]:
        raise PipelineError(
            f"{len(beside)} files that table {path} does not name could not be deleted, first "
            f"{beside[0]}: remove them, and start it again"
        )
    return found.version
