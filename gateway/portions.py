"""Requests of an instance whose answers are many times themselves, and are made in portions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop

ENTRIES_MAX: Final = 200_000
"""Topics of one instance on a worker whose configs requests for more than 50 ask: a further one ends its
connection."""


class Portions:
    """Of one instance on a worker: its connections may be thousands, and each request keeps its question and
    what is answered so far."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self.entries = 0
        """Of requests under way and waiting."""

    @contextlib.asynccontextmanager
    async def turn(self, entries: int) -> AsyncIterator[None]:
        """One request at a time. Raises: ConnectionStop, where too much waits."""
        if self.entries + entries > ENTRIES_MAX:
            raise ConnectionStop(
                DisconnectCause.REQUEST_TOO_LARGE, f"{entries} entries, behind {self.entries} that wait"
            )
        self.entries += entries
        try:
            async with self._turn:
                yield
        finally:
            self.entries -= entries
