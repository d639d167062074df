"""The dashboard's picture: put together once for everybody who looks, and only while somebody does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from contracts.fleet import FleetBroker, FleetOverview
from contracts.names import SYSTEM_INSTANCE_ID
from runtime.clock import monotonic_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger
from tenants.quota import NO_MASTER
from tenants.rules import fleet
from tenants.rules.fleet import Picture
from tenants.store.engine import StoreFault

_log = get_logger(__name__)
PERIOD_MS: Final = 2_000
_NAMES_EVERY_MS: Final = 10_000
_TIMEOUT_S: Final = 3.0
_FRESH_MS: Final = 900
_TEXT: Final = msgspec.json.Encoder()


class Frame(NamedTuple):
    """What is sent to those who saw the frame before, and to those who did not: server-sent events."""

    number: int
    changes: bytes
    everything: bytes


class FleetSource:
    """One picture for all viewers. `names` blocks: tenant and name by instance id."""

    def __init__(self, client: InternalClient, names: Callable[[], dict[str, tuple[str, str]]]) -> None:
        self._client = client
        self._names = names
        self._known: dict[str, tuple[str, str]] = {}
        self._named_ms: int | None = None
        self._picture: Picture | None = None
        self._frame: Frame | None = None
        self._news = asyncio.Condition()
        self._viewers = 0
        self._turn = asyncio.Lock()
        self._asked_ms: int | None = None
        self._brokers: dict[tuple[str, int], FleetBroker] = {}
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While somebody looks."""
        self._viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._viewers -= 1
            if self._viewers == 0 and self._task is not None:
                self._task.cancel()
                self._task = None

    async def after(self, number: int) -> Frame:
        """The first frame that is newer than one; 0: any."""
        async with self._news:
            await self._news.wait_for(lambda: self._frame is not None and self._frame.number != number)
        assert self._frame is not None
        return self._frame

    async def brokers(self) -> dict[tuple[str, int], FleetBroker]:
        """What brokers told last, by cluster and node id; empty while the master does not answer."""
        async with self._turn:
            if self._asked_ms is None or monotonic_ms() - self._asked_ms >= _FRESH_MS:
                self._asked_ms = monotonic_ms()
                try:
                    found = await self._ask()
                except InternalError:
                    self._brokers = {}
                else:
                    self._brokers = {(one.cluster_id, one.node_id): one for one in found.brokers}
        return self._brokers

    async def _ask(self) -> FleetOverview:
        """Raises: InternalError."""
        return await self._client.get("/internal/v1/fleet", FleetOverview, timeout_s=_TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            began_ms = monotonic_ms()
            try:
                frame = await self._next()
            except (InternalError, StoreFault) as error:
                frame = self._trouble(error)
            except Exception:  # noqa: BLE001 - viewers wait for the next
                _log.exception("the dashboard's picture could not be made")
                frame = None
            if frame is not None:
                async with self._news:
                    self._frame = frame
                    self._news.notify_all()
            await asyncio.sleep(max(0.01, (PERIOD_MS - (monotonic_ms() - began_ms)) / 1000))

    async def _next(self) -> Frame:
        """Raises: InternalError, StoreFault."""
        found = await self._ask()
        if self._named_ms is None or monotonic_ms() - self._named_ms >= _NAMES_EVERY_MS:
            named = await asyncio.to_thread(self._names)
            self._known = {key: name for key, name in named.items() if key != SYSTEM_INSTANCE_ID}
            self._named_ms = monotonic_ms()
        before, self._picture = self._picture, fleet.picture(found, self._known)
        everything = _data(fleet.whole(self._picture))
        changes = everything if before is None else _data(fleet.changed(before, self._picture))
        return Frame(self._number(), changes, everything)

    def _trouble(self, error: Exception) -> Frame:
        """The last picture stays, and is as old as it says; who comes now is told of it, too."""
        detail = NO_MASTER if isinstance(error, InternalError) else str(error)
        told = b"event: problem\ndata: " + _TEXT.encode({"status": 503, "detail": detail}) + b"\n\n"
        last = b"" if self._picture is None else _data(fleet.whole(self._picture))
        return Frame(self._number(), told, last + told)

    def _number(self) -> int:
        return 1 if self._frame is None else self._frame.number + 1


def _data(message: object) -> bytes:
    return b"data: " + _TEXT.encode(message) + b"\n\n"
