"""The pipeline's Delta tables as the console reads them: SQL on a snapshot, in threads of its own.

`deltalake` is imported with the first question, so a console that is asked for no usage does not pay for it.
Answers are kept by table version. A table that is not there yet is None; one that cannot be read is refused
with a sentence, and the log says why.
"""

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from runtime.clock import monotonic_ms
from runtime.logs import get_logger
from tenants.rules.errors import Unavailable

if TYPE_CHECKING:
    from arro3.core import Table
    from deltalake import DeltaTable

_log = get_logger(__name__)
A = TypeVar("A")
T = TypeVar("T", bound=msgspec.Struct)
Row = dict[str, Any]
_WORKERS: Final = 2
_WAITING_MAX: Final = 64
_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
_FRESH_MS: Final = 500
"""Whether a table has a newer version is looked up at most this often."""
_MEMORY_LIMIT: Final = "set datafusion.runtime.memory_limit = '256M'"
_ENGINE: Final = {"datafusion.execution.target_partitions": str(_WORKERS)}


@dataclass(slots=True)
class _Opened:
    """A table as it was opened; a folder that is made anew is another one."""

    table: "DeltaTable"
    folder: tuple[int, int]
    looked_ms: int
    turn: threading.Lock = field(default_factory=threading.Lock)


class DeltaTables:
    """Tables in a folder, one sub-folder each; `folder` None: there is no pipeline here."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._workers: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._opened: dict[str, _Opened] = {}
        self._kept: OrderedDict[tuple[str, str, str], tuple[tuple[int, int, int], Table]] = OrderedDict()
        self._turn = threading.Lock()

    async def rows(self, table: str, sql: str, order: str = "") -> list[Row] | None:
        """What `columns` answers, as rows."""
        return await self._asked(table, sql, order, _rows)

    async def columns(self, table: str, sql: str, order: str = "") -> list[list[Any]] | None:
        """The columns of a query on one table, by its name; None: nothing has written it yet.

        Raises: Unavailable when the table cannot be read.
        """
        return await self._asked(table, sql, order, _columns)

    async def _asked(self, table: str, sql: str, order: str, take: "Callable[[Table], A]") -> A | None:
        if self._folder is None:
            return None
        if self._waiting >= _WAITING_MAX:
            raise Unavailable("too many reports are being read: try again in a few seconds")
        if self._workers is None:
            self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="tables")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            question = (sql, f"select * from answer {order and 'order by '}{order}")
            return await loop.run_in_executor(
                self._workers, self._select, self._folder / table, question, take
            )
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Stop the threads; what is being read is given up."""
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)

    # --- in a worker ----------------------------------------------------------------------------

    def _select(self, path: Path, question: tuple[str, str], take: "Callable[[Table], A]") -> A | None:
        for attempt in (1, 2):
            if not _is_written(path):
                return None
            try:
                return take(self._answer(path, question))
            except BaseException as error:
                if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                    raise
                # Its files may have been replaced between the look at its log and the reading of them.
                self._opened.pop(path.name, None)
                if attempt == 2:
                    _log.warning("a table cannot be read", table=path.name, error=str(error)[:500])
                    raise Unavailable(
                        f"the pipeline's table {path.name} cannot be read now: try again in a minute; "
                        "an operator finds the cause in the console's log"
                    ) from error
        raise AssertionError("not reached")

    def _answer(self, path: Path, question: tuple[str, str]) -> "Table":
        from deltalake import QueryBuilder

        builder = QueryBuilder(_ENGINE)
        opened = self._open(path)
        with opened.turn:
            if monotonic_ms() - opened.looked_ms >= _FRESH_MS:
                opened.table.update_incremental()
                opened.looked_ms = monotonic_ms()
            version = (*opened.folder, opened.table.version())
            kept = self._kept_answer((path.name, *question), version)
            if kept is not None:
                return kept
            builder.register(path.name, opened.table)
        # Reading a stream holds Python's lock until its end, and with it the event loop; a statement that
        # makes a table does its work without. What is streamed then is the finished answer.
        builder.execute(_MEMORY_LIMIT)
        builder.execute(f"create table answer as {question[0]}")
        answer = builder.execute(question[1]).read_all()
        self._keep((path.name, *question), version, answer)
        return answer

    def _open(self, path: Path) -> _Opened:
        from deltalake import DeltaTable

        log = (path / "_delta_log").stat()
        folder = (log.st_dev, log.st_ino)
        with self._turn:
            opened = self._opened.get(path.name)
            if opened is None or opened.folder != folder:
                opened = _Opened(DeltaTable(path), folder, monotonic_ms())
                self._opened[path.name] = opened
            return opened

    def _kept_answer(self, key: tuple[str, str, str], version: tuple[int, int, int]) -> "Table | None":
        with self._turn:
            kept = self._kept.get(key)
            if kept is None or kept[0] != version:
                return None
            self._kept.move_to_end(key)
            return kept[1]

    def _keep(self, key: tuple[str, str, str], version: tuple[int, int, int], answer: "Table") -> None:
        with self._turn:
            self._kept[key] = (version, answer)
            self._kept.move_to_end(key)
            total = sum(one.nbytes for _, one in self._kept.values())
            while total > _KEPT_BYTES_MAX:
                _, (_, oldest) = self._kept.popitem(last=False)
                total -= oldest.nbytes


def _is_written(path: Path) -> bool:
    """Whether a table has a first version: its folder is made before that."""
    try:
        with os.scandir(path / "_delta_log") as entries:
            return any(entry.name.endswith((".json", ".parquet")) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _columns(answer: "Table") -> list[list[Any]]:
    return [answer[name].to_pylist() for name in answer.column_names]


def _rows(answer: "Table") -> list[Row]:
    names = answer.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*_columns(answer), strict=True)]


def converted(rows: Sequence[Row], kind: type[T]) -> list[T]:
    """Rows as their contract has them. Raises: Unavailable, for a table of another version."""
    plain: Any = rows
    try:
        return msgspec.convert(plain, list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise Unavailable(
            f"the pipeline's table of {kind.__name__} is of another version than this console: {error}"
        ) from error


# --- pieces of SQL ---------------------------------------------------------------------------------


def columns_of(kind: type[msgspec.Struct]) -> str:
    """The columns of a row type, quoted: some are called like SQL's own words."""
    return ", ".join(f'"{name}"' for name in kind.__struct_fields__)


def text(value: str) -> str:
    """A literal."""
    return "'" + value.replace("'", "''") + "'"


def day(value: date) -> str:
    """A literal."""
    return f"date '{value.isoformat()}'"
