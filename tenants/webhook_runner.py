"""Sends what is due to webhooks; of several control processes one does: the office's.

Each webhook gets its messages one after the other, and waits for no other. Those of one tenant have a few
attempts at once, so that slow sinks of one hold up nobody else's.
"""

import asyncio
from collections import Counter
from typing import Final

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.rules.webhooks import signature
from tenants.store.engine import StoreFault
from tenants.store.shared_session import Office
from tenants.store.webhooks import Resting
from tenants.usecases.webhooks import OTHER_SECRET, Due, Webhooks
from tenants.webhook_sink import Outcome, WebhookSink

_log = get_logger(__name__)
_EVERY_S: Final = 1.0
ATTEMPTS_MAX: Final = 256
"""Attempts under way at once, over all tenants."""
ATTEMPTS_MAX_PER_TENANT: Final = 3
"""Attempts under way at once of one tenant's webhooks."""


class WebhookRunner:
    """The background task."""

    def __init__(self, webhooks: Webhooks, sink: WebhookSink, office: Office) -> None:
        self._webhooks = webhooks
        self._sink = sink
        self._office = office
        self._under_way: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """By webhook: the tenant, and the attempt."""

    async def run(self) -> None:
        """Send for ever."""
        try:
            while True:
                if self._office.since_ms is not None:
                    try:
                        await self.begin(epoch_ms())
                    except StoreFault as fault:
                        _log.warning("webhooks wait: the database does not work", error=fault.reason)
                await asyncio.sleep(_EVERY_S)
        finally:
            for _, task in self._under_way.values():
                task.cancel()

    async def begin(self, now_ms: int) -> None:
        """Begin what is due and may begin. Raises: StoreFault."""
        busy = Counter(tenant for tenant, _ in self._under_way.values())
        free = ATTEMPTS_MAX - len(self._under_way)
        if free <= 0:
            return
        full = frozenset(tenant for tenant, count in busy.items() if count >= ATTEMPTS_MAX_PER_TENANT)
        resting = Resting(frozenset(self._under_way), full)
        for due in await asyncio.to_thread(
            self._webhooks.due, now_ms, resting, ATTEMPTS_MAX_PER_TENANT, free
        ):
            webhook = due.webhook
            if busy[webhook.tenant] >= ATTEMPTS_MAX_PER_TENANT:
                continue
            busy[webhook.tenant] += 1
            task = asyncio.create_task(self._attempt(due))
            self._under_way[webhook.id] = (webhook.tenant, task)

    async def settled(self) -> None:
        """Until what is under way has ended."""
        await asyncio.gather(*(task for _, task in self._under_way.values()))

    async def _attempt(self, due: Due) -> None:
        try:
            outcome = await self._send(due)
            tried = self._webhooks.tried
            await asyncio.to_thread(
                tried, self._office, due.delivery, outcome.status, outcome.error, epoch_ms()
            )
        except StoreFault as fault:  # it is due as before: sinks know a message again by its id
            _log.warning("an attempt was not written down", webhook=due.webhook.id, error=fault.reason)
        finally:
            del self._under_way[due.webhook.id]

    async def _send(self, due: Due) -> Outcome:
        if due.key is None:
            return Outcome(None, OTHER_SECRET)
        body, timestamp_s = due.delivery.body.encode(), epoch_ms() // 1000
        headers = [
            ("User-Agent", "portico"),
            ("Content-Type", "application/json"),
            ("webhook-id", due.delivery.id),
            ("webhook-timestamp", str(timestamp_s)),
            ("webhook-signature", signature(due.key, due.delivery.id, timestamp_s, body)),
        ]
        try:
            return await self._sink.post(due.webhook.tenant, due.webhook.url, headers, body)
        except Exception as error:  # noqa: BLE001 - an attempt that is not counted is made for ever
            _log.exception("an attempt failed in a way nobody thought of", webhook=due.webhook.id)
            return Outcome(None, f"it could not be sent: {type(error).__name__}")
