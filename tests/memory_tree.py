"""A metadata tree in memory with several sessions, which a test suspends and expires as it likes."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from contracts.tree import (
    CommitResult,
    Node,
    Op,
    SessionState,
    TreeConflict,
    TreeUnavailable,
)
from runtime.tree.pure import Change, Kind, PureTree
from runtime.tree.watches import Watches


class MemoryEnsemble:
    """The shared tree. `session()` opens a client of it."""

    def __init__(self) -> None:
        self.tree = PureTree()
        self._ids = count(1)
        self._clients: list[MemoryTree] = []

    def session(self) -> "MemoryTree":
        """A client that is not started yet."""
        client = MemoryTree(self)
        self.add(client)
        return client

    def add(self, client: "MemoryTree") -> None:
        """Tell a client of changes from now on."""
        self._clients.append(client)

    def next_session_id(self) -> int:
        return next(self._ids)

    def commit(self, session_id: int, ops: Sequence[Op]) -> list[CommitResult]:
        applied = self.tree.commit(session_id, ops)
        self._publish(applied.changes)
        return applied.results

    def end(self, session_id: int) -> None:
        self._publish(self.tree.expire(session_id).changes)

    def _publish(self, changes: Iterable[Change]) -> None:
        for client in self._clients:
            client.deliver(changes)


class MemoryTree:
    """One client: a `Tree` whose session the test controls."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble
        self._watches = Watches()
        self._state: SessionState | None = None
        self._session_id = 0

    @property
    def session_id(self) -> int:
        return self._session_id

    async def start(self) -> None:
        self._new_session()

    async def close_to_others(self) -> None:
        """It is this process's alone."""

    async def aclose(self) -> None:
        self._ensemble.end(self._session_id)
        self._state = None

    def suspend(self) -> None:
        """Cut the connection; the session lives on."""
        self._state = SessionState.SUSPENDED
        self._watches.tell(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Connect again."""
        self._state = SessionState.CONNECTED
        self._watches.tell(SessionState.CONNECTED)
        self._watches.notify(self._watches.all())

    def expire(self, *, noticed: bool = True) -> None:
        """End the session at the ensemble; with `noticed` the client learns it and gets a new one."""
        self._ensemble.end(self._session_id)
        if noticed:
            self.notice_expiry()

    def notice_expiry(self) -> None:
        """The client learns that its session ended."""
        self._state = SessionState.EXPIRED
        self._watches.tell(SessionState.EXPIRED)
        self._new_session()
        self._watches.notify(self._watches.all())

    def _new_session(self) -> None:
        self._session_id = self._ensemble.next_session_id()
        self._state = SessionState.CONNECTED
        self._watches.tell(SessionState.CONNECTED)

    def deliver(self, changes: Iterable[Change]) -> None:
        if self._state is SessionState.CONNECTED:
            asyncio.get_running_loop().call_soon(self._watches.notify, tuple(changes))

    async def get(self, path: str) -> Node | None:
        return (await self._reader()).get(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        tree = await self._reader()
        return [tree.get(path) for path in paths]

    async def children(self, path: str) -> list[str] | None:
        return (await self._reader()).children(path)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        tree = await self._reader()
        return [tree.children(path) for path in paths]

    async def commit(self, ops: Sequence[Op]) -> list[CommitResult]:
        await self._reader()
        return self._ensemble.commit(self._session_id, ops)

    async def commit_many(self, batches: Sequence[Sequence[Op]]) -> list[list[CommitResult] | TreeConflict]:
        await self._reader()
        outcomes: list[list[CommitResult] | TreeConflict] = []
        for ops in batches:
            try:
                outcomes.append(self._ensemble.commit(self._session_id, ops))
            except TreeConflict as conflict:
                outcomes.append(conflict)
        return outcomes

    def watch_data(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._watches.add(Kind.DATA, path, callback)

    def watch_children(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._watches.add(Kind.CHILDREN, path, callback)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._watches.listen(callback)

    async def _reader(self) -> PureTree:
        await asyncio.sleep(0)
        if self._state is not SessionState.CONNECTED:
            raise TreeUnavailable("there is no connection")
        return self._ensemble.tree
