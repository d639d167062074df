"""A short line for password hashing: each takes 64 MiB and a core for a moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tenants.rules.errors import TooMany

AT_ONCE: Final = 2
WAITING_MAX: Final = 20


class HashingLine:
    """Bounds how many hashes run and how many wait; a flood of logins is sent away, not queued."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises: TooMany."""
        if self._waiting >= WAITING_MAX:
            raise TooMany("too many logins at once: try again in a moment", 2)
        self._waiting += 1
        try:
            async with self._running:
                yield
        finally:
            self._waiting -= 1
