"""Requests to other brokers: to each one at a time, and of what gathers meanwhile a fair piece goes with the
next, so that no tenant makes a request too large for everybody's questions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from broker.cluster.peer import connect
from broker.coordinators.fair_queue import PIECE_BYTES_MAX, FairQueue
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.login import PeerBroker
from contracts.cluster import LiveBroker
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.logs import get_logger
from runtime.network import KERNEL_NETWORK, Network

_log = get_logger(__name__)
T = TypeVar("T")


class Peers:
    """How to reach the other brokers of the cluster."""

    def __init__(
        self,
        metadata: MetadataCache,
        secret: str | None,
        me: Callable[[], PeerBroker | None],
        network: Network = KERNEL_NETWORK,
    ) -> None:
        """`me` is this broker as it is registered now; None while it is not."""
        self.metadata: Final = metadata
        self._secret = secret
        self._me = me
        self._network = network

    async def connect(self, broker_id: int) -> tuple[LiveBroker, KafkaConnection]:
        """A new connection, and where it leads. Raises: KafkaUnavailable."""
        address = self.metadata.brokers.get(broker_id)
        me = self._me()
        if address is None or me is None or self._secret is None:
            raise KafkaUnavailable(f"broker {broker_id} is not known, or we are not registered")
        return address, await connect(address, self._secret, me, self._network)


Exchange = Callable[[KafkaConnection, list[T]], Awaitable[None]]


class Lane(Generic[T]):
    """The way to one broker. Opens a connection when there is something to send, closes it with the lane."""

    def __init__(
        self,
        peers: Peers,
        broker_id: int,
        exchange: Exchange[T],
        failed: Callable[[list[T]], None],
    ) -> None:
        """`exchange` sends items in one request and tells their outcome; `failed` when there is no answer, or
        no way to the broker."""
        self._peers = peers
        self._broker_id = broker_id
        self._exchange = exchange
        self._failed = failed
        self._waiting: FairQueue[T] = FairQueue()
        self._task: asyncio.Task[None] | None = None
        self._address: LiveBroker | None = None
        self._connection: KafkaConnection | None = None

    def add(self, item: T, owner: str | None, size_bytes: int) -> None:
        """Send an item of an instance with one of the next requests, of which it takes so many bytes."""
        self._waiting.add(owner, item, size_bytes)
        if self._task is None:
            name = f"requests to broker {self._broker_id}"
            self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def _run(self) -> None:
        try:
            while self._waiting:
                items: list[T] = []
                try:
                    connection = await self._open()
                    items = self._waiting.take(PIECE_BYTES_MAX)
                    await self._exchange(connection, items)
                except KafkaUnavailable:
                    self._failed(items or self._waiting.take_all())
                except Exception:  # noqa: BLE001 - a bug must not leave transactions without their markers
                    _log.exception("an answer of another broker could not be used", broker=self._broker_id)
                    self._failed(items or self._waiting.take_all())
        finally:
            self._task = None

    async def _open(self) -> KafkaConnection:
        address = self._peers.metadata.brokers.get(self._broker_id)
        connection = self._connection
        if connection is not None and not connection.is_closed and address == self._address:
            return connection
        if connection is not None:
            connection.close()
        self._address, self._connection = await self._peers.connect(self._broker_id)
        return self._connection

    def close(self) -> None:
        """Stop; nobody hears of what waits."""
        if self._task is not None:
            self._task.cancel()
        if self._connection is not None:
            self._connection.close()


class Lanes(Generic[T]):
    """A lane to each broker that anything was sent to."""

    def __init__(self, peers: Peers, exchange: Exchange[T], failed: Callable[[list[T]], None]) -> None:
        self._peers = peers
        self._exchange = exchange
        self._failed = failed
        self._lanes: dict[int, Lane[T]] = {}

    def add(self, broker_id: int, item: T, owner: str | None, size_bytes: int) -> None:
        """Send an item of an instance to a broker; it takes so many bytes of a request."""
        lane = self._lanes.get(broker_id)
        if lane is None:
            lane = self._lanes[broker_id] = Lane(self._peers, broker_id, self._exchange, self._failed)
        lane.add(item, owner, size_bytes)

    def close(self) -> None:
        """Stop all."""
        for lane in self._lanes.values():
            lane.close()
