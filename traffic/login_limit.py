"""How many wrong passwords an address and a user may try. Pure: times are arguments."""

from collections import OrderedDict, deque
from typing import Final

WINDOW_MS: Final = 60_000
FAILURES_MAX_PER_PAIR: Final = 5
"""Wrong passwords in a minute for one user from one address (IPv6: /64)."""
FAILURES_MAX_PER_ADDRESS: Final = 20
"""Wrong passwords in a minute from one address, whoever it names."""
_KEYS_MAX: Final = 10_000


class LoginLimit:
    """Failures of the last minute by (address, user) and by address.

    Counting by user alone would let anybody lock the admin out.
    """

    def __init__(
        self,
        per_pair: int = FAILURES_MAX_PER_PAIR,
        per_address: int = FAILURES_MAX_PER_ADDRESS,
        keys_max: int = _KEYS_MAX,
    ) -> None:
        self._per_pair, self._per_address, self._keys_max = per_pair, per_address, keys_max
        self._failures: OrderedDict[tuple[str, str | None], deque[int]] = OrderedDict()

    def retry_after_ms(self, address: str, user: str, now_ms: int) -> int:
        """0 when an attempt is allowed, else how long to wait."""
        waits = [
            self._wait_ms((address, user), self._per_pair, now_ms),
            self._wait_ms((address, None), self._per_address, now_ms),
        ]
        return max(waits)

    def failed(self, address: str, user: str, now_ms: int) -> None:
        """Count a wrong password."""
        for key, allowed in (((address, user), self._per_pair), ((address, None), self._per_address)):
            self._failures.setdefault(key, deque(maxlen=allowed)).append(now_ms)
            self._failures.move_to_end(key)
        while len(self._failures) > self._keys_max:
            self._failures.popitem(last=False)

    def failures(self, address: str, user: str, now_ms: int) -> int:
        """Wrong passwords of this user from there within the window."""
        self._wait_ms((address, user), self._per_pair, now_ms)
        return len(self._failures.get((address, user), ()))

    def succeeded(self, address: str, user: str) -> None:
        """Forget the failures of this user at this address."""
        self._failures.pop((address, user), None)

    def _wait_ms(self, key: tuple[str, str | None], allowed: int, now_ms: int) -> int:
        times = self._failures.get(key)
        if times is None:
            return 0
        while times and now_ms - times[0] >= WINDOW_MS:
            times.popleft()
        if len(times) < allowed:
            return 0
        return times[len(times) - allowed] + WINDOW_MS - now_ms
