"""How far consumer groups are behind, asked of the clusters once a minute and in bounds.

Only who holds the office asks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from tenants.backend import groups
from tenants.backend.cluster import Cluster
from tenants.backend.group_lags import GroupLags
from tenants.backend.groups import ListedGroup
from tenants.rules.alarm_figures import LAGS_EVERY_MS, GroupLag, LagSeen
from tenants.rules.errors import Unavailable
from tenants.rules.record_time import Oldest
from tenants.rules.turns import Turns

_log = get_logger(__name__)
GROUPS_OF_INSTANCE_MAX: Final = 20
"""Groups of one instance whose lag is looked at, the first by name."""
GROUPS_MAX: Final = 600
"""Groups that are asked for in one look, over all instances; the others' turn comes with the next looks.
Tenants take turns, and each one's instances among themselves."""
COMMITTED_OF_INSTANCE_MAX: Final = 5_000
"""Committed offsets of one instance that a look asks for, but for the first group's, which are all asked."""
WITHIN_S: Final = 2.0
"""A look waits so long for the ages of an instance's groups, for nobody waits for the look."""
WITHIN_S_MIN: Final = 0.25
"""So long where the tenant's other instances had the rest of its time."""
WAIT_OF_TENANT_S: Final = 10.0
"""Of one look."""
_PAUSE_S: Final = 0.05
"""Between two instances: looks are spread, and pages go first."""


class Asked(NamedTuple):
    """An instance whose lags are wanted."""

    tenant: str
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
        self._turns = Turns()
        self._failing = False

    async def look(self, asked: Mapping[str, Asked]) -> None:
        """Ask for the groups of these instances, as many as one look may."""
        for gone in self.seen.keys() - asked.keys():
            del self.seen[gone]
        look_began_ms = monotonic_ms()
        left = GROUPS_MAX
        waits_s: defaultdict[str, float] = defaultdict(lambda: WAIT_OF_TENANT_S)
        listed: dict[str, dict[str, list[ListedGroup]]] = {}
        failed: set[str] = set()
        """Clusters that did not answer: the last lags of their instances grow old, and are unknown then."""
        came_to: list[str] = []
        for instance_id in self._turns.order({key: one.tenant for key, one in asked.items()}):
            if left <= 0:
                break
            came_to.append(instance_id)
            one = asked[instance_id]
            if one.cluster_id in failed:
                continue
            begun_ms = monotonic_ms()
            try:
                cluster = await self._cluster_of(one.cluster_id)
                if one.cluster_id not in listed:
                    listed[one.cluster_id] = await groups.by_instance(cluster)
                shown = listed[one.cluster_id].get(instance_id, [])[:GROUPS_OF_INSTANCE_MAX]
                within_s = max(WITHIN_S_MIN, min(WITHIN_S, waits_s[one.tenant]))
                await self._take(cluster, instance_id, shown, one, within_s)
            except Unavailable as error:
                failed.add(one.cluster_id)
                if not self._failing:
                    _log.warning("lags cannot be asked for", cluster=one.cluster_id, error=error.detail)
                continue
            waits_s[one.tenant] -= (monotonic_ms() - begun_ms) / 1000
            left -= len(shown)
            await asyncio.sleep(_PAUSE_S if shown else 0)
        looks = self._turns.came_to(came_to)
        for instance_id, seen in self.seen.items():
            seen.every_ms = (LAGS_EVERY_MS + monotonic_ms() - look_began_ms) * looks[
                asked[instance_id].tenant
            ]
        self._failing = bool(failed)

    async def _take(
        self, cluster: Cluster, instance_id: str, shown: list[ListedGroup], asked: Asked, within_s: float
    ) -> None:
        """Raises: Unavailable, though records may be taken by then."""
        behind = await self._lags.behind(cluster, instance_id, shown, COMMITTED_OF_INSTANCE_MAX)
        found = [GroupLag(name, one.records) for name, one in behind.items() if one.is_whole]
        untold = frozenset({one.name for one in shown} - {one.group for one in found})
        seen = self.seen.setdefault(instance_id, LagSeen())
        worst = seen.worst_of(found, untold)
        wanted = [one.group for one in found if asked.wants_seconds]
        if worst is not None and worst.records >= asked.threshold and worst.group not in untold:
            wanted.append(worst.group)
        ages: dict[str, Oldest] = {}
        try:
            if wanted:
                whole = {group: behind[group] for group in wanted}
                ages = await self._lags.ages(cluster, instance_id, whole, within_s)
            if asked.wants_seconds:
                seen.take_ages(ages, untold, epoch_ms())
            else:
                seen.ages = None
        finally:
            # Others look at it meanwhile, so all of a look is taken at once.
            seen.take(found, untold, epoch_ms())
            if seen.worst is not None and (age := ages.get(seen.worst.group)) is not None and age.is_whole:
                seen.worst = seen.worst._replace(seconds=age.seconds)

    def latest(self, now_ms: int) -> dict[str, float]:
        """By instance of which seconds are wanted and were told lately: the largest that is known."""
        return {
            instance_id: seconds
            for instance_id, seen in list(self.seen.items())
            if (seconds := seen.latest(now_ms)) is not None
        }
