"""One writer per table: a lock that ends with its process, and says who has it.

It spares two writers needless work. What keeps rows from being doubled is the table's own commit
(`commits.IngestTable.append`), which holds also where a lock is lost.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pipeline.errors import PipelineError

_FILE: Final = ".lease"
"""In the table's folder: Delta's readers and VACUUM pass over hidden files."""


@contextmanager
def table_lease(table: Path, holder: str, work: str = "") -> Iterator[None]:
    """Hold a table, as `holder` in the words of people. Raises: PipelineError naming who has it.

    `work` names what may go on beside the table's loader, and only once at a time: `compact`, `backfill`.
    """
    table.mkdir(parents=True, exist_ok=True)
    with (table / (f"{_FILE}-{work}" if work else _FILE)).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            by = lock.read().strip() or "another process"
            raise PipelineError(
                f"table {table.name} is being written by {by}: one writer at a time, so wait or stop it"
            ) from None
        lock.truncate(0)
        lock.write(f"{holder} (process {os.getpid()})\n")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)
