"""The one budget of receive buffers: frames that do not fit the shared buffer are drawn from it.

Buffers are powers of two and grow by doubling as bytes arrive, so a peer holds memory for what it sent, not
for what it announced. Small buffers have a reserve: when large frames have taken the budget, heartbeats
and fetches still pass. Growing frames hold memory while they wait for more; so that they cannot all wait for
each other, one of them at a time may overdraw.
"""

from collections.abc import Callable
from typing import Final

SMALL_BYTES: Final = 64 * 1024
_MIB: Final = 1024 * 1024
_SMALLEST_BYTES: Final = 4096
_POOLED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Larger buffers go back to the allocator."""
_POOL_BYTES: Final = 8 * 1024 * 1024


def capacity_for(size: int) -> int:
    """The buffer size that holds `size` bytes: powers of two while buffers are pooled, then whole MiB."""
    assert size >= 0, size
    if size > _POOLED_BYTES_MAX:
        return (size + _MIB - 1) // _MIB * _MIB
    return max(_SMALLEST_BYTES, 1 << (size - 1).bit_length())


class ReceiveMemory:
    """Hands out receive buffers within `limit_bytes`, plus an eighth for small ones and one overdraft."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._small_limit_bytes = limit_bytes + limit_bytes // 8
        self._pool: dict[int, list[bytearray]] = {}
        self._pooled_bytes = 0
        self._waiting: dict[object, Callable[[], None]] = {}
        self._overdrawn_by: object | None = None

    @property
    def is_exhausted(self) -> bool:
        """Not even a small buffer is left: sockets stay unread."""
        return self.used_bytes >= self._small_limit_bytes

    @property
    def waiting(self) -> int:
        """How many connections wait for memory."""
        return len(self._waiting)

    def take(self, received: int, expected: int = 0) -> bytearray:
        """A buffer for bytes that were received already: never refused. Callers ask `is_exhausted` first.

        `expected` is the size of the whole frame where the peer has proved that it sends large ones: then
        the buffer does not start small, while there is room.
        """
        generous = capacity_for(min(expected, _POOLED_BYTES_MAX))
        capacity = capacity_for(received)
        if generous > capacity and self.used_bytes + generous <= self.limit_bytes:
            capacity = generous
        return self._allocate(capacity)

    def grow(self, buffer: bytearray, filled: int, wanted: int, owner: object) -> bytearray | None:
        """A buffer of up to twice the size, at most for `wanted` bytes, with the same first `filled` bytes.

        None: wait for memory.
        """
        capacity = min(2 * len(buffer), capacity_for(wanted))
        assert capacity > len(buffer)
        limit = self._small_limit_bytes if capacity <= SMALL_BYTES else self.limit_bytes
        if self.used_bytes + capacity - len(buffer) > limit and self._overdrawn_by is not owner:
            return None
        larger = self._allocate(capacity)
        larger[:filled] = memoryview(buffer)[:filled]
        self._release(buffer)
        return larger

    def give_back(self, buffer: bytearray, owner: object) -> None:
        """Return a buffer and wake who waits. Nobody may hold a view of it."""
        self._release(buffer)
        self.forget(owner)
        self._wake()

    def wait(self, owner: object, resume: Callable[[], None], *, holds_memory: bool) -> None:
        """Have `resume` called when there may be memory again: then the owner tries once more.

        One of those that hold memory already may overdraw at a time, else all could wait for each other.
        """
        if holds_memory and self._overdrawn_by is None:
            self._overdrawn_by = owner
            resume()
            return
        self._waiting[owner] = resume

    def forget(self, owner: object) -> None:
        """The owner needs no more."""
        self._waiting.pop(owner, None)
        if self._overdrawn_by is owner:
            self._overdrawn_by = None
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume in waiting.values():
            resume()

    def _allocate(self, capacity: int) -> bytearray:
        self.used_bytes += capacity
        pooled = self._pool.get(capacity)
        if pooled:
            self._pooled_bytes -= capacity
            return pooled.pop()
        return bytearray(capacity)

    def _release(self, buffer: bytearray) -> None:
        capacity = len(buffer)
        self.used_bytes -= capacity
        assert self.used_bytes >= 0
        if capacity <= _POOLED_BYTES_MAX and self._pooled_bytes + capacity <= _POOL_BYTES:
            self._pool.setdefault(capacity, []).append(buffer)
            self._pooled_bytes += capacity
