"""This broker's place in the cluster: its node in the tree, whose czxid is the broker epoch.

The node is ephemeral, so it is there exactly as long as the session. After an expiry the broker registers
again and has a new epoch; the controller takes that for a restart.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.cluster.earlier_session import EarlierSession
from broker.metadata import znode_paths
from broker.metadata.znodes import (
    Registration,
    ZnodeDamaged,
    decode_cluster_id,
    decode_registration,
    encode_cluster_id,
    encode_registration,
)
from contracts.tree import Conflict, Create, Delete, SessionState, Tree, TreeConflict, TreeUnavailable
from runtime.logs import get_logger

_log = get_logger(__name__)
_LOOK_AGAIN_S: Final = 0.2
_PATIENCE: Final = 1.5
"""ZooKeeper ends sessions on its ticks, of which every timeout has at least two."""


class BrokerIdTaken(Exception):  # noqa: N818 - says what is so
    """Another broker is registered under this id."""


class ForeignCluster(Exception):  # noqa: N818 - says what is so
    """The tree belongs to another cluster."""


class Membership:
    """Registers this broker, and again after each expiry of the session."""

    def __init__(
        self, tree: Tree, node_id: int, cluster_id: str, session_timeout_ms: int, earlier: EarlierSession
    ) -> None:
        self._tree = tree
        self._earlier = earlier
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._session_timeout_ms = session_timeout_ms
        self._data = b""
        self._lost = asyncio.Event()
        self.broker_epoch = -1
        """czxid of our node; -1 while there is none that we know of."""
        self.last_epoch = -1
        """The latest one we had: what was meant for an earlier life is never obeyed."""
        tree.on_session(self._session_changed)

    async def prepare(self) -> None:
        """Make the persistent nodes, see that the tree is this cluster's, and end our last life in it.

        Raises: ForeignCluster, OSError, TreeUnavailable, ZnodeDamaged.
        """
        missing = [
            path
            for path, node in zip(
                znode_paths.PERSISTENT_PATHS,
                await self._tree.get_many(znode_paths.PERSISTENT_PATHS),
                strict=True,
            )
            if node is None
        ]
        creations = [[Create(path)] for path in missing]
        creations.append([Create(znode_paths.CLUSTER_ID, encode_cluster_id(self._cluster_id))])
        await self._tree.commit_many(creations)  # a refusal says that another broker was here first
        node = await self._tree.get(znode_paths.CLUSTER_ID)
        assert node is not None, "it is there, or was just made"
        found = decode_cluster_id(node.data)
        if found != self._cluster_id:
            raise ForeignCluster(
                f"the metadata belongs to cluster {found}, this broker to {self._cluster_id}: "
                "give another --cluster-id or another --zookeeper path"
            )
        await self._end_last_life()

    async def _end_last_life(self) -> None:
        """Remove what a session whose broker is dead still owns: the cluster learns of the death now."""
        session_id = self._earlier.recall()
        if session_id in (0, self._tree.session_id):
            return
        paths = (znode_paths.broker_path(self._node_id), znode_paths.CONTROLLER)
        nodes = await self._tree.get_many(paths)
        left = [
            path
            for path, node in zip(paths, nodes, strict=True)
            if node is not None and node.stat.owner == session_id
        ]
        if left:
            _log.info("an earlier life of this broker is ended", nodes=left)
            await self._tree.commit_many([[Delete(path)] for path in left])  # or its session ended just now

    async def register(self, registration: Registration) -> int:
        """Create our node; its epoch. An earlier life of this broker is waited for until its session ends.

        Raises: BrokerIdTaken, TreeUnavailable.
        """
        self._note_session()
        self._data = encode_registration(registration)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._session_timeout_ms / 1000 * _PATIENCE
        while True:
            epoch = await self._try_register()
            if epoch is not None:
                break
            if loop.time() >= deadline_s:
                raise BrokerIdTaken(await self._who_has_it())
            await asyncio.sleep(_LOOK_AGAIN_S)
        self.broker_epoch = self.last_epoch = epoch
        _log.info("registered", broker_id=self._node_id, broker_epoch=epoch)
        return epoch

    def _note_session(self) -> None:
        try:
            self._earlier.note(self._tree.session_id)
        except OSError as error:
            _log.warning("the session is not noted: a restart may have to wait for its end", error=str(error))

    async def _try_register(self) -> int | None:
        """Our epoch, or None while somebody else has the node. Raises: TreeUnavailable."""
        path = znode_paths.broker_path(self._node_id)
        try:
            (created,) = await self._tree.commit([Create(path, self._data, ephemeral=True)])
        except TreeConflict as conflict:
            if conflict.reason is not Conflict.NODE_EXISTS:
                raise
            node = await self._tree.get(path)
            # Ours is there when the answer to an earlier attempt was lost; its time stamp tells.
            return node.stat.czxid if node is not None and node.data == self._data else None
        assert created.stat is not None
        return created.stat.czxid

    async def _who_has_it(self) -> str:
        node = await self._tree.get(znode_paths.broker_path(self._node_id))
        where = "nobody any more: try again"
        if node is not None:
            try:
                other = decode_registration(node.data)
                where = f"the broker at {other.host}:{other.port}"
            except ZnodeDamaged as damage:
                where = f"somebody whose registration cannot be read ({damage})"
        return f"broker id {self._node_id} is taken by {where}"

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.broker_epoch = -1
            self._lost.set()

    async def keep(self, registration: Callable[[], Registration]) -> None:
        """Register again whenever the session has expired, for ever."""
        while True:
            await self._lost.wait()
            self._lost.clear()
            _log.warning("the session has expired: registering again")
            while self.broker_epoch == -1:
                try:
                    await self.register(registration())
                except (TreeUnavailable, BrokerIdTaken) as error:
                    _log.warning("cannot register yet", error=str(error))
                    await asyncio.sleep(_LOOK_AGAIN_S)
