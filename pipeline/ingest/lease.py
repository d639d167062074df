"""One writer per table: a lock that ends with its process, and says who has it.

It spares two writers needless work. What keeps rows from being doubled is the table's own commit
(`commits.IngestTable.append`), which holds also where a lock is lost. Not so Delta's JVM writer: it replaces
a local log entry that appears between its look and its rename, so nobody here commits through it.

In an object store the lock is a file that its holder writes again and again; one that is not written any more
is somebody else's after a while, which the store's clock measures.
"""

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from obstore.exceptions import BaseError

from pipeline.errors import PipelineError
from pipeline.store import AnyPath, State, StoreError, StorePath, put, put_if, state, store_fault, written_at

_RETRY_S: Final = 0.1
_STORE_RETRY_S: Final = 1.0
RENEWED_EVERY_S: Final = 5.0
LEASE_S: Final = 30.0
"""A process that is silent for longer has lost its table."""
_GIVEN_BACK: Final = b""
"""A file stays, so that a store without conditions for what it replaces can count its states."""
IsOurs = Callable[[], bool]
"""Whether a lease is held still: one in a store is lost by who does not reach the store, or sleeps."""


class LeasedError(PipelineError):
    """Somebody else has the table now."""


class _Holding(msgspec.Struct, frozen=True):
    """What the file of a lease in a store says."""

    holder: str
    token: str
    renewed: int
    """Makes every state of the file another, so that a holder and its successor do not both take it."""


@contextmanager
def table_lease(table: AnyPath, holder: str, work: str = "", *, wait_s: float = 0.0) -> Iterator[IsOurs]:
    """Hold a table, as `holder` in the words of people.

    `work` names what may go on beside the table's loader, and only once at a time: `backfill`.
    Raises: LeasedError naming who has it; PipelineError where the disk or the store does not let us.
    """
    # Delta's readers and VACUUM pass over hidden files.
    name = f".lease-{work}" if work else ".lease"
    if isinstance(table, StorePath):
        lease = _StoreLease(table / name, holder)
        lease.take(wait_s)
        try:
            yield lease.is_ours
        finally:
            lease.give_back()
        return
    deadline = time.monotonic() + wait_s
    try:
        table.mkdir(parents=True, exist_ok=True)
        file = (table / name).open("a+")
    except OSError as error:
        raise PipelineError(f"table {table} cannot be held: {error.strerror}") from error
    with file as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as taken:
                if time.monotonic() >= deadline:
                    lock.seek(0)
                    raise _leased(table, lock.read().strip()) from taken
                time.sleep(_RETRY_S)
        lock.truncate(0)
        lock.write(f"{holder} (process {os.getpid()})\n")
        lock.flush()
        try:
            yield lambda: True
        finally:
            lock.truncate(0)


def _leased(table: AnyPath, holder: str) -> LeasedError:
    return LeasedError(
        f"table {table.name} is being written by {holder or 'another process'}: it takes one writer at a"
        " time, so wait for that one or stop it"
    )


class _StoreLease:
    """One file, renewed by a thread of its own."""

    def __init__(self, path: StorePath, holder: str) -> None:
        self._path = path
        self._holder = f"{holder} (process {os.getpid()} on {socket.gethostname()})"
        self._token = uuid.uuid4().hex
        self._renewed = 0
        self._e_tag: str | None = None
        self._held_until_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="lease")

    def take(self, wait_s: float) -> None:
        """Raises: LeasedError, StoreError."""
        deadline = time.monotonic() + wait_s
        try:
            while not self._write(self._free_state()):
                if time.monotonic() >= deadline:
                    found = state(self._path)
                    raise _leased(self._path.parent, _told(found).holder if found else "")
                time.sleep(_STORE_RETRY_S)
        except BaseError as error:
            raise StoreError(f"table {self._path.parent}: {store_fault(error)}") from error
        self._thread.start()

    def is_ours(self) -> bool:
        """By this process's own clock."""
        return time.monotonic() < self._held_until_s

    def give_back(self) -> None:
        """For the next one to take at once, unless it has it already."""
        self._ended.set()
        self._thread.join()
        try:
            if self.is_ours():
                put_if(self._path, _GIVEN_BACK, self._e_tag)
        except (BaseError, OSError):
            return  # it runs out by itself

    def _free_state(self) -> str | None:
        """The tag of a file that nobody holds, or whose holder is silent; None where there is no file."""
        found = state(self._path)
        if found is None:
            return None
        if found.data == _GIVEN_BACK:
            return found.e_tag
        clock = self._path.parent / f".clock-{self._token}"
        put(clock, b"")
        now = written_at(clock)
        clock.unlink()
        is_over = now is not None and (now - found.at).total_seconds() > LEASE_S
        return found.e_tag if is_over else ""

    def _write(self, e_tag: str | None) -> bool:
        if e_tag == "":
            return False
        asked_s = time.monotonic()
        self._renewed += 1
        data = msgspec.json.encode(_Holding(self._holder, self._token, self._renewed))
        told = put_if(self._path, data, e_tag)
        if told is None and (found := state(self._path)) is not None and _told(found).token == self._token:
            told = put_if(self._path, data, found.e_tag)  # the store took the last one; its answer was lost
        if told is None:
            return False
        self._e_tag, self._held_until_s = told, asked_s + LEASE_S
        return True

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED_EVERY_S):
            try:
                if not self._write(self._e_tag):
                    self._held_until_s = 0.0
                    return
            except (BaseError, OSError):
                continue  # until it runs out


def _told(found: State) -> _Holding:
    try:
        return msgspec.json.decode(found.data, type=_Holding)
    except msgspec.DecodeError:
        return _Holding("", "", 0)
