"""Leader election over a metadata tree, with an epoch that grows by one with every election.

The office is an ephemeral node; its epoch is a second, lasting node that is set in the same transaction. A
leader puts a `Check` of that node's version into each of its writes, so one that was voted out unawares can
change nothing. While the connection is lost the office is kept (there is no telling, and every write fails);
it ends when the session expires or the node is seen to be gone or another's.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

from contracts.tree import (
    Check,
    Conflict,
    Create,
    Delete,
    Node,
    SessionState,
    SetData,
    Tree,
    TreeConflict,
    TreeUnavailable,
)
from runtime.logs import get_logger

_log = get_logger(__name__)
_RETRY_S: Final = 0.2


class Office(NamedTuple):
    """What a leader writes with."""

    epoch: int
    """Larger than that of any leader before."""
    epoch_version: int
    """Version of the epoch's node: to be checked in every write."""


class Election:
    """One candidate. Callbacks run on the event loop; `elected` and `lost` alternate."""

    def __init__(
        self,
        tree: Tree,
        path: str,
        epoch_path: str,
        *,
        data: Callable[[], bytes],
        elected: Callable[[Office], None],
        lost: Callable[[], None],
        leader_changed: Callable[[Node | None], None] = lambda _node: None,
    ) -> None:
        """`path` and `epoch_path` have parents that exist; `data` is what others read of the leader."""
        self._tree = tree
        self._path = path
        self._epoch_path = epoch_path
        self._data = data
        self._elected = elected
        self._lost = lost
        self._leader_changed = leader_changed
        self._standing = True
        self._expiries = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._end_watch: Callable[[], None] = lambda: None
        self.office: Office | None = None
        """What this candidate leads with, or None."""
        self.leader: Node | None = None
        """Who leads, as last seen."""

    def start(self) -> None:
        """Stand for election. The tree is started already."""
        self._tree.on_session(self._on_session)
        self._end_watch = self._tree.watch_data(self._path, self._wake.set)
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name=f"election {self._path}")

    async def aclose(self) -> None:
        """Leave; the office is given up at once when the tree can be reached."""
        self._end_watch()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._standing = False
        with contextlib.suppress(TreeUnavailable, TreeConflict):
            await self._give_up()

    def resign(self) -> None:
        """Give the office up and stand no more, until `stand`."""
        self._standing = False
        self._wake.set()

    def stand(self) -> None:
        """Stand for election again."""
        self._standing = True
        self._wake.set()

    def _on_session(self, state: SessionState) -> None:
        if self._task is None:
            return
        if state is SessionState.EXPIRED:
            self._expiries += 1
            self._end_office()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._look()
            except (TreeUnavailable, TreeConflict) as error:
                # a conflict means that another was quicker; both are looked at anew
                _log.debug("election: looking again", path=self._path, reason=str(error))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_S):
                        await self._wake.wait()
                self._wake.set()

    async def _look(self) -> None:
        """See who leads and do what follows. Raises: TreeUnavailable, TreeConflict."""
        node = await self._tree.get(self._path)
        self._saw(node)
        ours = node is not None and node.stat.owner == self._tree.session_id
        if not ours:
            self._end_office()
        if not self._standing:
            if ours:
                await self._give_up()
                self._saw(await self._tree.get(self._path))
        elif node is None:
            await self._claim()
            self._saw(await self._tree.get(self._path))
        elif ours and self.office is None:
            await self._recognise()

    async def _claim(self) -> None:
        """Take the office that nobody holds. Raises: TreeConflict when another was quicker."""
        epoch_node = await self._tree.get(self._epoch_path)
        if epoch_node is None:
            with contextlib.suppress(TreeConflict):
                await self._tree.commit([Create(self._epoch_path, b"0")])
            epoch_node = await self._tree.get(self._epoch_path)
            assert epoch_node is not None, f"{self._epoch_path} was deleted"
        epoch, version = int(epoch_node.data), epoch_node.stat.version
        expiries = self._expiries
        await self._tree.commit(
            [
                Create(self._path, self._data(), ephemeral=True),
                SetData(self._epoch_path, str(epoch + 1).encode(), version),
            ]
        )
        if self._expiries != expiries:
            raise TreeUnavailable("the session ended while it was elected")
        self._take(Office(epoch + 1, version + 1))

    async def _recognise(self) -> None:
        """The node is this session's: a claim whose outcome was unknown did succeed."""
        epoch_node = await self._tree.get(self._epoch_path)
        if epoch_node is None:
            raise TreeConflict(0, self._epoch_path, Conflict.NO_NODE)
        self._take(Office(int(epoch_node.data), epoch_node.stat.version))

    async def _give_up(self) -> None:
        """Delete the node if it is this session's. The epoch's version tells it from a successor's."""
        self._end_office()
        node, epoch_node = await self._tree.get_many([self._path, self._epoch_path])
        if node is not None and epoch_node is not None and node.stat.owner == self._tree.session_id:
            check = Check(self._epoch_path, epoch_node.stat.version)
            await self._tree.commit([check, Delete(self._path)])

    def _take(self, office: Office) -> None:
        assert self.office is None, "elected twice"
        self.office = office
        _log.info("elected", path=self._path, epoch=office.epoch)
        self._elected(office)

    def _end_office(self) -> None:
        if self.office is not None:
            _log.info("no longer elected", path=self._path, epoch=self.office.epoch)
            self.office = None
            self._lost()

    def _saw(self, node: Node | None) -> None:
        if node != self.leader:
            self.leader = node
            self._leader_changed(node)
