"""Purging what is deleted: the order when its grace is over, then what is left of it until nothing is.

The built-in broker purges by itself when the feed orders it; this pass works with any cluster, finishes what
a dead broker left undone, and is how the control plane knows that nothing is left. `purge_rule` says when.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from contracts.specs import Engine
from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants import purge_rule
from tenants.backend import groups, topics
from tenants.backend.cluster import Cluster
from tenants.purge_rule import World
from tenants.rules import lifecycle
from tenants.rules.errors import NotFound, Refused
from tenants.rules.lifecycle import Event, State
from tenants.rules.model import Instance
from tenants.shared_ledger import SharedLedger
from tenants.store import alarms, decodings, followers, instances, registry, series, written_limits
from tenants.store.engine import Store, StoreFault, feed_position
from tenants.store.shared_session import Office

_log = get_logger(__name__)
_EVERY_S: Final = 1.0


class Purge:
    """The background task. `started_at_ms` is epoch time; `ordered` is called after an order is committed."""

    def __init__(
        self,
        store: Store,
        gateways: SharedLedger,
        cluster_of: Callable[[str], Awaitable[Cluster]],
        *,
        office: Office,
        ordered: Callable[[], None],
        started_at_ms: int,
    ) -> None:
        self.waiting: dict[str, str] = {}
        """Why the purge of an instance that is due waits; logged once, not every second."""
        self._store = store
        self._gateways = gateways
        self._cluster_of = cluster_of
        self._office = office
        self._ordered = ordered
        self._started_at_ms = started_at_ms

    async def run(self) -> None:
        """Purge what is deleted and due; for ever."""
        while True:
            try:
                begun = await asyncio.to_thread(self._begin)
            except StoreFault:  # requests tell of it
                begun = []
            for instance in begun:
                try:
                    if await self._purge(instance):
                        await asyncio.to_thread(self._finish, instance)
                        self._gateways.forget([instance.id])
                        self.waiting.pop(instance.id, None)
                        _log.info("instance purged", instance=instance.id)
                except Refused as error:
                    self._wait(instance.id, error.detail)
            await asyncio.sleep(_EVERY_S)

    def _wait(self, instance_id: str, reason: str) -> None:
        if self.waiting.get(instance_id) != reason:
            self.waiting[instance_id] = reason
            _log.warning("purge goes on later", instance=instance_id, reason=reason)

    def _begin(self) -> list[Instance]:
        """Order what is due; what was ordered and is heard of by everybody who matters."""
        now_ms = epoch_ms()
        with self._store.read() as connection:
            due = instances.by_ids(connection, instances.due(connection, now_ms))
            ordered = instances.in_states(connection, [State.PURGING])
            world = self._world(connection, now_ms) if due or ordered else None
        for forgotten in self.waiting.keys() - {one.id for one in (*due, *ordered)}:
            del self.waiting[forgotten]
        if world is None:
            return []
        leads = self._office.since_ms is not None
        for instance in due:
            if self._may_go_on(instance, world) and leads:
                self._order(instance, world)
        # who does not hold the office only knows why they wait
        return [one for one in ordered if self._may_go_on(one, world) and leads]

    def _world(self, connection: Any, now_ms: int) -> World:
        return World(
            feed_id=feed_position(connection)[0],
            started_at_ms=max(self._started_at_ms, self._office.since_ms or 0),
            now_ms=now_ms,
            brokers=frozenset(
                (cluster.cluster_id, broker.node_id)
                for cluster in registry.clusters(connection)
                if cluster.engine is Engine.BUILTIN  # others know of no instance, and follow no feed
                for broker in cluster.brokers
            ),
            followers=tuple(followers.all_of(connection)),
        )

    def _may_go_on(self, instance: Instance, world: World) -> bool:
        reason = purge_rule.hindrance(instance, world)
        if reason is None:
            return True
        self._wait(instance.id, reason)
        return False

    def _order(self, instance: Instance, world: World) -> None:
        """From here on it cannot be taken back."""
        with self._store.write() as connection:
            now = instances.by_id(connection, instance.id)
            if now != instance or feed_position(connection)[0] != world.feed_id:
                return  # taken back meanwhile, or the history changed: looked at again soon
            if not self._office.holds(connection):
                return  # another process decides now
            state = lifecycle.transition(now.state, Event.PURGE)
            assert state is not None
            registry.free_endpoints(connection, now.id, world.now_ms)
            instances.save(connection, now.with_(state=state), world.now_ms)
        _log.warning(
            "instance is ordered to be purged", instance=instance.id, deletion=str(instance.deletion)
        )
        self._ordered()

    async def _purge(self, instance: Instance) -> bool:
        """One pass; whether nothing was left when it began."""
        cluster = await self._cluster_of(instance.cluster_id)
        found = await cluster.left_of(instance.id)
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
            now = instances.by_id(connection, instance.id)
            if now is not None and now.revision == instance.revision and self._office.holds(connection):
                instances.set_state(connection, instance.id, state, None)
                alarms.forget_instance(connection, instance.id)
                written_limits.forget_instance(connection, instance.id)
                series.forget_instance(connection, instance.id)
                decodings.forget_instance(connection, instance.id)
