"""How far consumer groups are behind, asked of the clusters once a minute and in bounds.

Only who holds the office asks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.backend import groups
from tenants.backend.cluster import Cluster
from tenants.backend.group_lags import GroupLags
from tenants.backend.groups import ListedGroup
from tenants.rules.alarm_figures import GroupLag, LagSeen
from tenants.rules.errors import Unavailable

_log = get_logger(__name__)
LAGS_EVERY_MS: Final = 60_000
GROUPS_OF_INSTANCE_MAX: Final = 20
"""Groups of one instance whose lag is looked at, the first by name."""
GROUPS_MAX: Final = 600
"""Groups that are asked for in one look, over all instances; the others' turn comes with the next looks."""
COMMITTED_OF_INSTANCE_MAX: Final = 5_000
"""Committed offsets of one instance that a look asks for, but for the first group's, which are all asked."""
_PAUSE_S: Final = 0.05
"""Between two instances: looks are spread, and pages go first."""


class Asked(NamedTuple):
    """An instance whose lags are wanted."""

    cluster_id: str
    threshold: int
    """Records behind from which on seconds of the worst group are wanted, too."""
    wants_seconds: bool = False
    """Of all its groups."""


class Lags:
    """Lags by instance."""

    def __init__(self, cluster_of: Callable[[str], Awaitable[Cluster]], lags: GroupLags) -> None:
        self.seen: dict[str, LagSeen] = {}
        self._cluster_of = cluster_of
        self._lags = lags
        self._next = ""
        """Whose turn it is: instances take turns by their ids."""
        self._failing = False

    async def look(self, asked: Mapping[str, Asked]) -> None:
        """Ask for the groups of these instances, as many as one look may."""
        for gone in self.seen.keys() - asked.keys():
            del self.seen[gone]
        left = GROUPS_MAX
        listed: dict[str, dict[str, list[ListedGroup]]] = {}
        failed: set[str] = set()
        """Clusters that did not answer: the last lags of their instances grow old, and are unknown then."""
        ids = sorted(asked)
        start = next((at for at, one in enumerate(ids) if one >= self._next), 0)
        self._next = ""
        for instance_id in (*ids[start:], *ids[:start]):
            if left <= 0:
                self._next = instance_id
                break
            one = asked[instance_id]
            if one.cluster_id in failed:
                continue
            try:
                cluster = await self._cluster_of(one.cluster_id)
                if one.cluster_id not in listed:
                    listed[one.cluster_id] = await groups.by_instance(cluster)
                shown = listed[one.cluster_id].get(instance_id, [])[:GROUPS_OF_INSTANCE_MAX]
                await self._take(cluster, instance_id, shown, one)
            except Unavailable as error:
                failed.add(one.cluster_id)
                if not self._failing:
                    _log.warning("lags cannot be asked for", cluster=one.cluster_id, error=error.detail)
                continue
            left -= len(shown)
            await asyncio.sleep(_PAUSE_S if shown else 0)
        self._failing = bool(failed)

    async def _take(self, cluster: Cluster, instance_id: str, shown: list[ListedGroup], asked: Asked) -> None:
        """Raises: Unavailable."""
        behind = await self._lags.behind(cluster, instance_id, shown, COMMITTED_OF_INSTANCE_MAX)
        found = [GroupLag(name, one.records) for name, one in behind.items() if one.is_whole]
        seen = self.seen.setdefault(instance_id, LagSeen())
        untold = {one.name for one in shown} - {one.group for one in found}
        seen.take(found, frozenset(untold), epoch_ms())
        seen.ages = None
        if asked.wants_seconds:
            whole = {one.group: behind[one.group] for one in found}
            ages = await self._lags.ages(cluster, instance_id, whole)
            seen.ages = dict.fromkeys(untold) | ages
        worst = seen.worst
        if worst is not None and worst.records >= asked.threshold and worst.group not in untold:
            one_age = await self._lags.ages(cluster, instance_id, {worst.group: behind[worst.group]})
            seen.worst = worst._replace(seconds=one_age[worst.group])

    def latest(self, now_ms: int) -> dict[str, float]:
        """By instance of which seconds are wanted and were told lately: the largest that is known."""
        return {
            instance_id: max(known)
            for instance_id, seen in list(self.seen.items())
            if seen.at_ms is not None
            and now_ms - seen.at_ms <= 3 * LAGS_EVERY_MS
            and (known := [age for age in (seen.ages or {}).values() if age is not None])
        }
