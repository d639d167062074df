"""What another control process commits wakes the polls of this one: by Redis at once, else by looking.

Looking is one read of the database a second, and every ten seconds while Redis or Postgres is listened to:
what Redis says may be lost, and so may a connection; what the database says is not.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from runtime.logs import get_logger
from runtime.redis_channel import RedisChannel
from runtime.redis_link import RedisLink
from tenants.feed import Feed
from tenants.rules.errors import Refused
from tenants.store.engine import Store, feed_position
from tenants.waiting import wait_until

_log = get_logger(__name__)
_CHANNEL: Final = "portico:feed"
LOOK_S: Final = 1.0
"""Between two looks at the database for what other control processes committed, while nobody would tell."""
_LOOK_LISTENING_S: Final = 10.0
_REST_S: Final = 0.05
"""Between two times that Redis wakes everybody, however much is said there."""


class WakeUps:
    """Lives on the feed's loop."""

    def __init__(
        self,
        link: RedisLink | None,
        store: Store,
        feed: Feed,
        *,
        database_tells: Callable[[], bool],
        look_s: float = LOOK_S,
        look_listening_s: float = _LOOK_LISTENING_S,
    ) -> None:
        """`database_tells` says whether the database itself wakes the polls now."""
        self._store = store
        self._feed = feed
        self._database_tells = database_tells
        self._look_s = look_s
        self._look_listening_s = look_listening_s
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._channel = None if link is None else RedisChannel(link, _CHANNEL, self._heard)

    @property
    def is_listening(self) -> bool:
        """Whether Redis would wake us."""
        return self._channel is not None and self._channel.is_listening

    def _heard(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """For ever."""
        if self._channel is None:
            await self._look()
            return
        self._channel.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tell(self._channel))
                group.create_task(self._look())
        finally:
            await asyncio.to_thread(self._channel.close)

    async def _tell(self, channel: RedisChannel) -> None:
        while True:
            await self._feed.committed.wait()
            self._feed.committed.clear()
            await asyncio.to_thread(channel.say)

    async def _look(self) -> None:
        seen: tuple[str, int] | None = None
        looked_s = self._loop.time()
        while True:
            await wait_until(self._woken, self._look_s)
            if self._woken.is_set():
                self._woken.clear()
                self._feed.awake()
                await asyncio.sleep(_REST_S)
                continue
            is_told = self.is_listening or self._database_tells()
            if is_told and self._loop.time() - looked_s < self._look_listening_s:
                continue
            looked_s = self._loop.time()
            now = await asyncio.to_thread(self._position)
            if now is not None and now != seen:
                seen = now
                self._feed.awake()

    def _position(self) -> tuple[str, int] | None:
        try:
            with self._store.read() as connection:
                return feed_position(connection)
        except (SQLAlchemyError, Refused) as error:
            _log.warning("the database cannot be looked at", error=str(error))
            return None
