"""How far consumer groups are behind, asked of the clusters once a minute and in bounds.

Only who holds the office asks. Lags in seconds belong into `GroupLag.seconds` where somebody tells them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.backend import groups
from tenants.backend.cluster import Cluster
from tenants.rules.alarm_figures import GroupLag, LagSeen
from tenants.rules.errors import Refused
from tenants.store.instances import Place

_log = get_logger(__name__)
LAGS_EVERY_MS: Final = 60_000
GROUPS_OF_INSTANCE_MAX: Final = 20
"""Groups of one instance whose lag is looked at, the first by name."""
GROUPS_MAX: Final = 600
"""Groups that are asked for in one look, over all instances; the others' turn comes with the next looks."""


class Lags:
    """Lags by instance."""

    def __init__(self, cluster_of: Callable[[str], Awaitable[Cluster]]) -> None:
        self.seen: dict[str, LagSeen] = {}
        self._cluster_of = cluster_of
        self._next = ""
        """Whose turn it is: instances take turns by their ids."""
        self._failing = False

    async def look(self, places: Mapping[str, Place]) -> None:
        """Ask for the groups of these instances, as many as one look may."""
        for gone in self.seen.keys() - places.keys():
            del self.seen[gone]
        left = GROUPS_MAX
        listed: dict[str, dict[str, list[str]]] = {}
        ids = sorted(places)
        start = next((at for at, one in enumerate(ids) if one >= self._next), 0)
        for instance_id in (*ids[start:], *ids[:start]):
            if left <= 0:
                self._next = instance_id
                return
            cluster_id = places[instance_id].cluster_id
            try:
                cluster = await self._cluster_of(cluster_id)
                if cluster_id not in listed:
                    listed[cluster_id] = await groups.by_instance(cluster)
                names = listed[cluster_id].get(instance_id, [])[:GROUPS_OF_INSTANCE_MAX]
                left -= len(names)
                found = [await _lag(cluster, instance_id, name) for name in names]
            except Refused as error:
                if not self._failing:
                    _log.warning("lags cannot be asked for", cluster=cluster_id, error=error.detail)
                self._failing = True
                listed.setdefault(cluster_id, {})
                continue  # its last lags grow old, and are unknown then
            self._failing = False
            self.seen.setdefault(instance_id, LagSeen()).take(found, epoch_ms())
            await asyncio.sleep(0)
        self._next = ""


async def _lag(cluster: Cluster, instance_id: str, name: str) -> GroupLag:
    """Raises: Unavailable."""
    behind = 0
    for one in await groups.offsets_of(cluster, instance_id, name):
        if one.log_end_offset is not None:
            behind += max(0, one.log_end_offset - one.committed_offset)
    return GroupLag(name, behind)
