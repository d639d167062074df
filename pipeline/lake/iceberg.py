"""Lake tables as Iceberg tables: metadata beside the same Parquet files, which nobody copies (docs/adr/0089).

Delta's log says what a table has; an Iceberg snapshot is one of its versions, files and columns in one
commit that names the version. So a run that finds its version has nothing to do, and one that was killed left
either the snapshot of before or the whole next one. What is told of a file is what Delta's log knows: no file
is opened, and no bounds have a key in them.
"""

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, IntegerType, LongType, TimestamptzType
from pyiceberg.utils.datetime import datetime_to_micros
from sqlalchemy.exc import SQLAlchemyError

from pipeline.errors import PipelineError
from pipeline.ingest.lease import table_lease
from pipeline.lake.decode.source import file_path, log_files
from pipeline.lake.planning.readable_names import Readable
from pipeline.lake.rewrite import columns
from pipeline.store import AnyPath, StorePath, of_text, open_parquet, store_fault, written_at

JOB: Final = "iceberg"
CATALOG_NAME: Final = "portico"
FOLDER: Final = "iceberg"
_HOLDER: Final = f"portico pipeline {JOB}"
_DELTA_ID: Final = "portico.delta-table-id"
_DELTA_VERSION: Final = "portico.delta-version"
_LAKE: Final = "portico.lake"
_READER_VERSION_MAX: Final = 1
"""Versions above may have deletion vectors and columns under other names."""
_KEPT_FOR: Final = timedelta(days=1)
_SNAPSHOTS_MAX: Final = 24
_PROPERTIES: Final = {
    TableProperties.COMMIT_NUM_RETRIES: "0",  # one that was overtaken would add its files once more
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(_SNAPSHOTS_MAX),
}
_MS_US: Final = 1000
"""Some writers note a time by its millisecond."""
_IN_FILES: Final = "_partition"
_SHOWN: Final = "_kafka_partition"
"""Decoded tables have a column whose name is Iceberg's own: Java's readers refuse such a table."""
_Told = Mapping[str, Any]
"""What Delta's log says of a file."""


class Shown(NamedTuple):
    """A table as a run left it."""

    name: str
    state: str
    """`made`, `made again`, `changed` or `as it was`."""
    version: int
    """Delta's."""
    added_files: int
    removed_files: int
    metadata: str
    """The file by which readers without the catalog open it."""


class IcebergLake:
    """A catalog of our tables. Raises: PipelineError, also from all that it does."""

    def __init__(self, root: AnyPath, catalog_url: str, environment: Mapping[str, str]) -> None:
        """`root`: the lake's; `catalog_url`: SQLAlchemy's."""
        if isinstance(root, StorePath) and not root.bucket.startswith("s3a:"):
            raise PipelineError("Iceberg's readers are served by lakes at file: and s3a:")
        self._root = root
        with _faults(f"catalog {CATALOG_NAME}"):
            self._catalog = SqlCatalog(CATALOG_NAME, uri=catalog_url, **_file_settings(environment))

    def show(self, table: Readable, now: datetime) -> Shown:
        """Bring one table up to Delta's newest version. Raises: LeasedError."""
        place = of_text(table.place.url)
        name = f"{table.schema}.{table.name}"
        with _faults(name), table_lease(place, _HOLDER, JOB):
            delta = _opened(place)
            known = self._known(name)
            if known is None:
                self._catalog.create_namespace_if_not_exists(table.schema)
                return self._made(table, delta, "made")
            if _said(known, _DELTA_ID) == delta.metadata().id:
                if _said(known, _DELTA_VERSION) == str(delta.version()):
                    return Shown(name, "as it was", int(delta.version()), 0, 0, known.metadata_location)
                if _only_grew(known, delta):
                    return self._changed(name, known, delta, place, now)
            self._drop(known)
            return self._made(table, delta, "made again")

    def gone(self, tables: Sequence[Readable], *, drop: bool) -> list[str]:
        """Names here that no table of the lake has any more; dropped where the owner said so."""
        there = {(each.schema, each.name) for each in tables}
        with _faults(f"catalog {CATALOG_NAME}"):
            listed = [
                each for space in self._catalog.list_namespaces() for each in self._catalog.list_tables(space)
            ]
            others = [self._catalog.load_table(each) for each in listed if each not in there]
            gone = [each for each in others if self._is_ours(each)]
            for each in gone if drop else ():
                self._drop(each)
        return [".".join(each.name()) for each in gone]

    def _known(self, name: str) -> Table | None:
        try:
            table = self._catalog.load_table(name)
        except NoSuchTableError:
            return None
        if not self._is_ours(table):
            owner = table.properties.get(_LAKE, "another program")
            raise PipelineError(
                f"{name} in this catalog is of {owner}, not of the lake at {self._root}: name another "
                "catalog with --catalog, or remove it from this one"
            )
        return table

    def _is_ours(self, table: Table) -> bool:
        return table.properties.get(_LAKE) == str(self._root)

    def _made(self, table: Readable, delta: DeltaTable, state: str) -> Shown:
        name = f"{table.schema}.{table.name}"
        place = of_text(table.place.url)
        folder = f"{table.place.kind}-{table.place.topic_id}-{uuid.uuid4().hex}"
        location = self._root / FOLDER / table.place.instance_id / folder
        properties = _PROPERTIES | {_LAKE: str(self._root)}
        try:
            making = self._catalog.create_table_transaction(
                name, _columns(delta), location=_for_readers(location), properties=properties
            )
        except ValueError as error:
            raise PipelineError(f"{name}: its columns cannot be an Iceberg table's: {error}") from error
        with making.update_spec() as spec:
            for column in delta.metadata().partition_columns:
                spec.add_identity(column)
        files = _files(delta, place)
        _commit(making, delta, place, files, [])
        made = self._catalog.load_table(name)
        return Shown(name, state, int(delta.version()), len(files), 0, made.metadata_location)

    def _changed(self, name: str, known: Table, delta: DeltaTable, place: AnyPath, now: datetime) -> Shown:
        live = _live(known)
        files = _files(delta, place)
        added = {path: file for path, file in files.items() if path not in live}
        removed = [file for path, file in live.items() if path not in files]
        change = known.transaction()
        with change.update_schema() as schema:
            schema.union_by_name(_columns(delta))
        _commit(change, delta, place, added, removed)
        known.refresh()
        _forget_old(known, now)
        return Shown(name, "changed", int(delta.version()), len(added), len(removed), known.metadata_location)

    def _drop(self, known: Table) -> None:
        """The name first: what a kill leaves then is a folder of metadata that nobody reads."""
        self._catalog.drop_table(known.name())
        folder = of_text(known.location())
        if isinstance(folder, StorePath):
            folder.remove()
        else:
            shutil.rmtree(folder)


def _commit(
    change: Transaction,
    delta: DeltaTable,
    place: AnyPath,
    added: Mapping[str, _Told],
    removed: Sequence[DataFile],
) -> None:
    shown = change.table_metadata.schema().name_mapping.root
    in_files = [each.model_copy(update={"names": [_name_in_files(each.names[0])]}) for each in shown]
    change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: NameMapping(in_files).model_dump_json()})
    said = {_DELTA_ID: str(delta.metadata().id), _DELTA_VERSION: str(delta.version())}
    update = change.update_snapshot(said)
    with update.overwrite() if removed else update.merge_append() as snapshot:
        for file in removed:
            snapshot.delete_data_file(file)
        for path, told in added.items():
            snapshot.append_data_file(_data_file(change, place, path, told))
    change.commit_transaction()


def _opened(place: AnyPath) -> DeltaTable:
    delta = DeltaTable(str(place))
    if (needed := delta.protocol().min_reader_version) > _READER_VERSION_MAX:
        raise PipelineError(
            f"table {place} was given features by another program (reader {needed}) that its files alone do "
            "not show: read it as a Delta table"
        )
    return delta


def _files(delta: DeltaTable, place: AnyPath) -> dict[str, _Told]:
    """What the log says, by the paths that readers get."""
    return {_for_readers(file_path(place, told["path"])): told for told in log_files(delta)}


def _live(table: Table) -> dict[str, DataFile]:
    return {each.file.file_path: each.file for each in table.scan().plan_files()}


def _data_file(change: Transaction, place: AnyPath, path: str, told: _Told) -> DataFile:
    metadata = change.table_metadata
    shown = {_name_in_files(each.name): each for each in metadata.schema().fields}
    bounds = {
        each.field_id: found
        for name, each in shown.items()
        if "." not in name  # which is also how the log tells of a field of a struct
        and (found := _bounds(each.field_type, told.get(f"min.{name}"), told.get(f"max.{name}")))
    }
    hours = [_partition(told.get(f"partition.{each.name}")) for each in metadata.spec().fields]
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*hours),
        record_count=_rows(place, told),
        file_size_in_bytes=int(told["size_bytes"]),
        lower_bounds={field: low for field, (low, _) in bounds.items()},
        upper_bounds={field: high for field, (_, high) in bounds.items()},
    )
    file.spec_id = metadata.default_spec_id
    return file


def _bounds(kind: IcebergType, low: object, high: object) -> tuple[bytes, bytes] | None:
    """Of numbers and times only."""
    if isinstance(kind, IntegerType | LongType) and isinstance(low, int) and isinstance(high, int):
        return to_bytes(kind, low), to_bytes(kind, high)
    if isinstance(kind, TimestamptzType) and isinstance(low, datetime) and isinstance(high, datetime):
        return to_bytes(kind, _micros(low)), to_bytes(kind, _micros(high) + _MS_US)
    return None


def _rows(place: AnyPath, told: _Told) -> int:
    if (rows := told["num_records"]) is not None:
        return int(rows)
    with open_parquet(file_path(place, told["path"])) as file:
        return int(file.metadata.num_rows)


def _partition(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise PipelineError("the table is not partitioned by hours: read it as a Delta table")
    return _micros(value)


def _micros(value: datetime) -> int:
    return datetime_to_micros(value if value.tzinfo else value.replace(tzinfo=UTC))


def _columns(delta: DeltaTable) -> pa.Schema:
    return pa.schema([each.with_name(_shown_name(each.name)) for each in columns(delta)])


def _shown_name(column: str) -> str:
    return _SHOWN if column == _IN_FILES else column


def _name_in_files(shown: str) -> str:
    return _IN_FILES if shown == _SHOWN else shown


def _only_grew(known: Table, delta: DeltaTable) -> bool:
    """Whether Delta's columns are those of the Iceberg table, and new ones: what another program did besides
    makes another table.
    """
    if [each.name for each in known.spec().fields] != delta.metadata().partition_columns:
        return False
    shown = {_shown_name(each.name) for each in delta.schema().fields}
    if any(each.name not in shown for each in known.schema().fields):
        return False
    try:
        known.update_schema().union_by_name(_columns(delta))  # looked at, and never committed
    except (ValidationError, ValueError):  # the second where a column begins or ends to be a struct
        return False
    return True


def _said(table: Table, what: str) -> str | None:
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return None
    return snapshot.summary.additional_properties.get(what)


def _forget_old(table: Table, now: datetime) -> None:
    """Older versions are Delta's to tell: their metadata goes, files that are a day old."""
    before = now - _KEPT_FOR
    kept = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)[-_SNAPSHOTS_MAX:]
    kept = [*(each for each in kept[:-1] if each.timestamp_ms >= before.timestamp() * 1000), kept[-1]]
    old = {each.snapshot_id for each in table.metadata.snapshots} - {each.snapshot_id for each in kept}
    if not old:
        return
    table.maintenance.expire_snapshots().by_ids(sorted(old)).commit()
    table.refresh()
    named = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in kept:
        named |= {snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io))}
    for file in (of_text(table.location()) / "metadata").iterdir():
        if _for_readers(file) not in named and (at := _written_at(file)) is not None and at < before:
            file.unlink()


def _written_at(file: AnyPath) -> datetime | None:
    if isinstance(file, StorePath):
        return written_at(file)
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def _for_readers(path: AnyPath) -> str:
    """In the words of those that know no Hadoop."""
    return str(path).replace("s3a://", "s3://", 1)


def _file_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Where a store is, as the environment says it to all; who we are Arrow takes from there itself."""
    found = {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "s3.endpoint": environment.get("AWS_ENDPOINT_URL"),
        "s3.region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
    }
    return {name: value for name, value in found.items() if value}


@contextmanager
def _faults(what: str) -> Iterator[None]:
    """What goes wrong in pyiceberg, its catalog and its files, in a sentence."""
    try:
        yield
    except (CommitFailedException, NoSuchTableError, TableAlreadyExistsError, ValidationException) as error:
        raise PipelineError(f"{what}: another run changed it meanwhile ({error}): start it again") from error
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise PipelineError(f"{what}: the catalog cannot be asked: {store_fault(cause)}") from error
    except DeltaError as error:
        raise PipelineError(f"{what}: its table cannot be read: {store_fault(error)}") from error
    except OSError as error:
        raise PipelineError(
            f"{what}: its metadata cannot be read or written: {store_fault(error)}"
        ) from error
