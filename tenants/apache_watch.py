"""Where the brokers of each Apache Kafka are: looked at every few seconds, and registered like ours."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.response import MetadataResponse
from kio.static.primitive import i8
from msgspec import structs

from contracts.specs import BrokerAddress
from contracts.upstream import ClusterTrouble
from runtime.clock import epoch_ms, monotonic_ms
from runtime.config import parse_host_port
from runtime.kafka_client import KafkaUnavailable
from runtime.logs import get_logger
from runtime.upstream import Upstream, Upstreams
from tenants.backend.cluster import Address, ConnectionPool, metadata_request
from tenants.rules.cluster_health import Illness
from tenants.store import registry
from tenants.store.engine import Store, StoreFault
from tenants.store.registry import Apache
from tenants.usecases.placement import Placement
from wire.login import stranger

_log = get_logger(__name__)
_EVERY_S: Final = 2.0
_TIMEOUT_S: Final = 3.0
BROKERS_MAX: Final = 64
"""Brokers of one Apache Kafka: each takes a vport of every instance."""
_ID_CHARACTERS_MAX: Final = 64
_HOST_CHARACTERS_MAX: Final = 255
_BROKER: Final = i8(4)
_AUTO_CREATE: Final = "auto.create.topics.enable"
_LISTS_BY_NAME: Final = 75
"""DescribeTopicPartitions, since 3.8: an instance's topics are found without reading everybody's."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a cluster."""

    trouble: str | None
    """Why it cannot be used now, or only in part; None: nothing is wrong."""
    cause: ClusterTrouble | None = None
    """Of a trouble by which it cannot be used at all."""
    brokers: tuple[BrokerAddress, ...] = ()
    """Those that it says are there."""
    at_ms: int = 0
    """Monotonic, of the last answer."""


class _Unusable(Exception):  # noqa: N818 - a verdict
    """The cluster cannot be used; the sentence says why."""

    def __init__(self, says: str, cause: ClusterTrouble = ClusterTrouble.UNUSABLE) -> None:
        super().__init__(says)
        self.cause = cause


def brokers_of(answer: MetadataResponse) -> tuple[BrokerAddress, ...]:
    """The brokers that Metadata names. Raises: ValueError when no cluster would say so."""
    found = tuple(
        BrokerAddress(node_id=int(one.node_id), host=str(one.host), port=int(one.port))
        for one in answer.brokers
    )
    if not 1 <= len(found) <= BROKERS_MAX:
        raise ValueError(f"it names {len(found)} brokers, not 1 to {BROKERS_MAX}")
    for one in found:
        if one.node_id < 0 or not 0 < one.port < 65536 or not 0 < len(one.host) <= _HOST_CHARACTERS_MAX:
            raise ValueError(f"it names a broker {one.node_id} at {one.host[:80]!r}:{one.port}")
    if len({one.node_id for one in found}) < len(found):
        raise ValueError("it names a broker twice")
    return found


class ApacheWatch:
    """The background task. `registered` is called after a change of brokers was committed."""

    def __init__(
        self,
        store: Store,
        upstreams: Upstreams,
        placement: Placement,
        registered: Callable[[], None],
    ) -> None:
        self.seen: dict[str, Seen] = {}
        """The last look at each cluster, by its id; replaced, never changed."""
        self._store = store
        self._pool = ConnectionPool(None)
        self._call = partial(self._pool.call, read_only=True, timeout_s=_TIMEOUT_S)
        self._upstreams = upstreams
        self._placement = placement
        self._registered = registered
        self._fit: set[str] = set()
        """Clusters whose versions and settings were looked at since this process started."""

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def live(self) -> int:
        """Brokers of all clusters that are there now."""
        return sum(len(one.brokers) for one in self.seen.values() if one.trouble is None)

    def unreachable(self) -> frozenset[str]:
        """Clusters on which nothing new could live now."""
        seen = dict(self.seen)
        return frozenset(name for name, one in seen.items() if one.cause is not None)

    def illness(self, cluster_id: str) -> Illness | None:
        """Why a cluster cannot be used, as the last look says."""
        seen = self.seen.get(cluster_id)
        if seen is None or seen.cause is None:
            return None
        return Illness(seen.cause, seen.trouble or "")

    async def run(self) -> None:
        """Look at every cluster again and again, for ever."""
        while True:
            with contextlib.suppress(StoreFault):  # requests tell of it
                await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Look at every cluster once. Raises: StoreFault."""
        clusters = await asyncio.to_thread(self._clusters)
        for gone in self.seen.keys() - {each.spec.cluster_id for each in clusters}:
            del self.seen[gone]
            self._fit.discard(gone)
        await asyncio.gather(*(self._look(each) for each in clusters))

    def _clusters(self) -> list[Apache]:
        with self._store.read() as connection:
            return registry.apaches(connection)

    async def _look(self, kept: Apache) -> None:
        before = self.seen.get(kept.spec.cluster_id, Seen(None))
        try:
            seen = await self._seen(kept)
        except _Unusable as error:
            seen = Seen(str(error), error.cause, at_ms=before.at_ms)
        if seen.trouble != before.trouble:
            told = _log.info if seen.trouble is None else _log.warning
            told("Apache Kafka", cluster=kept.spec.cluster_id, state=seen.trouble or "answers")
        self.seen[kept.spec.cluster_id] = seen

    async def _seen(self, kept: Apache) -> Seen:
        """Raises: _Unusable, StoreFault."""
        address, answer = await self._metadata(kept)
        told = answer.cluster_id
        if not told or len(told) > _ID_CHARACTERS_MAX:
            raise _Unusable("it does not say which cluster it is: is it an Apache Kafka?")
        fault = stranger(told, kept.kafka_cluster_id)
        if fault is not None:
            raise _Unusable(f"it {fault}", ClusterTrouble.STRANGER)
        try:
            brokers = brokers_of(answer)
        except ValueError as error:
            raise _Unusable(f"its answer makes no sense: {error}") from error
        if (same := await asyncio.to_thread(self._same, kept, told)) is not None:
            raise _Unusable(f"it is cluster '{same}', which is registered already")
        if kept.spec.cluster_id not in self._fit:
            await self._look_closer(kept, address, str(brokers[0].node_id))
            self._fit.add(kept.spec.cluster_id)
        if await asyncio.to_thread(self._register, kept, told, brokers):
            self._registered()
        missing = {one.node_id for one in kept.spec.brokers} - {one.node_id for one in brokers}
        absent = f"broker {', '.join(map(str, sorted(missing)))} is not there" if missing else None
        return Seen(absent, None, brokers, monotonic_ms())

    async def _metadata(self, kept: Apache) -> tuple[Address, MetadataResponse]:
        """Whoever answers first, of those seen last and those that operators named. Raises: _Unusable."""
        known = [(one.host, one.port) for one in kept.spec.brokers]
        failure: KafkaUnavailable | None = None
        upstream = self._upstream(kept)
        for address in dict.fromkeys([*known, *addresses(kept.bootstrap)]):
            try:
                return address, await self._call(address, metadata_request(()), upstream=upstream)
            except KafkaUnavailable as error:
                failure = error
        cause = ClusterTrouble.UNREACHABLE if failure is None else failure.trouble
        raise _Unusable(f"no broker answers: {failure or 'none is named'}", cause)

    def _upstream(self, kept: Apache) -> Upstream | None:
        """Whichever cluster answers: that is judged here."""
        return self._upstreams.of(structs.replace(kept.spec, kafka_cluster_id=None))

    async def _look_closer(self, kept: Apache, address: Address, node_id: str) -> None:
        """Raises: _Unusable when instances could not live there."""
        upstream = self._upstream(kept)
        try:
            versions = await self._call(address, ApiVersionsRequest(), upstream=upstream)
            if _LISTS_BY_NAME not in {int(one.api_key) for one in versions.api_keys}:
                raise _Unusable("it is older than Apache Kafka 3.9, or runs on ZooKeeper: neither is served")
            resource = DescribeConfigsResource(
                resource_type=_BROKER, resource_name=node_id, configuration_keys=(_AUTO_CREATE,)
            )
            request = DescribeConfigsRequest(resources=(resource,), include_synonyms=False)
            [result] = (await self._call(address, request, upstream=upstream)).results
        except (KafkaUnavailable, ValueError) as error:
            cause = error.trouble if isinstance(error, KafkaUnavailable) else ClusterTrouble.UNUSABLE
            raise _Unusable(f"no broker answers: {error}", cause) from error
        if result.error_code is not ErrorCode.none:
            raise _Unusable(f"its settings cannot be read: {result.error_code.name.upper()}")
        if any(one.name == _AUTO_CREATE and one.value != "false" for one in result.configs):
            raise _Unusable(
                f"its brokers make topics that are asked for: set {_AUTO_CREATE}=false, since tenants of old "
                "clients would make topics beyond their limits"
            )

    def _same(self, kept: Apache, kafka_cluster_id: str) -> str | None:
        """Another name under which the cluster was met before."""
        if kept.kafka_cluster_id is not None:
            return None
        ids = {one.kafka_cluster_id: one.spec.cluster_id for one in self._clusters()}
        return ids.get(kafka_cluster_id)

    def _register(self, kept: Apache, kafka_cluster_id: str, brokers: Sequence[BrokerAddress]) -> bool:
        """Whether anything changed. Brokers that are away stay registered: their vports are theirs."""
        if kept.kafka_cluster_id == kafka_cluster_id and set(brokers) <= set(kept.spec.brokers):
            return False
        now_ms = epoch_ms()
        with self._store.write() as connection:
            registry.set_kafka_cluster_id(connection, kept.spec.cluster_id, kafka_cluster_id)
            changed = [
                self._placement.register_broker(connection, kept.spec.cluster_id, one, now_ms)
                for one in brokers
            ]
        for one in brokers:
            _log.info("broker registered", cluster=kept.spec.cluster_id, node=one.node_id, host=one.host)
        return any(changed)


def addresses(bootstrap: str) -> list[Address]:
    """Of HOST:PORT,... as it was checked when it was named."""
    return [parse_host_port(text) for text in bootstrap.split(",") if text]
