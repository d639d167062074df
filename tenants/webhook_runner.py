"""Sends what is due to webhooks, and by e-mail; of several control processes one does: the office's.

Each webhook gets its messages one after the other, and waits for no other. Those of one tenant have a few
attempts at once, so that slow sinks of one hold up nobody else's.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.rules.webhooks import Kind
from tenants.store.engine import StoreFault
from tenants.store.shared_session import Office
from tenants.store.webhooks import Resting
from tenants.usecases.webhooks import OTHER_SECRET, Due, Outcome, Webhooks

_log = get_logger(__name__)
_EVERY_S: Final = 1.0
_PAUSE_S: Final = 0.05
"""Between looks at what is due, however fast sinks answer."""
ATTEMPTS_MAX: Final = 256
"""Attempts under way at once, over all tenants."""
ATTEMPTS_MAX_PER_TENANT: Final = 3
"""Attempts under way at once of one tenant's webhooks."""
MAIL_ATTEMPTS_MAX: Final = 4
"""Mails that are handed to the operators' server at once, of one tenant one."""


class Lanes(NamedTuple):
    """Attempts under way at once."""

    all_max: int
    tenant_max: int


WEBHOOK_LANES: Final = Lanes(ATTEMPTS_MAX, ATTEMPTS_MAX_PER_TENANT)
MAIL_LANES: Final = Lanes(MAIL_ATTEMPTS_MAX, 1)


class Sink(Protocol):
    """What hands messages over."""

    async def send(self, due: Due) -> Outcome:
        """One attempt; never raises for what the other side does."""


class WebhookRunner:
    """The background task of one kind: a mail server that hangs holds up no webhook."""

    def __init__(
        self,
        webhooks: Webhooks,
        sink: Sink,
        office: Office,
        kind: Kind = Kind.HTTP,
        lanes: Lanes = WEBHOOK_LANES,
    ) -> None:
        self._webhooks = webhooks
        self._sink = sink
        self._office = office
        self.kind = kind
        self._lanes = lanes
        self._under_way: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """By webhook: the tenant, and the attempt."""
        self._had_turn: dict[str, str] = {}
        """Webhook -> tenant: they wait until every other that is due has had one."""
        self._ended = asyncio.Event()
        self.counts: Counter[str] = Counter(delivered=0, failed=0, refused=0, held=0)
        """How attempts went."""

    async def run(self) -> None:
        """Send for ever."""
        try:
            while True:
                if self._office.since_ms is not None:
                    try:
                        await self.begin(epoch_ms())
                    except StoreFault as fault:
                        _log.warning("webhooks wait: the database does not work", error=fault.reason)
                await self._until_one_ended()
        finally:
            for _, task in self._under_way.values():
                task.cancel()

    async def _until_one_ended(self) -> None:
        """Or a while: a webhook's next message waits for the one before, not for a look."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await self._ended.wait()
        await asyncio.sleep(_PAUSE_S)
        self._ended.clear()

    async def begin(self, now_ms: int) -> None:
        """Begin what is due and may begin: who had a turn comes after who had none. Raises: StoreFault."""
        await self._begin(now_ms)
        if len(self._under_way) >= self._lanes.all_max:
            return
        full = self._full()
        again = [webhook for webhook, tenant in self._had_turn.items() if tenant not in full]
        for webhook in again:
            del self._had_turn[webhook]
        if again:
            await self._begin(now_ms)

    def _full(self) -> frozenset[str]:
        """Tenants with as many attempts under way as they may have."""
        busy = Counter(tenant for tenant, _ in self._under_way.values())
        return frozenset(tenant for tenant, count in busy.items() if count >= self._lanes.tenant_max)

    async def _begin(self, now_ms: int) -> None:
        free = self._lanes.all_max - len(self._under_way)
        if free <= 0:
            return
        resting = Resting(frozenset({*self._under_way, *self._had_turn}), self._full())
        busy = Counter(tenant for tenant, _ in self._under_way.values())
        for due in await asyncio.to_thread(
            self._webhooks.due, now_ms, resting, self._lanes.tenant_max, free, self.kind
        ):
            webhook = due.webhook
            if busy[webhook.tenant] >= self._lanes.tenant_max:
                continue
            busy[webhook.tenant] += 1
            task = asyncio.create_task(self._attempt(due))
            self._under_way[webhook.id] = (webhook.tenant, task)
            self._had_turn[webhook.id] = webhook.tenant

    async def settled(self) -> None:
        """Until what is under way has ended."""
        await asyncio.gather(*(task for _, task in self._under_way.values()))

    async def _attempt(self, due: Due) -> None:
        try:
            outcome = await self._send(due)
            self.counts[_counted_as(outcome)] += 1
            tried = self._webhooks.tried
            is_written = await asyncio.to_thread(tried, self._office, due.delivery, outcome, epoch_ms())
            if is_written:  # else it is due at once, and the next look is soon enough
                self._ended.set()
        except StoreFault as fault:  # it is due as before: sinks know a message again by its id
            _log.warning("an attempt was not written down", webhook=due.webhook.id, error=fault.reason)
        finally:
            del self._under_way[due.webhook.id]

    async def _send(self, due: Due) -> Outcome:
        if due.key is None:
            return Outcome(None, OTHER_SECRET, is_final=True)
        try:
            return await self._sink.send(due)
        except StoreFault:
            raise
        except Exception as error:  # noqa: BLE001 - an attempt that is not counted is made for ever
            _log.exception("an attempt failed in a way nobody thought of", webhook=due.webhook.id)
            return Outcome(None, f"it could not be sent: {type(error).__name__}")


def _counted_as(outcome: Outcome) -> str:
    if outcome.again_ms is not None:
        return "held"
    if not outcome.error:
        return "delivered"
    return "refused" if outcome.is_final else "failed"
