"""The one budget of receive buffers: frames that do not fit the shared buffer are drawn from it.

Buffers are powers of two and grow by doubling as bytes arrive, so a peer holds memory for what it sent, not
for what it announced. Small buffers have a reserve: when large frames have taken the budget, heartbeats
and fetches still pass. Each instance has a share, so that one tenant's frames leave room for those of others.
Growing frames hold memory while they wait for more; so that they cannot all wait for each other, one of each
instance at a time may go beyond its share, and one of all beyond the budget.
"""

from collections.abc import Callable
from enum import Enum
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


class Lack(Enum):
    """What a frame waits for."""

    SHARE = "share"
    """Its instance holds its share."""
    BUDGET = "budget"
    """All together hold the budget."""


class ReceiveMemory:
    """Hands out receive buffers within `limit_bytes`, plus an eighth for small ones and one overdraft.

    `share` names whose memory it is: an instance id, "" for connections that no instance pays for, which are
    the deployment's own.
    """

    def __init__(self, limit_bytes: int, share_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.share_bytes = limit_bytes if share_bytes is None else share_bytes
        """What one instance may hold."""
        self.used_bytes = 0
        self._small_extra_bytes = limit_bytes // 8
        self._shares: dict[str, int] = {}
        self._pool: dict[int, list[bytearray]] = {}
        self._pooled_bytes = 0
        self._waiting: dict[object, tuple[Callable[[], None], Lack]] = {}
        self._overdrawn_by: object | None = None
        self._beyond_share: dict[str, object] = {}

    def is_exhausted(self, share: str) -> bool:
        """Not even a small buffer is left: sockets stay unread."""
        return self.used_bytes >= self.limit_bytes + self._small_extra_bytes or (
            bool(share) and self._shares.get(share, 0) >= self.share_bytes + self._small_extra_bytes
        )

    def is_short(self, share: str) -> bool:
        """Large buffers are not to be had."""
        return self.used_bytes >= self.limit_bytes or (
            bool(share) and self._shares.get(share, 0) >= self.share_bytes
        )

    @property
    def lack(self) -> Lack:
        """Why it is exhausted."""
        is_budget = self.used_bytes >= self.limit_bytes + self._small_extra_bytes
        return Lack.BUDGET if is_budget else Lack.SHARE

    @property
    def waiting(self) -> int:
        """How many connections wait for memory."""
        return len(self._waiting)

    @property
    def waits_for_budget(self) -> bool:
        """Whether one waits that is within its share: others hold too much."""
        return any(lack is Lack.BUDGET for _, lack in self._waiting.values())

    @property
    def largest_share(self) -> str | None:
        """The instance that holds most, None when none holds anything."""
        return max(filter(None, self._shares), key=self._shares.__getitem__, default=None)

    def held_by(self, share: str) -> int:
        """Bytes of one share."""
        return self._shares.get(share, 0)

    def take(self, received: int, share: str, expected: int = 0) -> bytearray:
        """A buffer for bytes that were received already: never refused. Callers ask `is_exhausted` first.

        `expected` is the size of the whole frame where the peer has proved that it sends large ones: then
        the buffer does not start small, while there is room.
        """
        generous = capacity_for(min(expected, _POOLED_BYTES_MAX))
        capacity = capacity_for(received)
        if generous > capacity and self._lack(generous, share, None) is None:
            capacity = generous
        return self._allocate(capacity, share)

    def grow(
        self, buffer: bytearray, filled: int, wanted: int, owner: object, share: str
    ) -> bytearray | Lack:
        """A buffer of up to twice the size, at most for `wanted` bytes, with the same first `filled` bytes.

        A Lack: wait for memory.
        """
        capacity = min(2 * len(buffer), capacity_for(wanted))
        assert capacity > len(buffer)
        lack = self._lack(capacity, share, owner, capacity - len(buffer))
        if lack is not None:
            return lack
        larger = self._allocate(capacity, share)
        larger[:filled] = memoryview(buffer)[:filled]
        self._release(buffer, share)
        return larger

    def _lack(self, capacity: int, share: str, owner: object, more: int | None = None) -> Lack | None:
        """Why a buffer of this capacity, which is `more` than is held for it, is not to be had."""
        if owner is not None and self._overdrawn_by is owner:
            return None
        more = capacity if more is None else more
        extra = self._small_extra_bytes if capacity <= SMALL_BYTES and owner is not None else 0
        if self.used_bytes + more > self.limit_bytes + extra:
            return Lack.BUDGET
        if not share or (owner is not None and self._beyond_share.get(share) is owner):
            return None
        return Lack.SHARE if self._shares.get(share, 0) + more > self.share_bytes + extra else None

    def give_back(self, buffer: bytearray, owner: object, share: str) -> None:
        """Return a buffer and wake who waits. Nobody may hold a view of it."""
        self._release(buffer, share)
        if self._waiting or self._overdrawn_by is not None or self._beyond_share:
            self.forget(owner, share)
            self._wake()

    def wait(
        self, owner: object, resume: Callable[[], None], lack: Lack, share: str, *, holds_memory: bool
    ) -> None:
        """Have `resume` called when there may be memory again: then the owner tries once more.

        One of those that hold memory already may overdraw at a time, else all could wait for each other.
        """
        if holds_memory and lack is Lack.BUDGET and self._overdrawn_by is None:
            self._overdrawn_by = owner
            resume()
            return
        if holds_memory and lack is Lack.SHARE and share not in self._beyond_share:
            self._beyond_share[share] = owner
            resume()
            return
        self._waiting[owner] = resume, lack

    def forget(self, owner: object, share: str) -> None:
        """The owner needs no more."""
        self._waiting.pop(owner, None)
        was_first = self._overdrawn_by is owner
        if was_first:
            self._overdrawn_by = None
        if self._beyond_share.get(share) is owner:
            del self._beyond_share[share]
            was_first = True
        if was_first:
            self._wake()

    def move(self, buffer: bytearray, before: str, share: str) -> None:
        """A buffer is of another share from now on."""
        size = len(buffer)
        self._take_from(before, size)
        self._shares[share] = self._shares.get(share, 0) + size

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume, _ in waiting.values():
            resume()

    def _allocate(self, capacity: int, share: str) -> bytearray:
        self.used_bytes += capacity
        self._shares[share] = self._shares.get(share, 0) + capacity
        pooled = self._pool.get(capacity)
        if pooled:
            self._pooled_bytes -= capacity
            return pooled.pop()
        return bytearray(capacity)

    def _release(self, buffer: bytearray, share: str) -> None:
        capacity = len(buffer)
        self.used_bytes -= capacity
        assert self.used_bytes >= 0
        self._take_from(share, capacity)
        if capacity <= _POOLED_BYTES_MAX and self._pooled_bytes + capacity <= _POOL_BYTES:
            self._pool.setdefault(capacity, []).append(buffer)
            self._pooled_bytes += capacity

    def _take_from(self, share: str, size: int) -> None:
        left = self._shares[share] - size
        assert left >= 0
        if left:
            self._shares[share] = left
        else:
            del self._shares[share]
