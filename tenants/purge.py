"""Deleting for good: what a deleted instance left on its cluster, topics and groups, until nothing is left.

The built-in broker purges by itself when the feed says so; this pass works with any cluster, finishes what a
dead broker left undone, and is how the control plane knows that nothing is left.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from contracts.specs import ConsumerKind
from runtime.clock import monotonic_ms
from runtime.logs import get_logger
from tenants import lifecycle
from tenants.backend import groups, topics
from tenants.backend.cluster import Cluster
from tenants.errors import NotFound, Refused
from tenants.feed import Feed
from tenants.lifecycle import Event, State
from tenants.model import Instance
from tenants.shared_ledger import SharedLedger
from tenants.store import instances
from tenants.store.engine import Store

_log = get_logger(__name__)
_EVERY_S: Final = 1.0
_LEARN_MS: Final = 10_000
"""After a start, gateways that run get this long to be heard of: none may still serve what is purged."""


class Purge:
    """The background task."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        gateways: SharedLedger,
        cluster_of: Callable[[str], Awaitable[Cluster]],
    ) -> None:
        self._store = store
        self._feed = feed
        self._gateways = gateways
        self._cluster_of = cluster_of
        self._started_ms = monotonic_ms()
        self._told: dict[str, str] = {}
        """Why an instance's purge waits, as logged: once, not every second."""

    async def run(self) -> None:
        """Purge what is deleted; for ever."""
        while True:
            for instance in await asyncio.to_thread(self._deleting):
                if self._is_served(instance):
                    continue
                try:
                    if await self._purge(instance):
                        await asyncio.to_thread(self._finish, instance)
                        self._gateways.forget([instance.id])
                        self._told.pop(instance.id, None)
                        _log.info("instance purged", instance=instance.id)
                except Refused as error:
                    self._tell(instance.id, error.detail)
            await asyncio.sleep(_EVERY_S)

    def _tell(self, instance_id: str, reason: str) -> None:
        if self._told.get(instance_id) != reason:
            self._told[instance_id] = reason
            _log.warning("purge goes on later", instance=instance_id, reason=reason)

    def _deleting(self) -> list[Instance]:
        with self._store.read() as connection:
            return instances.in_states(connection, [State.DELETING])

    def _is_served(self, instance: Instance) -> bool:
        gateways = self._feed.live(ConsumerKind.GATEWAY).values()
        if not gateways:
            return monotonic_ms() - self._started_ms < _LEARN_MS
        return any(one.applied_revision < instance.revision for one in gateways)

    async def _purge(self, instance: Instance) -> bool:
        """One pass; whether nothing was left when it began."""
        cluster = await self._cluster_of(instance.cluster_id)
        found = await cluster.topics(instance.id)
        for name in found:
            try:
                await topics.delete(cluster, instance.id, name)
            except NotFound:
                continue  # the broker was faster
        listed = await groups.listing(cluster, instance.id)
        for group in listed:
            try:
                await groups.delete(cluster, instance.id, group.name)
            except NotFound:
                continue
        return not found and not listed

    def _finish(self, instance: Instance) -> None:
        state = lifecycle.transition(instance.state, Event.PURGED)
        assert state is not None
        with self._store.write() as connection:
            instances.set_state(connection, instance.id, state, None)
