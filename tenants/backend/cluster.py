"""Calls to the brokers of one cluster over a few kept connections."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v8.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import TopicName

from contracts.names import physical_name, tenant_name
from contracts.specs import BrokerAddress, Engine
from runtime.clock import monotonic_ms
from runtime.config import format_host_port
from runtime.kafka_client import KafkaConnection, KafkaRefused, KafkaUnavailable
from runtime.upstream import Refused, Upstream
from tenants.rules.errors import Unavailable

_IDLE_MAX: Final = 4
_CALLS_MAX: Final = 16
"""At once and per broker: a slow broker must not collect the console's requests without bound."""
_CLIENT_ID: Final = "portico-console"
_DOWN: Final = "the brokers do not answer now; data is safe. Try again in a few seconds"

_CONTROLLER_WAIT_S: Final = 8.0
"""A cluster whose controller died has another one after its session's timeout."""
_RETRY_S: Final = 0.2

Address = tuple[str, int]


class _NotConnected(KafkaUnavailable):
    """Nothing was sent."""


class ConnectionPool:
    """Idle connections by broker address, shared by all requests."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._idle: dict[Address, list[KafkaConnection]] = {}
        self._ways: dict[Address, object] = {}
        """How kept connections came in: by other credentials than now, they are not kept."""
        self._turns: dict[Address, asyncio.Semaphore] = {}
        self.controllers: set[Address] = set()
        """Controllers of all clusters, as last heard: they know first what changed."""

    async def call(
        self,
        address: Address,
        request: Any,
        *,
        read_only: bool,
        timeout_s: float,
        upstream: Upstream | None = None,
        response_bytes_max: int | None = None,
    ) -> Any:
        """Send a request, by the way that `upstream` says where brokers are not ours. A read that fails on a
        kept connection, which the broker may have closed meanwhile, goes out again on a new one; a write
        always has a new one, so it is sent once.

        Raises: KafkaUnavailable.
        """
        async with self._turns.setdefault(address, asyncio.Semaphore(_CALLS_MAX)):
            way = _way(address, upstream)
            if self._ways.setdefault(address, way) != way:
                self._drop(address)
                self._ways[address] = way
            kept = self._take(address) if read_only else None
            if kept is not None:
                try:
                    return await self._use(address, way, kept, request, timeout_s, response_bytes_max)
                except KafkaUnavailable:
                    self._drop(address)
            try:
                opened = await self.open(address, upstream=upstream, timeout_s=timeout_s)
            except KafkaRefused:
                raise
            except KafkaUnavailable as error:
                raise _NotConnected(str(error)) from error
            return await self._use(address, way, opened, request, timeout_s, response_bytes_max)

    async def open(
        self,
        address: Address,
        *,
        client_id: str = _CLIENT_ID,
        authorization_id: str = "",
        upstream: Upstream | None,
        timeout_s: float,
    ) -> KafkaConnection:
        """A new connection, which is the caller's to close. Raises: KafkaUnavailable."""
        return await KafkaConnection.open(
            *address,
            secret=self._secret if upstream is None else None,
            client_id=client_id,
            authorization_id=authorization_id,
            upstream=upstream,
            timeout_s=timeout_s,
        )

    def _take(self, address: Address) -> KafkaConnection | None:
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if not connection.is_closed:
                return connection
        return None

    def _drop(self, address: Address) -> None:
        for connection in self._idle.pop(address, []):
            connection.close()

    async def _use(
        self,
        address: Address,
        way: object,
        connection: KafkaConnection,
        request: Any,
        timeout_s: float,
        response_bytes_max: int | None,
    ) -> Any:
        response = await connection.call(request, timeout_s=timeout_s, response_bytes_max=response_bytes_max)
        idle = self._idle.setdefault(address, [])
        if len(idle) < _IDLE_MAX and self._ways[address] == way:
            idle.append(connection)
        else:
            connection.close()
        return response

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._idle):
            self._drop(address)


def _way(address: Address, upstream: Upstream | None) -> object:
    """Raises: KafkaRefused."""
    if upstream is None:
        return None
    try:
        return upstream.security, upstream.way()
    except Refused as refused:
        raise KafkaRefused(f"broker {format_host_port(*address)}: {refused}", refused.trouble) from refused


class Cluster:
    """One cluster at its registered addresses. What follows is the same for every engine: all speak Kafka's
    protocol; `ApacheCluster` says what differs."""

    engine = Engine.BUILTIN
    tells_client_hosts = True
    """Whether what it takes for a client's address is one, not a gateway's."""

    def __init__(
        self, pool: ConnectionPool, brokers: tuple[BrokerAddress, ...], upstream: Upstream | None = None
    ) -> None:
        self._call = partial(pool.call, upstream=upstream)
        self._open = partial(pool.open, upstream=upstream)
        self._pool = pool
        self.addresses: dict[int, Address] = {one.node_id: (one.host, one.port) for one in brokers}

    async def ask(
        self,
        request: Any,
        node_id: int | None = None,
        *,
        read_only: bool = True,
        timeout_s: float = 5.0,
        response_bytes_max: int | None = None,
    ) -> Any:
        """Ask one broker, or any that answers. Raises: Unavailable, also for a larger answer."""
        call = partial(
            self._call, read_only=read_only, timeout_s=timeout_s, response_bytes_max=response_bytes_max
        )
        addresses = [self.addresses[node_id]] if node_id in self.addresses else []
        if node_id is None:
            controllers = self._pool.controllers
            addresses = sorted(self.addresses.values(), key=lambda address: address not in controllers)
        if not addresses:
            raise Unavailable("no broker has registered yet. Try again in a few seconds")
        for address in addresses[:-1]:
            try:
                return await call(address, request)
            except KafkaUnavailable:
                continue
        try:
            return await call(addresses[-1], request)
        except KafkaRefused as error:
            raise Unavailable(f"the cluster cannot be used: {error}") from error
        except KafkaUnavailable as error:
            raise Unavailable(_DOWN) from error

    async def ask_controller(
        self, request: Any, outcome: Callable[[Any], ErrorCode], *, timeout_s: float
    ) -> Any:
        """Have the controller do something; `outcome` reads an answer's error.

        While there is no controller it is waited for: what was not begun is sent again, what may have been is
        not. Raises: Unavailable.
        """
        deadline_ms = monotonic_ms() + round(_CONTROLLER_WAIT_S * 1000)
        while True:
            address = await self._controller()
            if address is not None:
                try:
                    answer = await self._call(address, request, read_only=False, timeout_s=timeout_s)
                except _NotConnected:
                    pass  # it has died: another one follows
                except KafkaUnavailable as error:
                    raise Unavailable(_DOWN) from error
                else:
                    if outcome(answer) is not ErrorCode.not_controller:
                        return answer
            if monotonic_ms() >= deadline_ms:
                raise Unavailable("the cluster has no controller now. Try again in a few seconds")
            await asyncio.sleep(_RETRY_S)

    async def _controller(self) -> Address | None:
        answer = await self.metadata(())
        return self.addresses.get(int(answer.controller_id))

    def _heard_of_controller(self, node_id: int) -> None:
        self._pool.controllers -= set(self.addresses.values())
        if node_id in self.addresses:
            self._pool.controllers.add(self.addresses[node_id])

    async def connect_for(self, instance_id: str, node_id: int, *, timeout_s: float) -> KafkaConnection:
        """A new connection to a broker, where an instance pays for what it produces and fetches.

        Raises: KafkaUnavailable.
        """
        payer = f"{instance_id}/console:0"
        return await self._open(self.addresses[node_id], authorization_id=payer, timeout_s=timeout_s)

    async def connect(self, node_id: int, *, timeout_s: float) -> KafkaConnection:
        """A new connection to a broker, for ourselves: nobody pays. Raises: Unavailable."""
        address = self.addresses.get(node_id)
        if address is None:
            raise Unavailable(f"broker {node_id} is not registered. Try again in a few seconds")
        try:
            return await self._open(address, timeout_s=timeout_s)
        except KafkaUnavailable as error:
            raise Unavailable(f"broker {node_id} of the cluster cannot be used: {error}") from error

    async def metadata(self, names: Iterable[str] | None) -> MetadataResponse:
        """Metadata of topics by physical names, None: of all. Raises: Unavailable."""
        topics = None if names is None else tuple(MetadataRequestTopic(name=TopicName(one)) for one in names)
        answer: MetadataResponse = await self.ask(metadata_request(topics))
        self._heard_of_controller(int(answer.controller_id))
        return answer

    async def topics(
        self, instance_id: str, names: list[str] | None = None
    ) -> dict[str, MetadataResponseTopic]:
        """Metadata of an instance's topics by the tenant's names; errors included for asked names.

        Raises: Unavailable.
        """
        asked = None if names is None else [physical_name(instance_id, name) for name in names]
        answer = await self.metadata(asked)
        found = {}
        for topic in answer.topics:
            name = tenant_name(instance_id, topic.name)
            if name is not None:
                found[name] = topic
        return dict(sorted(found.items()))

    async def left_of(self, instance_id: str) -> set[str]:
        """The topics that a deleted instance still has, as surely as can be known. Raises: Unavailable."""
        return set(await self.topics(instance_id))

    async def until_spread(self, instance_id: str, name: str, partitions: int) -> None:
        """A topic now has so many partitions (0: it is deleted): wait until whoever is asked next knows.

        Our controller is asked first, and knows at once.
        """


def metadata_request(topics: tuple[MetadataRequestTopic, ...] | None) -> MetadataRequest:
    """Asks for brokers, and for some topics or all (None)."""
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def text_for_tenant(instance_id: str, message: str | None) -> str:
    """A broker's message as its tenant may see it: without the scope of physical names."""
    return (message or "").replace(f"{instance_id}.", "")
