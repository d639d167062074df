"""Every record of some keys out of a topic's tables, and every file that held one off the disk.

The order survives a kill at any moment: what was decoded goes first, found by the offsets that the lake table
still has; then the offsets are noted; then the lake's rows go, so that a run that is started again finds the
same until all is done. No commit, name or note says a key: rows are told by their offsets.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from contracts.lake import LakeForgetRow
from pipeline.errors import PipelineError
from pipeline.ingest.lease import table_lease
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

LAKE_KIND: Final = "lake"
_HOLDER: Final = f"portico pipeline {JOB}"
_LEASE_WAIT_S: Final = 60.0
_MAINTENANCE: Final = "maintenance"
_PLAIN: Final = frozenset(LAKE_OPAQUE)

IsMeant = Callable[[pa.Table], Bools]
"""Which rows go."""


@dataclass
class ForgetResult:
    """What one run did to the tables of one topic."""

    lake: LakeTable
    run: str
    tables: tuple[LakeForgetRow, ...] = ()
    proof: Path | None = None
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
    with _held(layout, lake), staging_area(layout.staging) as area:
        paths = {
            kind: path for kind, path in _paths(layout, lake).items() if DeltaTable.is_deltatable(str(path))
        }
        of_keys = _of_keys(keys)
        offsets = _matching(lake.path, of_keys)
        meant = {
            LAKE_KIND: of_keys,
            DECODED_KIND: _of_offsets(offsets, "_partition", "_offset"),
            DEAD_KIND: _either(of_keys, _of_offsets(offsets, "partition", "offset")),
        }
        progress.planned(len(paths), "tables")
        result = ForgetResult(lake, uuid.uuid4().hex)
        if only_look:
            counts = {kind: _count(path, meant[kind]) for kind, path in paths.items()}
            result.tables = tuple(
                _row(result, kind, 0, len(keys), now_ms, rows) for kind, rows in counts.items()
            )
            return result
        done = []
        for number, kind in enumerate(
            [each for each in (DECODED_KIND, DEAD_KIND, LAKE_KIND) if each in paths], 1
        ):
            if kind == LAKE_KIND and offsets:
                note_offsets(layout, lake, result.run, offsets, now_ms)
            gone = _take_out(paths[kind], meant[kind], area, result.run, now_ms)
            done.append((kind, gone, _sweep(paths[kind])))
            progress.done(number)
        result.tables = tuple(
            _row(
                result,
                kind,
                _must_be_gone(paths[kind], meant[kind]),
                len(keys),
                now_ms,
                gone.rows,
                gone.files,
                deleted,
            )
            for kind, gone, deleted in done
        )
        result.proof = note_proof(layout, result.tables)
        return result


def _paths(layout: PipelineLayout, lake: LakeTable) -> dict[str, Path]:
    derived = {kind: lake.derived(layout, kind) for kind in (DECODED_KIND, DEAD_KIND)}
    return {LAKE_KIND: lake.path} | derived


@contextmanager
def _held(layout: PipelineLayout, lake: LakeTable) -> Iterator[None]:
    """All that writes these tables waits: what is in the middle of a batch could bring a record again."""
    decoded, dead = lake.derived(layout, DECODED_KIND), lake.derived(layout, DEAD_KIND)
    works = [(lake.path, ""), (lake.path, BACKFILL), (lake.path, _MAINTENANCE)]
    works += [(decoded, ""), (decoded, _MAINTENANCE), (dead, _MAINTENANCE)]
    with ExitStack() as held:
        for path, work in works:
            held.enter_context(table_lease(path, _HOLDER, work, wait_s=_LEASE_WAIT_S))
        yield


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


_COLUMNS: Final = ("partition", "offset", "key", "_partition", "_offset")


def _scanned(path: Path) -> Iterator[tuple[Path, pa.Table]]:
    """What tells rows apart, of every row group of the newest version."""
    for told in log_files(DeltaTable(str(path))):
        place = _must_be_there(path, told)
        with pq.ParquetFile(place) as file:
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            for group in range(file.num_row_groups):
                yield place, file.read_row_group(group, columns)


def _must_be_there(path: Path, told: Mapping[str, object]) -> Path:
    place = file_path(path, told)
    if not place.exists():
        raise PipelineError(
            f"file {place} of the table is missing, so nobody can say what it had: give it back, or run "
            "`portico pipeline audit --forget-missing-files` and then this again"
        )
    return place


def _matching(path: Path, is_meant: IsMeant) -> dict[int, Ranges]:
    found: dict[int, list[Ints]] = {}
    for _, rows in _scanned(path):
        mask = is_meant(rows)
        if mask.any():
            partitions = rows.column("partition").to_numpy()[mask]
            offsets = rows.column("offset").to_numpy()[mask].astype(np.int64)
            for each in np.unique(partitions):
                found.setdefault(int(each), []).append(offsets[partitions == each])
    return {partition: as_ranges(np.concatenate(parts)) for partition, parts in found.items()}


def _count(path: Path, is_meant: IsMeant) -> int:
    return sum(int(is_meant(rows).sum()) for _, rows in _scanned(path))


@dataclass(frozen=True)
class _Gone:
    files: int
    rows: int


def _take_out(path: Path, is_meant: IsMeant, area: Path, run: str, now_ms: int) -> _Gone:
    """Rewrite the files that have such rows, in one commit."""
    table = DeltaTable(str(path))
    check_protocol(table)
    files = {file_path(path, {"path": each.path}): each for each in data_files(table)}
    touched: Counter[Path] = Counter()
    for place, rows in _scanned(path):
        touched[place] += int(is_meant(rows).sum())
    hit = {place: count for place, count in touched.items() if count}
    actions: list[dict[str, object]] = []
    for place, count in hit.items():
        actions += _replaced(path, place, files[place], count, is_meant, area, now_ms)
    if actions:
        document = {"job": JOB, "run": run, "files": len(hit), "rows": sum(hit.values())}
        commit(path, int(table.version()), actions, "DELETE", document, now_ms)
    return _Gone(len(hit), sum(hit.values()))


def _replaced(
    path: Path, place: Path, file: DataFile, rows: int, is_meant: IsMeant, area: Path, now_ms: int
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


def _write_rest(place: Path, rest: Path, is_meant: IsMeant) -> int:
    """All other rows, in their order; how many."""
    kept = 0
    with pq.ParquetFile(place) as file:
        names = file.schema_arrow.names
        told = [name for name in names if name not in _PLAIN]
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


def _sweep(path: Path) -> int:
    """Delete every file that the newest version does not name, however young; nobody else writes now.

    Counted on the disk: what the library tells has files of earlier sweeps in it.
    """
    before = len(_on_disk(path))
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    return before - len(_on_disk(path))


def _on_disk(path: Path) -> list[Path]:
    return [each for each in path.rglob("*.parquet") if "_delta_log" not in each.parts]


def _must_be_gone(path: Path, is_meant: IsMeant) -> int:
    """Look once more, at what is on the disk; returns the version that it is. Raises: PipelineError."""
    if left := _count(path, is_meant):
        raise PipelineError(f"table {path} has {left} rows of these keys still: start it again")
    table = DeltaTable(str(path))
    named = {file_path(path, told).resolve() for told in log_files(table)}
    if beside := [each for each in _on_disk(path) if each.resolve() not in named]:
        raise PipelineError(
            f"{len(beside)} files that table {path} does not name could not be deleted, first "
            f"{beside[0]}: remove them, and start it again"
        )
    return int(table.version())


def _row(
    result: ForgetResult,
    kind: str,
    version: int,
    keys: int,
    now_ms: int,
    rows: int,
    files_rewritten: int = 0,
    files_deleted: int = 0,
) -> LakeForgetRow:
    return LakeForgetRow(
        run=result.run,
        forgotten_at_ms=now_ms,
        instance_id=result.lake.instance_id,
        topic=result.lake.topic,
        topic_id=result.lake.topic_id,
        kind=kind,
        keys=keys,
        rows=rows,
        files_rewritten=files_rewritten,
        files_deleted=files_deleted,
        version=version,
    )
