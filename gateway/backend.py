"""A worker's own view of one cluster: where its brokers are, what they serve, and a connection to ask them.

Control requests only: nothing of a client's traffic passes here.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Any, Final, cast
from uuid import UUID

from kio.schema.api_versions.v3 import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v4 import MetadataRequest
from kio.schema.metadata.v4.request import MetadataRequestTopic
from kio.schema.metadata.v12 import MetadataRequest as MetadataById
from kio.schema.metadata.v12.request import MetadataRequestTopic as TopicById
from kio.schema.types import TopicName
from kio.static.protocol import Payload

from contracts.names import physical_name, tenant_name
from contracts.specs import BrokerAddress, ClusterSpec, Engine
from gateway.opening import Door
from gateway.session.surroundings import VersionsKey
from runtime import kafka_listing
from runtime.kafka_client import KafkaConnection, KafkaRefused, KafkaUnavailable
from runtime.logs import get_logger
from runtime.network import KERNEL_NETWORK, Network
from runtime.upstream import Upstreams
from wire.api_table import Served, version_range
from wire.messages import CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsResponse

_log = get_logger(__name__)
_CREATE_TOPICS: Final = 19
_CREATE_PARTITIONS: Final = 37
_LOOKS_MAX: Final = 40
_LOOK_S: Final = 0.05
_ASK_VERSIONS: Final = ApiVersionsRequest(client_software_name="portico-gateway", client_software_version="1")


class Backend:
    """One cluster."""

    def __init__(
        self,
        spec: ClusterSpec,
        secret: str | None,
        upstreams: Upstreams,
        network: Network = KERNEL_NETWORK,
    ) -> None:
        self._network = network
        self._upstreams = upstreams
        self._deployment_secret = secret
        self._connections: dict[int, KafkaConnection] = {}
        self._opening: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One caller at a time opens a broker's connection; the others find it open."""
        self._versions: dict[int, Served] = {}
        self._resolved: dict[str, str] = {}
        self._unknown: set[str] = set()
        """Host names that were looked up in vain."""
        self._turn = 0
        self.encoded_versions: dict[VersionsKey, bytes] = {}
        """ApiVersions response bodies: every connection asks for one first."""
        self.trouble: KafkaUnavailable | None = None
        """Why a cluster that is not ours could not be used at the last look."""
        self.spec = spec

    @property
    def _secret(self) -> str | None:
        """What we log in with; None: the brokers are somebody else's, or ask for nothing."""
        return self._deployment_secret if self.spec.engine is Engine.BUILTIN else None

    @property
    def knows_instances(self) -> bool:
        """Whether we log in for instances, so that the brokers know who pays."""
        return self._secret is not None

    def apply(self, spec: ClusterSpec) -> None:
        """Take a revision: what was learned of brokers that moved is forgotten."""
        old = {broker.node_id: broker for broker in self.spec.brokers}
        new = {broker.node_id: broker for broker in spec.brokers}
        for node_id in old:
            if new.get(node_id) != old[node_id]:
                self._forget(node_id)
        self.spec = spec
        kept = {broker.host for broker in spec.brokers}
        self._resolved = {host: known for host, known in self._resolved.items() if host in kept}
        self._unknown &= kept

    def _forget(self, node_id: int) -> None:
        self._versions.pop(node_id, None)
        self.encoded_versions.clear()
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()

    async def look(self) -> None:
        """See whether a cluster that is not ours lets us in now, by new connections as clients cause them."""
        found: KafkaUnavailable | None = None
        is_entered = False
        for broker in self.spec.brokers if self.spec.engine is Engine.APACHE else ():
            try:
                (await self._opened(broker.node_id)).close()
            except KafkaRefused as refused:
                self.trouble = refused
                return
            except KafkaUnavailable as error:
                found = error
            else:
                is_entered = True
        self.trouble = None if is_entered else found

    async def resolve(self) -> None:
        """Look up the brokers' host names, so that the data path connects to numbers without waiting. One
        that is not known now (its machine is gone, the name server is) keeps its last address."""
        loop = asyncio.get_running_loop()
        for host in {broker.host for broker in self.spec.brokers if _numeric(broker.host) is None}:
            try:
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as error:
                if host not in self._unknown:
                    _log.warning("a broker's name is not known", host=host, error=str(error))
                    self._unknown.add(host)
                continue
            self._unknown.discard(host)
            self._resolved[host] = str(found[0][4][0])

    def address(self, node_id: int | None) -> tuple[str, int] | None:
        """Where to connect for a listener of this node, or for a bootstrap listener, which takes turns."""
        brokers = self.spec.brokers
        if node_id is None:
            for _ in brokers:
                self._turn = (self._turn + 1) % len(brokers)
                if reached := self._reached(brokers[self._turn]):
                    return reached
        for broker in brokers:
            if broker.node_id == node_id:
                return self._reached(broker)
        return None

    def door(self, address: tuple[str, int]) -> Door | None:
        """What is asked for at a broker's address; None: it is ours."""
        upstream = self._upstreams.of(self.spec)
        if upstream is None:
            return None
        names = (one.host for one in self.spec.brokers if self._reached(one) == address)
        return Door(upstream, address, next(names, address[0]))

    def node(self, node_id: int | None) -> int | None:
        """Which broker a listener is for; None: for all. One whose broker is not of this cluster is left from
        another one, where the instance was: clients that know no other address get in there."""
        return node_id if any(one.node_id == node_id for one in self.spec.brokers) else None

    def next_node(self) -> int | None:
        """Whose turn it is at a bootstrap listener; None: no broker is known."""
        brokers = self.spec.brokers
        self._turn = (self._turn + 1) % max(1, len(brokers))
        return brokers[self._turn].node_id if brokers else None

    def _reached(self, broker: BrokerAddress) -> tuple[str, int] | None:
        """A broker's numeric address; None: its name is not known (yet)."""
        host = self._resolved.get(broker.host) or _numeric(broker.host)
        return None if host is None else (host, broker.port)

    def known_versions(self, node_id: int | None) -> Served | None:
        """What a broker serves, when it has been asked already; for the bootstrap listener, what all do."""
        nodes = [broker.node_id for broker in self.spec.brokers] if node_id is None else [node_id]
        known = [self._versions[node] for node in nodes if node in self._versions]
        if not known or (node_id is None and len(known) < len(nodes)):
            return None
        return self._told(node_id, known)

    def doubt_versions(self, node_id: int | None) -> None:
        """A broker has closed a connection: the one that comes back may be another."""
        for node in self._versions.keys() & ({node_id} if node_id is not None else self._versions.keys()):
            del self._versions[node]
        self.encoded_versions.clear()

    async def versions(self, node_id: int | None) -> Served:
        """What a broker serves, asked once. Raises: KafkaUnavailable when none of them answers."""
        nodes = [broker.node_id for broker in self.spec.brokers] if node_id is None else [node_id]
        failure = KafkaUnavailable("the cluster has no brokers")
        for node in nodes:
            if node in self._versions:
                continue
            try:
                answer = await self.call(node, _ASK_VERSIONS)
            except KafkaUnavailable as error:
                failure = error
                continue
            apis = {
                int(api.api_key): version_range(int(api.min_version), int(api.max_version))
                for api in answer.api_keys
            }
            levels = {each.name: int(each.max_version_level) for each in answer.finalized_features}
            self._versions[node] = Served(apis, levels)
            self.encoded_versions.clear()
        known = [self._versions[node] for node in nodes if node in self._versions]
        if not known:
            raise failure
        return self._told(node_id, known)

    def _told(self, node_id: int | None, known: list[Served]) -> Served:
        """Of one broker its APIs, and features as all have them that were asked: while brokers are exchanged
        a transaction has to do with several."""
        common = _common(known)
        if node_id is None:
            return common
        return common._replace(features=_common(list(self._versions.values())).features)

    async def call(self, node_id: int, request: Payload) -> Any:
        """Ask one broker. Raises: KafkaUnavailable."""
        async with self._opening[node_id]:
            connection = await self._connection(node_id)
        return await connection.call(request)

    async def _connection(self, node_id: int) -> KafkaConnection:
        connection = self._connections.get(node_id)
        if connection is None or connection.is_closed:
            connection = self._connections[node_id] = await self._opened(node_id)
        return connection

    async def _opened(self, node_id: int) -> KafkaConnection:
        address = self.address(node_id)
        if address is None:
            raise KafkaUnavailable(f"broker {node_id} is not known, or its name is not")
        door = self.door(address)
        return await KafkaConnection.open(
            *address,
            secret=self._secret,
            client_id="portico-gateway",
            upstream=None if door is None else door.upstream,
            server_name=None if door is None else door.server_name,
            network=self._network,
        )

    async def ask_any(self, request: Payload) -> Any:
        """Ask whichever broker answers first in turn. Raises: KafkaUnavailable when none does."""
        failure = KafkaUnavailable("the cluster has no brokers")
        for broker in self.spec.brokers:
            try:
                return await self.call(broker.node_id, request)
            except KafkaUnavailable as error:
                failure = error
        raise failure

    async def _ask_as(self, instance_id: str, request: Payload) -> Any:
        """Ask for an instance, which pays for it and is told of nothing but its own: what others have would
        hold our loop. Where it may not log in, because it has all its connections, we ask for ourselves.

        Raises: KafkaUnavailable.
        """
        for broker in self.spec.brokers if self._secret is not None else ():
            address = self._reached(broker)
            if address is None:
                continue
            try:
                connection = await KafkaConnection.open(
                    *address,
                    secret=self._secret,
                    client_id="portico-gateway",
                    authorization_id=f"{instance_id}/gateway:0",
                    network=self._network,
                )
            except KafkaUnavailable:
                continue
            try:
                return await connection.call(request)
            finally:
                connection.close()
        return await self.ask_any(request)

    async def ask_controller(self, request: Payload) -> Any:
        """Ask the broker that is the cluster's controller. Raises: KafkaUnavailable."""
        about = await self.ask_any(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        answer = await self.call(int(about.controller_id), request)
        if self.spec.engine is Engine.APACHE and not getattr(request, "validate_only", False):
            await self._until_listed(_grown(request, answer))
        return answer

    async def _until_listed(self, least: Mapping[str, int]) -> None:
        """Apache Kafka's brokers hear of new topics and partitions after whoever made them. The next request
        to make some is to count these, or an instance could go beyond its partitions."""
        asked = tuple(MetadataRequestTopic(name=TopicName(name)) for name in least)
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        for _ in range(_LOOKS_MAX if least else 0):
            answer = await self.ask_any(request)
            if all(
                topic.error_code is not ErrorCode.unknown_topic_or_partition
                and len(topic.partitions) >= least.get(topic.name, 0)
                for topic in answer.topics
            ):
                return
            await asyncio.sleep(_LOOK_S)

    async def partition_counts(self, instance_id: str, expected: int) -> dict[str, int]:
        """Partitions of every topic of an instance, by the tenant's names, about as many as are expected.
        Raises: KafkaUnavailable."""
        if self.spec.engine is Engine.APACHE:
            return await kafka_listing.partition_counts(self.ask_any, instance_id, expected)
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self._ask_as(instance_id, request)
        counts: dict[str, int] = {}
        for topic in answer.topics:
            name = tenant_name(instance_id, topic.name)
            if name is not None:
                counts[name] = len(topic.partitions)
        return counts

    async def partitions_of(self, instance_id: str, names: Collection[str]) -> dict[str, int]:
        """Partitions of those of a tenant's topics that are there, by the tenant's names.
        Raises: KafkaUnavailable."""
        if not names:
            return {}
        asked = tuple(
            MetadataRequestTopic(name=TopicName(physical_name(instance_id, name))) for name in names
        )
        answer = await self.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        return {
            tenant_name(instance_id, topic.name) or "": len(topic.partitions)
            for topic in answer.topics
            if topic.error_code is not ErrorCode.unknown_topic_or_partition
        }

    async def topic_names(self, instance_id: str, topic_ids: Collection[UUID]) -> dict[UUID, str]:
        """The tenant's names of those that are an instance's, which pays for the question where the brokers
        know it. Raises: KafkaUnavailable."""
        asked = tuple(TopicById(topic_id=topic_id, name=None) for topic_id in topic_ids)
        request = MetadataById(
            topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = await self._ask_as(instance_id, request)
        names = ((topic.topic_id, tenant_name(instance_id, topic.name or "")) for topic in answer.topics)
        return {topic_id: name for topic_id, name in names if topic_id is not None and name is not None}

    def close(self) -> None:
        """Close the control connections."""
        for node_id in tuple(self._connections):
            self._forget(node_id)


def _grown(request: Payload, answer: Payload) -> dict[str, int]:
    """The topics that a request made or gave more partitions -> how many of these they have at least."""
    if request.__api_key__ == _CREATE_TOPICS:
        made = cast(CreateTopicsResponse, answer).topics
        return {topic.name: 0 for topic in made if topic.error_code is ErrorCode.none}
    if request.__api_key__ == _CREATE_PARTITIONS:
        wanted = {topic.name: int(topic.count) for topic in cast(CreatePartitionsRequest, request).topics}
        results = cast(CreatePartitionsResponse, answer).results
        done = (result.name for result in results if result.error_code is ErrorCode.none)
        return {name: wanted[name] for name in done if name in wanted}
    return {}


def _numeric(host: str) -> str | None:
    """An address as it is; names have to be looked up, which would hold the loop up here."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def _common(served: list[Served]) -> Served:
    """What all of several brokers serve."""
    common = dict(served[0].apis)
    for other in (each.apis for each in served[1:]):
        for key in tuple(common):
            if key not in other:
                del common[key]
                continue
            lowest = max(common[key].lowest, other[key].lowest)
            highest = min(common[key].highest, other[key].highest)
            if lowest > highest:
                del common[key]
            else:
                common[key] = version_range(lowest, highest)
    levels = {name: min(each.features.get(name, 0) for each in served) for name in served[0].features}
    return Served(common, levels)
