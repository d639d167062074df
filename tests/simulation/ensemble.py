"""ZooKeeper: one tree, a session per node that a cut or a pause may cost, answers that get lost."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Iterable, Sequence

from contracts.tree import CommitResult, Node, Op, SessionState, TreeConflict, TreeUnavailable
from runtime.tree.pure import Change
from tests.memory_tree import MemoryEnsemble, MemoryTree

_DELAY_MAX_S = 0.003
_BEAT_S = 0.1


class SimulatedTree(MemoryTree):
    """A session with a network in between. `is_reachable` says whether the ensemble is in sight."""

    def __init__(
        self, ensemble: MemoryEnsemble, chance: random.Random, is_reachable: Callable[[], bool]
    ) -> None:
        super().__init__(ensemble)
        ensemble.add(self)
        self._chance = chance
        self._is_reachable = is_reachable
        self._context = contextvars.copy_context()
        """Of the node: what other nodes change is told in it."""
        self.is_forgotten = False
        """The process is dead."""

    def deliver(self, changes: Iterable[Change]) -> None:
        if self._state is SessionState.CONNECTED:
            loop = asyncio.get_running_loop()
            told = tuple(changes)
            delay_s = self._chance.uniform(0.0002, _DELAY_MAX_S)
            loop.call_later(delay_s, self._notify, told, context=self._context)

    def _notify(self, changes: tuple[Change, ...]) -> None:
        if self._state is SessionState.CONNECTED:
            self._watches.notify(changes)

    def in_context(self, step: Callable[[], None]) -> None:
        """What happens to the session is told in the node's context."""
        asyncio.get_running_loop().call_soon(step, context=self._context)

    async def _way(self) -> None:
        """A message on its way. Raises: TreeUnavailable."""
        await asyncio.sleep(self._chance.uniform(0.0002, _DELAY_MAX_S))
        if not self._is_reachable():
            raise TreeUnavailable("the connection is lost")

    async def get(self, path: str) -> Node | None:
        await self._way()
        return await super().get(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        await self._way()
        return await super().get_many(paths)

    async def children(self, path: str) -> list[str] | None:
        await self._way()
        return await super().children(path)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        await self._way()
        return await super().children_many(paths)

    async def commit(self, ops: Sequence[Op]) -> list[CommitResult]:
        await self._way()
        try:
            results = await super().commit(ops)
        except TreeConflict:
            await self._way()
            raise
        await self._way()
        return results

    async def commit_many(self, batches: Sequence[Sequence[Op]]) -> list[list[CommitResult] | TreeConflict]:
        await self._way()
        results = await super().commit_many(batches)
        await self._way()
        return results


class SessionKeeper:
    """Ends a session that was silent for its timeout: the node's process died, sleeps or is cut off."""

    def __init__(
        self, ensemble: MemoryEnsemble, tree: SimulatedTree, timeout_s: float, is_heard: Callable[[], bool]
    ) -> None:
        self._ensemble = ensemble
        self._tree = tree
        self._timeout_s = timeout_s
        self._is_heard = is_heard

    async def run(self) -> None:
        """Watch over the sessions of one life of a node, until its last one has ended."""
        loop = asyncio.get_running_loop()
        heard_s, session_id, is_connected = loop.time(), self._tree.session_id, True
        while True:
            await asyncio.sleep(_BEAT_S)
            if self._is_heard():
                if not is_connected:
                    is_connected = True
                    expired = session_id == 0
                    self._tree.in_context(self._tree.notice_expiry if expired else self._tree.resume)
                    await asyncio.sleep(0)
                heard_s, session_id = loop.time(), self._tree.session_id
                continue
            if is_connected:
                is_connected = False
                self._tree.in_context(self._tree.suspend)
            if session_id and loop.time() - heard_s > self._timeout_s:
                self._ensemble.end(session_id)
                session_id = 0
                if self._tree.is_forgotten:
                    return
