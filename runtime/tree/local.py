"""The metadata tree of a broker on its own: in memory, every commit kept in one SQLite file.

This process is the only session (the lock of its data directory sees to that), so ephemeral nodes are never
written: a restart is an expiry. Reads and writes run in the order of the calls; nothing that is not on the
disk is ever seen, and commits that wait together share one fsync.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from contracts.tree import (
    CommitResult,
    Node,
    Op,
    SessionState,
    TreeConflict,
    TreeUnavailable,
)
from runtime.logs import get_logger
from runtime.tree.pure import Change, Kind, PureTree, Record
from runtime.tree.store import StoreFailed, TreeStore
from runtime.tree.watches import Watches

_log = get_logger(__name__)
_EPOCH_SHIFT: Final = 32
"""The high half of a zxid is the epoch, as in ZooKeeper; here it is the number of the start."""

LOCAL_TREE_FILE: Final = "metadata.sqlite"
"""Its name in a broker's data directory."""

Result = TypeVar("Result")


class _Waiting(NamedTuple):
    """A call and where its result goes."""

    call: Callable[[], Any]
    future: asyncio.Future[Any]


class LocalTree:
    """A tree in a file. A write that fails (a full disk) raises TreeUnavailable and leaves no trace."""

    def __init__(self, path: Path) -> None:
        self._store = TreeStore(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tree")
        self._watches = Watches()
        self._tree = PureTree()
        self._epoch = 0
        self._waiting: list[_Waiting] = []
        self._rows: dict[str, Record | None] = {}
        self._before: dict[str, Record | None] = {}
        self._changes: list[Change] = []
        self._draining: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> int:
        """The number of this start."""
        return self._epoch

    async def start(self) -> None:
        """Read the file. Raises: TreeUnavailable."""
        try:
            self._epoch = await self._in_thread(self._store.open)
            records = await self._in_thread(self._store.records)
        except StoreFailed as error:
            raise TreeUnavailable(str(error)) from error
        self._tree = PureTree(records, zxid=self._epoch << _EPOCH_SHIFT)
        self._watches.tell(SessionState.CONNECTED)

    async def close_to_others(self) -> None:
        """Its file is its owner's alone already."""

    async def aclose(self) -> None:
        """Finish what was called and close the file."""
        if self._draining is not None:
            await self._draining
        self._epoch = 0
        await self._in_thread(self._store.close)
        self._thread.shutdown(wait=False)

    async def get(self, path: str) -> Node | None:
        """A node, or None."""
        return await self._run(lambda: self._tree.get(path))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many nodes."""
        return await self._run(lambda: [self._tree.get(path) for path in paths])

    async def children(self, path: str) -> list[str] | None:
        """Sorted names of a node's children, or None."""
        return await self._run(lambda: self._tree.children(path))

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Children of many nodes."""
        return await self._run(lambda: [self._tree.children(path) for path in paths])

    async def commit(self, ops: Sequence[Op]) -> list[CommitResult]:
        """Do all operations or none. Raises: TreeConflict, TreeUnavailable."""
        return await self._run(lambda: self._apply(ops))

    async def commit_many(self, batches: Sequence[Sequence[Op]]) -> list[list[CommitResult] | TreeConflict]:
        """Commit each batch on its own. Raises: TreeUnavailable."""
        return await self._run(lambda: [self._try(ops) for ops in batches])

    def watch_data(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change of a node; returns what ends the watch."""
        return self._watches.add(Kind.DATA, path, callback)

    def watch_children(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after a child came or went; returns what ends the watch."""
        return self._watches.add(Kind.CHILDREN, path, callback)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        """Call back when the tree is open."""
        self._watches.listen(callback)

    def _apply(self, ops: Sequence[Op]) -> list[CommitResult]:
        applied = self._tree.commit(self.session_id, ops)
        self._rows.update(applied.rows)
        self._before = applied.before | self._before
        self._changes += applied.changes
        return applied.results

    def _try(self, ops: Sequence[Op]) -> list[CommitResult] | TreeConflict:
        try:
            return self._apply(ops)
        except TreeConflict as conflict:
            return conflict

    async def _run(self, call: Callable[[], Result]) -> Result:
        """Run a call in its turn; returns when everything it saw or wrote is on the disk."""
        if self._epoch == 0:
            raise TreeUnavailable("the tree is not open")
        waiting = _Waiting(call, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(), name="tree")
        result: Result = await waiting.future
        return result

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                outcomes = [_outcome(waiting.call) for waiting in batch]
                try:
                    await self._keep()
                except StoreFailed as error:
                    _log.error("the metadata tree cannot be written", reason=str(error))
                    self._take_back(batch, str(error))
                    continue
                for waiting, (result, refusal) in zip(batch, outcomes, strict=True):
                    _settle(waiting.future, result, refusal)
                changes, self._changes = self._changes, []
                self._watches.notify(dict.fromkeys(changes))
        finally:
            self._draining = None

    async def _keep(self) -> None:
        rows = self._rows
        if rows:
            await self._in_thread(lambda: self._store.write(rows))
        self._rows, self._before = {}, {}

    def _take_back(self, batch: list[_Waiting], reason: str) -> None:
        """What could not be written did not happen; what was read of it is not told."""
        self._tree.restore(self._before)
        self._rows, self._before, self._changes = {}, {}, []
        for waiting in batch:
            _settle(waiting.future, None, TreeUnavailable(reason))

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except Exception as refusal:  # noqa: BLE001 - a conflict or a caller's mistake: its own caller is told
        return None, refusal


def _settle(future: asyncio.Future[Any], result: Any, refusal: Exception | None) -> None:
    if future.done():  # its caller was cancelled
        return
    if refusal is None:
        future.set_result(result)
    else:
        future.set_exception(refusal)
