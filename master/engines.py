"""Clusters whose own quotas limit instances: surveyed, and their client quotas set to the leases (ADR 0044).

One task per Apache Kafka, beside the service of a term. A thin shell: `quota/stand_ins.py` and
`quota/client_quotas.py` decide. A cluster that does not answer, or refuses, costs leases, nothing else: its
gateways limit instances themselves meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from contracts.names import owner_of
from contracts.specs import Engine
from master.kafka_survey import KafkaCluster, Partitions, QuotasRefused, chunks, led_by_node
from master.metering import Specs
from master.quota.client_quotas import SetQuotas, backstop, leftovers
from master.quota.stand_ins import Led
from master.service import MasterService
from runtime.clock import monotonic_ms
from runtime.kafka_client import KafkaUnavailable
from runtime.logs import get_logger
from runtime.tasks import Supervised
from runtime.upstream import Upstreams

_log = get_logger(__name__)
_LOOK_S: Final = 0.2
_SURVEY_PART: Final = 10
"""Of its time a survey of a cluster takes a tenth at most: the loop is others', too."""
_SIZES_PARTITIONS: Final = 300
_REFUSED_WAIT_MS: Final = 15_000
_DESCRIBE_EVERY_MS: Final = 300_000
"""So often is asked what is set: somebody may have changed it."""
_TRUST_MS: Final = 30_000


def led_of_instances(partitions: Partitions, sizes: Mapping[tuple[str, int], int]) -> Led:
    """Instance -> node -> (partitions led, bytes of their logs). What nobody leads is left out."""
    led: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, leaders in partitions.items():
        instance_id = owner_of(topic)
        assert instance_id is not None, "others are left out"
        by_node = led.setdefault(instance_id, {})
        for number, node_id in leaders.items():
            if node_id < 0:
                continue
            count, size = by_node.get(node_id, (0, 0))
            by_node[node_id] = count + 1, size + sizes.get((topic, number), 0)
    return led


class ApacheEngine:
    """One cluster."""

    def __init__(
        self,
        cluster_id: str,
        specs: Specs,
        service: MasterService,
        upstreams: Upstreams,
        now_ms: Callable[[], int],
    ) -> None:
        self.cluster_id = cluster_id
        self.quotas = service.engines.setdefault(cluster_id, SetQuotas())
        self._specs = specs
        self._service = service
        self._now_ms = now_ms
        self._cluster = KafkaCluster(upstreams)
        self._sizes: dict[tuple[str, int], int] = {}
        self._with_topics: frozenset[str] = frozenset()
        self._surveyed_ms: int | None = None
        self._survey_due_ms = 0
        self._described_ms: int | None = None
        self._refused_until_ms = 0

    async def run(self) -> None:
        """Period after period, for ever."""
        period_s = self._service.settings.period_ms / 1000
        try:
            while True:
                begun_ms = self._now_ms()
                await self._period()
                await asyncio.sleep(max(_LOOK_S, period_s - (self._now_ms() - begun_ms) / 1000))
        finally:
            self._cluster.close()

    async def _period(self) -> None:
        spec = self._specs.clusters.get(self.cluster_id)
        if spec is None or spec.kafka_cluster_id is None:
            return  # it was not met yet
        self._cluster.follow(spec)
        try:
            if self._now_ms() >= self._survey_due_ms:
                await self._survey([one.node_id for one in spec.brokers])
            self._service.await_stand_ins(self.cluster_id)
            if self._now_ms() >= self._refused_until_ms:
                await self._set_quotas([one.node_id for one in spec.brokers])
                self._tell(None)
        except KafkaUnavailable as error:
            self._described_ms = None
            self._tell(f"does not answer the quota master: {error}")
        except QuotasRefused as refused:
            self._refused_until_ms = self._now_ms() + _REFUSED_WAIT_MS
            self._tell(str(refused))

    def _tell(self, trouble: str | None) -> None:
        if trouble != self.quotas.trouble:
            told = _log.info if trouble is None else _log.warning
            told("client quotas", cluster=self.cluster_id, state=trouble or "follow the leases")
        self.quotas.trouble = trouble

    # -- what is led and stored ----------------------------------------------------------------------------

    async def _survey(self, nodes: list[int]) -> None:
        """Raises: KafkaUnavailable when nobody answers. A broker that does not tell sizes keeps its last."""
        begun_ms = self._now_ms()
        partitions = await self._cluster.leaders()
        by_node = led_by_node(partitions)
        sizes: dict[tuple[str, int], int] = {}
        for node_id in nodes:
            for piece in chunks(by_node.get(node_id, {}), _SIZES_PARTITIONS):
                try:
                    sizes |= await self._cluster.sizes(node_id, piece)
                except KafkaUnavailable:
                    break
        keys = {(topic, number) for topic, leaders in partitions.items() for number in leaders}
        self._sizes = {key: size for key, size in {**self._sizes, **sizes}.items() if key in keys}
        led = led_of_instances(partitions, self._sizes)
        self._with_topics = frozenset(led)
        specs = self._specs.instances
        copies = {each for each in led if each in specs and specs[each].cluster_id != self.cluster_id}
        led = {each: by_node for each, by_node in led.items() if each not in copies}  # theirs are elsewhere
        now_ms = self._now_ms()
        self._service.stand_ins.survey(self.cluster_id, nodes, led, now_ms)
        self._surveyed_ms = now_ms
        period_ms = self._service.settings.period_ms
        self._survey_due_ms = begun_ms + max(period_ms, _SURVEY_PART * (now_ms - begun_ms))

    # -- quotas --------------------------------------------------------------------------------------------

    async def _set_quotas(self, nodes: list[int]) -> None:
        """Raises: KafkaUnavailable, QuotasRefused."""
        now_ms = self._now_ms()
        if self._described_ms is None or now_ms - self._described_ms >= _DESCRIBE_EVERY_MS:
            self.quotas.learn(await self._cluster.quotas())
            self._described_ms = now_ms
        specs = self._specs.instances
        shares = self._service.stand_ins.shares(self.cluster_id, specs)
        wanted = {entity: backstop(rates) for entity, rates in shares.items()}
        served = {each for each, spec in specs.items() if not spec.state.is_gone}
        due = self.quotas.due(wanted, now_ms)
        due += leftovers(self.quotas.known, served, self._with_topics, nodes)
        if due:
            await self._cluster.alter(due)
            for change in due:
                self.quotas.done(change, now_ms)
        self.quotas.trust(now_ms + _TRUST_MS)


class Engines:
    """All clusters of one term of the master."""

    def __init__(
        self,
        specs: Specs,
        service: MasterService,
        upstreams: Upstreams,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._specs = specs
        self._service = service
        self._upstreams = upstreams
        self._now_ms = now_ms

    async def run(self) -> None:
        """Until cancelled."""
        tasks, known = Supervised(), set[str]()
        try:
            while True:
                for cluster_id, spec in self._specs.clusters.items():
                    if spec.engine is Engine.APACHE and cluster_id not in known:
                        known.add(cluster_id)
                        engine = ApacheEngine(
                            cluster_id, self._specs, self._service, self._upstreams, self._now_ms
                        )
                        tasks.spawn(f"quotas of {cluster_id}", engine.run)
                await asyncio.sleep(1.0)
        finally:
            await tasks.aclose()
