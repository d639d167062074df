"""Delta's `txn` actions of a table, all of them from one reading of its log.

deltalake tells one name's number and reads the log anew for each: for a topic of 100 partitions thousands of
requests to an object store.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import PipelineError
from pipeline.store import AnyPath, open_parquet, read_bytes

LOG: Final = "_delta_log"


class _Txn(msgspec.Struct, rename="camel"):
    app_id: str
    version: int


class _Line(msgspec.Struct):
    """Of a log entry."""

    txn: _Txn | None = None


class _LastCheckpoint(msgspec.Struct, rename="camel"):
    version: int
    parts: int | None = None
    v2_checkpoint: dict[str, object] | None = None


_LINES: Final = msgspec.json.Decoder(_Line)


class Transactions:
    """As far as the log has been read: later versions cost their own entries alone."""

    def __init__(self, table: AnyPath) -> None:
        self._log = table / LOG
        self._version = -1
        self._numbers: dict[str, int] = {}

    def at(self, version: int) -> Mapping[str, int]:
        """Numbers by name. Raises: PipelineError, OSError, and what the store's library raises."""
        if version < self._version:
            self._version, self._numbers = -1, {}
        try:
            if self._version < 0:
                self._begin(version)
            while self._version < version:
                self._take(self._version + 1)
        except (msgspec.DecodeError, FileNotFoundError, pa.ArrowInvalid) as error:
            raise PipelineError(f"the log {self._log} cannot be read: {error}") from error
        return self._numbers

    def _begin(self, version: int) -> None:
        """With the last checkpoint, where there is one."""
        try:
            told = msgspec.json.decode(read_bytes(self._log / "_last_checkpoint"), type=_LastCheckpoint)
        except FileNotFoundError:
            return
        if told.version > version:
            return
        if told.v2_checkpoint is not None:
            raise PipelineError(f"the log {self._log} has checkpoints of another program's kind")
        parts = told.parts or 0
        for part in [f".{number:010}.{parts:010}" for number in range(1, parts + 1)] or [""]:
            with open_parquet(self._log / f"{told.version:020}.checkpoint{part}.parquet") as file:
                found = file.read(["txn"]).column("txn")
            for each in found.filter(pc.is_valid(found)).to_pylist():
                self._numbers[each["appId"]] = each["version"]
        self._version = told.version

    def _take(self, version: int) -> None:
        for line in read_bytes(self._log / f"{version:020}.json").splitlines():
            if line and (txn := _LINES.decode(line).txn) is not None:
                self._numbers[txn.app_id] = txn.version
        self._version = version
