"""Which requests are traced: a share of all, so many per second for each instance, so many under way. Pure.

One tenant cannot spend the traces of others, nor can all together spend the loop: a traced request costs some
hundred microseconds.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

TOTAL_FACTOR: Final = 20
"""What all instances of a process may have together in one second: so many times what one may have."""
UNDER_WAY_MAX: Final = 100
"""Traced requests of one instance that are not answered yet: a long poll lasts minutes."""


class RequestSampling:
    """The requests of one process, by instance."""

    def __init__(self, ratio: float, per_second: int, draw: Callable[[], float] = random.random) -> None:
        self._ratio = ratio
        self._per_second = per_second
        self._draw = draw
        self._second = -1
        self._taken: Counter[str] = Counter()
        self._total = 0
        self._under_way: Counter[str] = Counter()

    def takes(self, name: str, now_ms: int) -> bool:
        """Whether a request that is here now is traced; then `ended` is called once."""
        if self._draw() >= self._ratio:
            return False
        if now_ms // 1000 != self._second:
            self._second = now_ms // 1000
            self._taken.clear()
            self._total = 0
        if (
            self._taken[name] >= self._per_second
            or self._total >= self._per_second * TOTAL_FACTOR
            or self._under_way[name] >= UNDER_WAY_MAX
        ):
            return False
        self._taken[name] += 1
        self._total += 1
        self._under_way[name] += 1
        return True

    def ended(self, name: str) -> None:
        """A traced request was answered, or its connection has ended."""
        assert self._under_way[name] > 0, "each that was taken ends once"
        self._under_way[name] -= 1
        if not self._under_way[name]:
            del self._under_way[name]
