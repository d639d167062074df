"""One writer per table: a lock that ends with its process, and says who has it.

It spares two writers needless work. What keeps rows from being doubled is the table's own commit
(`commits.IngestTable.append`), which holds also where a lock is lost. Not so Delta's JVM writer: it replaces
a local log entry that appears between its look and its rename, so nobody here commits through it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from pipeline.errors import PipelineError

_RETRY_S: Final = 0.1


class LeasedError(PipelineError):
    """Somebody else has the table now."""


@contextmanager
def table_lease(table: Path, holder: str, work: str = "", *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a table, as `holder` in the words of people.

    `work` names what may go on beside the table's loader, and only once at a time: `backfill`.
    Raises: LeasedError naming who has it.
    """
    table.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_s
    # Delta's readers and VACUUM pass over hidden files.
    with (table / (f".lease-{work}" if work else ".lease")).open("a+") as lock:
        while not _locked(lock):
            if time.monotonic() >= deadline:
                raise LeasedError(
                    f"table {table.name} is being written by {_holder(lock)}: it takes one writer at a "
                    "time, so wait for that one or stop it"
                )
            time.sleep(_RETRY_S)
        lock.truncate(0)
        lock.write(f"{holder} (process {os.getpid()})\n")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read().strip() or "another process"
