"""The quota master's views, asked through its internal API: one request a second serves every reader."""

import asyncio
from typing import Final
from urllib.parse import quote

import msgspec

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.quota_view import QuotaOverview, QuotaView
from runtime.clock import monotonic_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger
from tenants.rules.errors import Conflict, Unavailable
from tenants.usecases.instances import Usage

_log = get_logger(__name__)
_FRESH_MS: Final = 900
_TIMEOUT_S: Final = 3.0
NO_MASTER: Final = "the quota master does not answer: instances work on, try again in a few seconds"
_NOT_YET: Final = "the quota master does not know the instance yet: try again in a second"


class QuotaSource:
    """The newest overview, fetched when somebody asks and the last is older than a second."""

    def __init__(self, client: InternalClient) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._overview: QuotaOverview | None = None
        self._by_id: dict[str, QuotaView] = {}
        self._asked_ms: int | None = None
        self._failing = False

    async def overview(self) -> QuotaOverview:
        """Every instance but the system's, without history. Raises: Unavailable."""
        async with self._turn:
            now_ms = monotonic_ms()
            if self._asked_ms is None or now_ms - self._asked_ms >= _FRESH_MS:
                self._asked_ms = now_ms
                await self._fetch()
        if self._overview is None:
            raise Unavailable(NO_MASTER)
        return self._overview

    async def _fetch(self) -> None:
        try:
            fetched = await self._client.get("/internal/v1/quota", QuotaOverview, timeout_s=_TIMEOUT_S)
        except InternalError as error:
            if not self._failing:
                _log.warning("the quota master does not answer", error=str(error))
            self._failing, self._overview, self._by_id = True, None, {}
            return
        self._failing = False
        self._by_id = {one.instance_id: one for one in fetched.instances}
        shown = tuple(one for one in fetched.instances if one.instance_id != SYSTEM_INSTANCE_ID)
        self._overview = msgspec.structs.replace(fetched, instances=shown)

    async def current(self, instance_id: str) -> QuotaView:
        """One instance of the overview. Raises: Unavailable."""
        await self.overview()
        view = self._by_id.get(instance_id)
        if view is None:
            raise Unavailable(_NOT_YET)
        return view

    async def with_history(self, instance_id: str, seconds: int) -> QuotaView:
        """One instance with its last seconds. Raises: Conflict just after it was made, Unavailable."""
        path = f"/internal/v1/instances/{quote(instance_id)}/quota"
        try:
            return await self._client.get(path, QuotaView, params={"seconds": seconds}, timeout_s=_TIMEOUT_S)
        except InternalError as error:
            if error.status == 404:
                raise Conflict(_NOT_YET) from error
            raise Unavailable(NO_MASTER) from error

    async def usage(self) -> dict[str, QuotaView]:
        """What is known of every instance; nothing while the master does not answer."""
        try:
            await self.overview()
        except Unavailable:
            return {}
        return self._by_id

    async def is_full(self, instance_id: str) -> bool:
        """Whether an instance is known to be at its capacity, and may not be written to."""
        view = (await self.usage()).get(instance_id)
        return view is not None and view.blocked

    async def usage_of(self, instance_id: str) -> Usage:
        """Stored bytes and partitions of one instance as of now, as far as known."""
        try:
            view = await self.with_history(instance_id, 0)
        except (Conflict, Unavailable):
            return Usage()
        return Usage(view.stored_bytes, sum(broker.partitions_led for broker in view.brokers))
