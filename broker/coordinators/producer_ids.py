"""Producer ids: drawn from blocks that brokers take from the metadata tree, so that no id is given twice.

A block is ours once the compare-and-set has succeeded; what a broker leaves of one when it ends is skipped.
Source: Kafka ZkProducerIdManager (`/latest_producer_id_block`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.coordinators.producer_id_rates import ProducerIdRates
from broker.metadata.znode_paths import PRODUCER_ID_BLOCK
from broker.metadata.znodes import ZnodeDamaged, decode_producer_id_block, encode_producer_id_block
from contracts.tree import Create, SetData, Tree, TreeConflict, TreeUnavailable
from runtime.logs import get_logger

_log = get_logger(__name__)
BLOCK_SIZE: Final = 1000
_AHEAD: Final = 100
"""The next block is taken while so many ids of this one are left."""

Tell = Callable[[int | None], None]


class ProducerIds:
    """The allocator of one broker."""

    def __init__(self, tree: Tree, broker_id: int) -> None:
        self.rates = ProducerIdRates()
        """Of those who draw for themselves: ask it before `draw`."""
        self._tree = tree
        self._broker_id = broker_id
        self._blocks: list[range] = []
        """Taken and not used up: the current one and perhaps the next."""
        self._waiting: list[Tell] = []
        self._task: asyncio.Task[None] | None = None

    def draw(self, tell: Tell) -> None:
        """Give a new id to `tell`, perhaps at once; None when no block can be taken now."""
        if self._blocks:
            tell(self._next())
        else:
            self._waiting.append(tell)
        if sum(len(block) for block in self._blocks) < _AHEAD and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._refill(), name="producer ids")

    def _next(self) -> int:
        block = self._blocks[0]
        if len(block) == 1:
            del self._blocks[0]
        else:
            self._blocks[0] = block[1:]
        return block[0]

    async def _refill(self) -> None:
        try:
            self._blocks.append(await self._take())
        except (TreeUnavailable, ZnodeDamaged) as error:
            _log.warning("no block of producer ids could be taken", error=str(error))
        finally:
            self._task = None
            waiting, self._waiting = self._waiting, []
        refilled = bool(self._blocks)
        for tell in waiting:
            if refilled:
                self.draw(tell)
            else:
                tell(None)

    async def skip(self, up_to: int) -> bool:
        """Give out no id up to this one any more, here and in blocks that any broker takes from now on;
        False where the tree cannot be written."""
        try:
            if any(block[0] <= up_to for block in self._blocks) or await self._newest() <= up_to:
                taken = await self._take(beyond=up_to)
            else:
                return True
        except (TreeUnavailable, ZnodeDamaged) as error:
            _log.warning("producer ids of another cluster cannot be skipped", error=str(error))
            return False
        self._blocks = [block for block in self._blocks if block[0] > up_to] + [taken]
        return True

    async def _newest(self) -> int:
        """The last id of the newest block; -1 while there is none. Raises: TreeUnavailable; ZnodeDamaged."""
        node = await self._tree.get(PRODUCER_ID_BLOCK)
        return -1 if node is None else decode_producer_id_block(node.data)

    async def _take(self, beyond: int = -1) -> range:
        """Raises: TreeUnavailable; ZnodeDamaged."""
        while True:
            node = await self._tree.get(PRODUCER_ID_BLOCK)
            start = 0 if node is None else decode_producer_id_block(node.data) + 1
            start = max(start, beyond + 1)
            block = range(start, start + BLOCK_SIZE)
            data = encode_producer_id_block(self._broker_id, block[0], block[-1])
            try:
                if node is None:
                    await self._tree.commit([Create(PRODUCER_ID_BLOCK, data)])
                else:
                    await self._tree.commit([SetData(PRODUCER_ID_BLOCK, data, node.stat.version)])
            except TreeConflict:
                continue  # another broker was first
            return block

    def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
