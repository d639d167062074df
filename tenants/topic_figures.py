"""How fast topics grow and how large they are, asked of the clusters once a minute and in bounds.

Only who holds the office asks, and only about instances that produced since the last look; of the others
nothing grows. Which topics there are is read every five minutes, and when one that
produces has none yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from contracts.names import owner_of, tenant_name
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from tenants.backend import topics
from tenants.backend.cluster import Cluster
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Unavailable
from tenants.rules.series_figures import TopicFigure
from tenants.rules.turns import Turns
from tenants.store import instances
from tenants.store.engine import Store, StoreFault
from tenants.store.instances import Place
from tenants.store.shared_session import Office

_log = get_logger(__name__)
_EVERY_S: Final = 60.0
_FIRST_S: Final = 20.0
_LIST_EVERY: Final = 5
"""Looks from one listing of topics to the next."""
PARTITIONS_OF_INSTANCE_MAX: Final = 500
"""Partitions of one instance that a look asks about, of the first topics by name."""
PARTITIONS_MAX: Final = 10_000
"""Of one look, over all instances; the others' turn comes with the next. Tenants take turns."""
_PAUSE_S: Final = 0.05
_DECAY: Final = 0.8
"""Of what a topic counts for from look to look: who is among the busiest does not change each minute."""


@dataclass(slots=True)
class _Seen:
    """What is known of an instance's topics."""

    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    """By topic, the sum of its partitions' log ends."""
    weights: dict[str, float] = field(default_factory=dict)
    figures: dict[str, TopicFigure] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    at_ms: int | None = None
    """Monotonic: when its log ends were asked for."""
    told_ms: int = 0
    """Epoch: when the figures were true last."""


class TopicFigures:
    """Figures by instance, and the background task that asks for them."""

    def __init__(self, store: Store, cluster_of: Callable[[str], Awaitable[Cluster]], office: Office) -> None:
        self._store = store
        self._cluster_of = cluster_of
        self._office = office
        self._seen: dict[str, _Seen] = {}
        self._busy: set[str] = set()
        self._turns = Turns()
        self._looks = 0
        self._failing = False

    def busy(self, instance_ids: Iterable[str]) -> None:
        """These produce."""
        self._busy.update(instance_ids)

    def of(self, instance_id: str, now_ms: int) -> tuple[Mapping[str, TopicFigure], list[str]]:
        """What was told lately (epoch time), and its names, the busiest first."""
        seen = self._seen.get(instance_id)
        if seen is None or now_ms - seen.told_ms > 5 * _EVERY_S * 1000:
            return {}, []
        return seen.figures, seen.order

    async def run(self) -> None:
        """Look for ever."""
        every_s = _FIRST_S
        while True:
            await asyncio.sleep(every_s)
            every_s = _EVERY_S
            if self._office.since_ms is None:
                self._seen = {}
                continue
            try:
                places = await asyncio.to_thread(self._places)
            except StoreFault:  # others tell of it
                continue
            try:
                await self.look(places)
            except Exception:  # noqa: BLE001 - a look that fails must not be the last
                _log.exception("a look at topics failed")

    def _places(self) -> dict[str, Place]:
        with self._store.read() as connection:
            return instances.places(connection)

    async def look(self, places: Mapping[str, Place]) -> None:
        """Ask about the topics of these instances, as many as one look may."""
        for gone in self._seen.keys() - places.keys():
            del self._seen[gone]
        busy, self._busy = self._busy, set()
        is_new = any(key in places and not self._known(key) for key in busy)
        lists = self._looks % _LIST_EVERY == 0 or is_new
        self._looks += 1
        failed: set[str] = set()
        if lists:
            for cluster_id in {one.cluster_id for one in places.values()}:
                await self._list(cluster_id, places, failed)
        left, came_to = PARTITIONS_MAX, list[str]()
        for instance_id in self._turns.order({key: one.tenant for key, one in places.items()}):
            if left <= 0:
                break
            came_to.append(instance_id)
            seen = self._seen.get(instance_id)
            if seen is None or places[instance_id].cluster_id in failed:
                continue
            if instance_id not in busy and not lists and seen.at_ms is not None:
                _rest(seen)
                continue
            left -= len(seen.leaders)
            try:
                await self._ask(await self._cluster_of(places[instance_id].cluster_id), instance_id, seen)
            except Unavailable as error:
                failed.add(places[instance_id].cluster_id)
                self._warn(places[instance_id].cluster_id, error)
                continue
            await asyncio.sleep(_PAUSE_S)
        self._turns.came_to(came_to)
        self._failing = bool(failed)

    def _known(self, instance_id: str) -> bool:
        return instance_id in self._seen and bool(self._seen[instance_id].leaders)

    def _warn(self, cluster_id: str, error: Unavailable) -> None:
        if not self._failing:
            _log.warning("topics cannot be asked about", cluster=cluster_id, error=error.detail)
        self._failing = True

    async def _list(self, cluster_id: str, places: Mapping[str, Place], failed: set[str]) -> None:
        try:
            metadata = await (await self._cluster_of(cluster_id)).metadata(None)
        except Unavailable as error:
            failed.add(cluster_id)
            self._warn(cluster_id, error)
            return
        leaders: dict[str, dict[TopicPartition, int]] = {
            key: {} for key, place in places.items() if place.cluster_id == cluster_id
        }
        for topic in sorted(metadata.topics, key=lambda one: one.name or ""):
            its = owner_of(topic.name or "")
            if its is None or (found := leaders.get(its)) is None:
                continue
            if len(found) + len(topic.partitions) <= PARTITIONS_OF_INSTANCE_MAX:
                name = tenant_name(its, topic.name or "") or ""
                found |= {(name, int(one.partition_index)): int(one.leader_id) for one in topic.partitions}
        for key, found in leaders.items():
            self._seen.setdefault(key, _Seen()).leaders = found

    async def _ask(self, cluster: Cluster, instance_id: str, seen: _Seen) -> None:
        """Raises: Unavailable."""
        now_ms = monotonic_ms()
        ends, sizes = await asyncio.gather(
            topics.offsets(cluster, instance_id, seen.leaders),
            topics.log_sizes(cluster, instance_id, list(seen.leaders)),
        )
        _take(seen, ends, sizes, now_ms)


def _take(
    seen: _Seen, ends: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, int], now_ms: int
) -> None:
    """Take what leaders and disks said. A topic one of whose leaders did not answer keeps its end."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for key in seen.leaders:
        by_topic.setdefault(key[0], []).append(key)
    elapsed_ms = None if seen.at_ms is None else max(1, now_ms - seen.at_ms)
    before, seen.ends, figures = seen.ends, {}, {}
    weights: dict[str, float] = {}
    for name, keys in by_topic.items():
        whole = all(key in ends for key in keys)
        rate = None
        if whole:
            seen.ends[name] = sum(ends[key] for key in keys)
            if elapsed_ms is not None and name in before:
                rate = max(0, seen.ends[name] - before[name]) * 1000 // elapsed_ms
        stored = [sizes[key] for key in keys if key in sizes]
        figures[name] = TopicFigure(rate, sum(stored) if stored else None)
        weights[name] = _DECAY * seen.weights.get(name, 0.0) + (rate or 0)
    seen.figures, seen.weights, seen.at_ms, seen.told_ms = figures, weights, now_ms, epoch_ms()
    seen.order = sorted(figures, key=lambda name: (-weights[name], -(figures[name].stored_bytes or 0), name))


def _rest(seen: _Seen) -> None:
    """Nothing was produced since: nothing grew."""
    seen.figures = {name: one._replace(records_per_s=0) for name, one in seen.figures.items()}
    seen.at_ms, seen.told_ms = monotonic_ms(), epoch_ms()
