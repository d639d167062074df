"""What waits to be asked of another broker, by whose it is: taken in pieces that a request may hold. Pure."""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

T = TypeVar("T")
PIECE_BYTES_MAX: Final = 64 * 1024
"""What one request to another broker carries, and one turn of its loop handles. An item counts for at least
`ITEM_BYTES`, so a piece has no more than 1,024 of them."""
ITEM_BYTES: Final = 64


class FairQueue(Generic[T]):
    """Each owner's items in order. Of one piece every owner gets the same bytes, as far as it has any; whom
    a piece had no room for comes first in the next."""

    def __init__(self) -> None:
        self._waiting: dict[str | None, deque[tuple[T, int]]] = {}
        """Items and their bytes by owner; none is empty. Who was served last stands at the end."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, owner: str | None, item: T, size_bytes: int) -> None:
        """Put an item behind those of its owner."""
        assert size_bytes > 0
        self._waiting.setdefault(owner, deque()).append((item, size_bytes))

    def take(self, bytes_max: int) -> list[T]:
        """The next items, of `bytes_max` together; one that is larger comes alone."""
        taken = list(self._next(bytes_max))
        assert taken or not self._waiting
        return taken

    def _next(self, bytes_max: int) -> Iterator[T]:
        left_bytes = bytes_max
        turns = [(0, number, owner) for number, owner in enumerate(self._waiting)]
        heapify(turns)
        served: dict[str | None, None] = {}
        while turns:
            had_bytes, number, owner = heappop(turns)
            queue = self._waiting[owner]
            item, size_bytes = queue[0]
            if size_bytes > left_bytes and served:
                break
            queue.popleft()
            left_bytes -= size_bytes
            served[owner] = None
            if queue:
                heappush(turns, (had_bytes + size_bytes, number, owner))
            yield item
        for owner in served:
            queue = self._waiting.pop(owner)
            if queue:
                self._waiting[owner] = queue

    def take_all(self) -> list[T]:
        """Everything."""
        everything = [item for queue in self._waiting.values() for item, _ in queue]
        self._waiting.clear()
        return everything
