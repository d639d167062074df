"""Commits that take files out of a Delta table and put others in, beside writers that only append.

Neither of the libraries does it: delta-rs appends or replaces whole tables, and Delta's own writer can
replace a log entry of another process on a local disk. An entry of the log is made complete and then given
its number (by a link, in a store by a conditional put), which fails where there is one already; what came
before it is then read, and must leave our files alone.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import add_action
from pipeline.ingest.staging import StagedFile
from pipeline.lake.planning.compact_plan import DataFile
from pipeline.store import AnyPath, create, read_bytes

_LOG: Final = "_delta_log"
_ATTEMPTS: Final = 200
_READER_VERSION_MAX: Final = 1
_WRITER_VERSION_MAX: Final = 2


class ConflictError(PipelineError):
    """Somebody else has changed the files that were to be replaced; nothing was committed."""


def check_protocol(table: DeltaTable) -> None:
    """Raises: PipelineError where the table has features that these commits know nothing of."""
    found = table.protocol()
    if found.min_reader_version > _READER_VERSION_MAX or found.min_writer_version > _WRITER_VERSION_MAX:
        raise PipelineError(
            f"table {table.table_uri} was given features by another program (reader "
            f"{found.min_reader_version}, writer {found.min_writer_version}): maintain it with that one"
        )


def removal(file: DataFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
    """The action that takes a file out."""
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": file.partition_values,
            "size": file.size_bytes,
        }
    }


def addition(path: str, file: StagedFile, now_ms: int, *, data_change: bool = False) -> dict[str, Any]:
    """The action that puts a file in which has only rows that the table had; `data_change`: not all."""
    action = add_action(path, file, now_ms)
    return {
        "add": {
            "path": action.path,
            "partitionValues": dict(action.partition_values),
            "size": action.size,
            "modificationTime": action.modification_time,
            "dataChange": data_change,
            "stats": action.stats,
        }
    }


def conflict(removed: Iterable[str], actions: Iterable[Mapping[str, Any]]) -> str | None:
    """What another commit did that ours cannot follow, or None. Files that it added do not matter. Pure."""
    paths = set(removed)
    for each in actions:
        if "metaData" in each or "protocol" in each:
            return "the table's schema or settings were changed"
        if "remove" in each and each["remove"]["path"] in paths:
            return "a file was removed already"
        if "add" in each and each["add"]["path"] in paths:
            return "a file was added anew"
    return None


def commit(
    table: AnyPath,
    read_version: int,
    actions: Sequence[Mapping[str, Any]],
    operation: str,
    document: Mapping[str, Any],
    now_ms: int,
) -> int:
    """Commit to the table as it was at `read_version` or later; returns the new version.

    Raises: ConflictError, where a commit after that version changed what we remove.
    """
    removed = [each["remove"]["path"] for each in actions if "remove" in each]
    info = {
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": {},
        "isBlindAppend": False,
        "engineInfo": "portico",
        "userMetadata": json.dumps(document),
        "txnId": str(uuid.uuid4()),  # no other entry has the same bytes
    }
    lines = "".join(f"{json.dumps(each)}\n" for each in ({"commitInfo": info}, *actions))
    log = table / _LOG
    for version in range(read_version + 1, read_version + 1 + _ATTEMPTS):
        entry = log / f"{version:020}.json"
        if create(entry, lines.encode()):
            return version
        if (reason := conflict(removed, _actions(entry))) is not None:
            raise ConflictError(f"table {table.name}: {reason} meanwhile; start it again")
    raise ConflictError(f"table {table.name} has {_ATTEMPTS} commits since it was read; start it again")


def _actions(entry: AnyPath) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_bytes(entry).splitlines() if line]
