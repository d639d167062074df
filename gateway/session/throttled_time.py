"""For how long a client was told to wait, as its connection would be silent if it does. Pure."""


class ThrottledTime:
    """Of one connection. Answers that say it at the same time overlap: a moment counts once."""

    __slots__ = ("_over_ms", "_since_ms", "_until_ms")

    def __init__(self) -> None:
        self._since_ms = self._until_ms = 0
        """The wait that was told last."""
        self._over_ms = 0
        """All that came before it."""

    def told(self, throttle_ms: int, now_ms: int) -> None:
        """An answer leaves that says so."""
        until_ms = now_ms + throttle_ms
        if now_ms >= self._until_ms:
            self._over_ms += self._until_ms - self._since_ms
            self._since_ms, self._until_ms = now_ms, until_ms
        else:
            self._until_ms = max(self._until_ms, until_ms)

    def total_ms(self, now_ms: int) -> int:
        """Up to now: what is still to come does not count."""
        return self._over_ms + min(now_ms, self._until_ms) - self._since_ms
