"""Producer ids: drawn from blocks, and a block is on the disk before its first id is handed out.

So no id is ever used twice, also after kill -9: what was left of a block is skipped.
"""

from pathlib import Path
from typing import Final

import msgspec

from broker.durable_file import replace_file

_BLOCK: Final = 1000


class _Reserved(msgspec.Struct, frozen=True):
    next_block_start: int
    version: int = 1


class ProducerIds:
    """The allocator of one broker. Node ids keep the brokers of a cluster apart."""

    def __init__(self, path: Path, node_id: int) -> None:
        self._path = path
        self._base = node_id << 40
        self._next = self._limit = self._read()

    def _read(self) -> int:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Reserved).next_block_start
        except FileNotFoundError:
            return self._base

    def draw(self) -> int:
        """A new id. Raises: OSError when the block cannot be kept; then no id is given out."""
        if self._next == self._limit:
            limit = self._limit + _BLOCK
            replace_file(self._path, msgspec.json.encode(_Reserved(limit)), self._path.name + ".tmp")
            self._limit = limit
        drawn = self._next
        self._next += 1
        return drawn
