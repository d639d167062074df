"""Whether a server that was asked something says nothing any more. Pure.

kazoo takes each request that it sends for a sign of life, and looks for one of the server only in the pauses
between them: while a process goes on asking, a server that stands still is noticed late, or never.
"""


class Silence:
    """How long one connection has said nothing. Times are monotonic seconds."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._asked_s: float | None = None
        """When the first request was sent after which nothing has come."""

    def asked(self, now_s: float) -> None:
        """A request is sent."""
        if self._asked_s is None:
            self._asked_s = now_s

    def heard(self) -> None:
        """The server says something, or another connection begins."""
        self._asked_s = None

    def left_s(self, now_s: float) -> float | None:
        """How long the server may still be silent, 0 or less: no longer; None when it owes no answer."""
        return None if self._asked_s is None else self._asked_s + self._limit_s - now_s

    def is_over(self, now_s: float) -> bool:
        """Whether the server has been silent for too long."""
        left_s = self.left_s(now_s)
        return left_s is not None and left_s <= 0
