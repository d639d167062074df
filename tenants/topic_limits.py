"""Keeps the limits of instances in the configs of their topics, on clusters whose brokers know no instances.

Whoever creates or alters a topic writes the limits of that moment (`contracts.topic_policy`). When they
change, the topics that are there follow here. How far that came is a row: killed at any moment, it goes on.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from contracts.names import SYSTEM_INSTANCE_ID
from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.backend import topics
from tenants.backend.cluster import Cluster
from tenants.rules.errors import Refused, Unavailable
from tenants.rules.model import Instance
from tenants.rules.written_limits import followed
from tenants.store import written_limits
from tenants.store.engine import Store, StoreFault
from tenants.store.shared_session import Office
from tenants.store.written_limits import Behind
from wire.request_bounds import pieces

_log = get_logger(__name__)
_EVERY_S: Final = 1.0
_INSTANCES_MAX: Final = 50
"""Instances of one pass: who comes later is in the next one."""
_TOPICS_MAX: Final = 100
"""Topics of one request."""
_SETTLED_MS: Final = 5_000
"""Until so long after a change a gateway may go by the limits of before: its topics are looked at again."""
_RETRY_MS: Final = 15_000
"""So long is left alone what could not be done: nobody else is kept waiting by it."""


class TopicLimits:
    """The background task."""

    def __init__(self, store: Store, cluster_of: Callable[[str], Awaitable[Cluster]], office: Office) -> None:
        self._store = store
        self._cluster_of = cluster_of
        self._office = office
        self._refused: dict[str, str] = {}
        """Why instances wait, by id; logged once."""
        self._later_ms: dict[str, int] = {}
        """Until when instances, and clusters that do not answer, are left alone."""

    async def run(self) -> None:
        """Follow changes; for ever."""
        while True:
            if self._office.since_ms is not None:
                with contextlib.suppress(StoreFault):  # requests tell of it
                    await self.step(epoch_ms())
            await asyncio.sleep(_EVERY_S)

    async def step(self, now_ms: int) -> None:
        """One pass. Raises: StoreFault."""
        self._later_ms = {key: at_ms for key, at_ms in self._later_ms.items() if at_ms > now_ms}
        for one in await asyncio.to_thread(self._behind):
            instance = one.instance
            if instance.cluster_id in self._later_ms:
                continue
            try:
                changed = await self._follow(one)
            except Refused as refused:
                self._wait(instance, refused, now_ms)
                continue
            for done in (instance.id, instance.cluster_id):
                self._refused.pop(done, None)
            if changed:
                _log.info("topics follow changed limits", instance=instance.id, topics=changed)
            if now_ms - instance.updated_at_ms >= _SETTLED_MS:
                await asyncio.to_thread(self._keep, one)

    def _wait(self, instance: Instance, refused: Refused, now_ms: int) -> None:
        late = instance.cluster_id if isinstance(refused, Unavailable) else instance.id
        self._later_ms[late] = now_ms + _RETRY_MS
        if self._refused.get(late) != refused.detail:
            self._refused[late] = refused.detail
            _log.warning("topics follow limits later", instance=instance.id, reason=refused.detail)

    def _behind(self) -> list[Behind]:
        with self._store.read() as connection:
            return written_limits.behind(connection, self._later_ms, _INSTANCES_MAX)

    async def _follow(self, one: Behind) -> int:
        """Topics that were changed. Raises: Refused."""
        instance = one.instance
        if instance.id == SYSTEM_INSTANCE_ID:
            return 0  # its topics have configs of their own
        cluster = await self._cluster_of(instance.cluster_id)
        names = [*await cluster.topics(instance.id)]
        changed = 0
        for some in pieces(names, _TOPICS_MAX):
            wanted: dict[str, dict[str, str | None]] = {}
            for name, facts in (await topics.configs(cluster, instance.id, some)).items():
                own = {fact.name: fact.value for fact in facts if not fact.is_default}
                changes = followed(own, instance.limits, one.written)
                if changes:
                    wanted[name] = {**changes}
            if wanted:
                await topics.alter_configs_of(cluster, instance.id, wanted)
                changed += len(wanted)
        return changed

    def _keep(self, one: Behind) -> None:
        with self._store.write() as connection:
            if self._office.holds(connection):
                written_limits.keep(connection, one.instance)
