"""Clients of the simulated cluster, on our own small client: what is acknowledged, what is seen."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import kio.schema.fetch.v7.request as fetch_v7
import kio.schema.init_producer_id.v0.request as init_producer_id_v0
import kio.schema.list_offsets.v4.request as list_offsets_v4
import kio.schema.metadata.v7.request as metadata_v7
import kio.schema.produce.v7.request as produce_v7

from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.network import Network
from tests.simulation.node import SECRET
from wire.batch import Record, build_batch, decode_records, iterate_batches
from wire.codec import duration

_FETCH: Any = fetch_v7
_INIT: Any = init_producer_id_v0
_LIST: Any = list_offsets_v4
_METADATA: Any = metadata_v7
_PRODUCE: Any = produce_v7
_TIMEOUT_S = 3.0
_PAUSE_S = 0.05
_DUPLICATE = 46
_FATAL_SEQUENCE = frozenset({45, 47, 59})
"""OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID."""


class Refused(Exception):  # noqa: N818 - a verdict
    """A broker answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Client:
    """Knows leaders, keeps connections. `ports` are the advertised ones of all nodes."""

    def __init__(
        self, ports: list[int], chance: random.Random, network: Network, secret: str | None = SECRET
    ) -> None:
        self._secret = secret
        self._ports = ports
        self._network = network
        self._chance = chance
        self._connections: dict[int, KafkaConnection] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._epochs: dict[tuple[str, int], int] = {}
        """Leader epochs: what a broker says that knows less is not believed (KIP-320)."""

    async def _connection(self, port: int) -> KafkaConnection:
        connection = self._connections.get(port)
        if connection is None or connection.is_closed:
            connection = await KafkaConnection.open(
                "127.0.0.1", port, secret=self._secret, timeout_s=_TIMEOUT_S, network=self._network
            )
            self._connections[port] = connection
        return connection

    async def ask(self, port: int, request: Any) -> Any:
        """Raises: KafkaUnavailable."""
        return await (await self._connection(port)).call(request, timeout_s=_TIMEOUT_S)

    async def ask_any(self, request: Any) -> Any:
        """Raises: KafkaUnavailable."""
        return await self.ask(self._chance.choice(self._ports), request)

    async def ask_leader(self, topic: str, partition: int, request: Any) -> Any:
        """Raises: KafkaUnavailable."""
        port = self._leaders.get((topic, partition))
        if port is None:
            await self.refresh(topic)
            port = self._leaders.get((topic, partition))
        if port is None:
            raise KafkaUnavailable("there is no leader")
        try:
            return await self.ask(port, request)
        except KafkaUnavailable:
            self.forget(topic)
            raise

    def forget(self, topic: str) -> None:
        """Leaders are asked for anew."""
        self._leaders = {key: port for key, port in self._leaders.items() if key[0] != topic}

    async def refresh(self, topic: str | None) -> Any:
        """Ask any broker about a topic, or about all. Raises: KafkaUnavailable."""
        asked = None if topic is None else (_METADATA.MetadataRequestTopic(name=topic),)
        request = _METADATA.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = await self.ask(self._chance.choice(self._ports), request)
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        parts = [(str(one.name), each) for one in answer.topics for each in one.partitions]
        for name, each in parts:
            key = (name, int(each.partition_index))
            if each.leader_id in ports and each.leader_epoch >= self._epochs.get(key, -1):
                self._leaders[key] = int(ports[each.leader_id])
                self._epochs[key] = int(each.leader_epoch)
        return answer

    async def produce(self, topic: str, partition: int, batch: bytes, *, acks: int = -1) -> int:
        """The base offset. Raises: KafkaUnavailable (nobody knows), Refused."""
        data = _PRODUCE.TopicProduceData(
            name=topic, partition_data=(_PRODUCE.PartitionProduceData(index=partition, records=batch),)
        )
        request = _PRODUCE.ProduceRequest(
            transactional_id=None, acks=acks, timeout=duration(2_000), topic_data=(data,)
        )
        answer = await self.ask_leader(topic, partition, request)
        part = answer.responses[0].partition_responses[0]
        code = int(part.error_code)
        if code not in (0, _DUPLICATE):
            self.forget(topic)
            raise Refused(code)
        return int(part.base_offset)

    async def producer_id(self) -> tuple[int, int]:
        """Raises: KafkaUnavailable, Refused."""
        request = _INIT.InitProducerIdRequest(transactional_id=None, transaction_timeout=duration(60_000))
        answer = await self.ask(self._chance.choice(self._ports), request)
        if int(answer.error_code):
            raise Refused(int(answer.error_code))
        return int(answer.producer_id), int(answer.producer_epoch)

    async def fetch(self, topic: str, partition: int, offset: int) -> list[tuple[int, bytes]]:
        """(offset, value) of what is committed from an offset on. Raises: KafkaUnavailable, Refused."""
        request = fetch_request(topic, partition, offset, max_wait_ms=200)
        answer = await self.ask_leader(topic, partition, request)
        if not answer.responses:
            raise Refused(int(answer.error_code))
        got = answer.responses[0].partitions[0]
        if int(got.error_code):
            self.forget(topic)
            raise Refused(int(got.error_code))
        return [each for each in records_of(got.records or b"") if each[0] >= offset]

    async def latest(self, topic: str, partition: int) -> int:
        """The high watermark that clients are told. Raises: KafkaUnavailable, Refused."""
        if (topic, partition) not in self._leaders:
            await self.refresh(topic)
        epoch = self._epochs.get((topic, partition), -1)
        asked = _LIST.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=epoch, timestamp=-1
        )
        request = _LIST.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=(_LIST.ListOffsetsTopic(name=topic, partitions=(asked,)),),
        )
        answer = await self.ask_leader(topic, partition, request)
        part = answer.topics[0].partitions[0]
        if int(part.error_code):
            self.forget(topic)
            raise Refused(int(part.error_code))
        return int(part.offset)


def fetch_request(
    topic: str, partition: int, offset: int, *, max_wait_ms: int, isolation_level: int = 0
) -> Any:
    """A consumer's Fetch of one partition, outside of a session."""
    part = _FETCH.FetchPartition(
        partition=partition, fetch_offset=offset, log_start_offset=-1, partition_max_bytes=1 << 20
    )
    return _FETCH.FetchRequest(
        replica_id=-1,
        max_wait=duration(max_wait_ms),
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        forgotten_topics_data=(),
        topics=(_FETCH.FetchTopic(topic=topic, partitions=(part,)),),
    )


def records_of(records: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of whole data batches."""
    found = []
    view = memoryview(records)
    for at, header in iterate_batches(whole_batches(view)):
        if not header.is_control:
            payload = view[at + 61 : at + header.size_bytes]
            found += [
                (record.offset, bytes(record.value or b"")) for record in decode_records(header, payload)
            ]
    return found


def whole_batches(view: memoryview) -> memoryview:
    """Without a last batch that is cut off."""
    at = 0
    while at + 61 <= len(view):
        size = int.from_bytes(view[at + 8 : at + 12], "big") + 12
        if at + size > len(view):
            break
        at += size
    return view[:at]


class Producing:
    """Numbers to one partition, one batch after the other, and what became of each."""

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int,
        name: str,
        chance: random.Random,
        *,
        idempotent: bool,
    ) -> None:
        self._client = client
        self._topic, self.partition, self._name = topic, partition, name
        self._chance = chance
        self._idempotent = idempotent
        self.acknowledged: list[tuple[int, bytes]] = []
        """(offset, value)."""
        self.sent = 0
        self.restarted_sequences = 0

    async def run(self, until: Callable[[], bool]) -> None:
        """Produce until told to stop."""
        producer, sequence = None, 0
        while not until():
            if self._idempotent and producer is None:
                producer, sequence = await self._begin(until), 0
                continue
            count = self._chance.randint(1, 4)
            values = [f"{self._name}:{self.sent + each}".encode() for each in range(count)]
            self.sent += count
            records = [Record(0, 1_750_000_000_000, None, value) for value in values]
            identity: dict[str, int] = {}
            if producer is not None:
                identity = {
                    "producer_id": producer[0],
                    "producer_epoch": producer[1],
                    "base_sequence": sequence,
                }
            if await self._deliver(bytes(build_batch(records, **identity)), values, until):
                sequence += count
            else:
                producer = None
            await asyncio.sleep(self._chance.expovariate(1 / 0.5))

    async def _begin(self, until: Callable[[], bool]) -> tuple[int, int] | None:
        try:
            return await self._client.producer_id()
        except (KafkaUnavailable, Refused):
            await asyncio.sleep(_PAUSE_S)
            return None

    async def _deliver(self, batch: bytes, values: list[bytes], until: Callable[[], bool]) -> bool:
        """Whether the batch was acknowledged. An idempotent producer tries the same batch again."""
        while True:
            try:
                base = await self._client.produce(self._topic, self.partition, batch)
            except Refused as refusal:
                if refusal.code in _FATAL_SEQUENCE:
                    self.restarted_sequences += 1
                    return False
            except KafkaUnavailable:
                pass
            else:
                if base >= 0:
                    self.acknowledged += [(base + index, value) for index, value in enumerate(values)]
                return True
            if not self._idempotent or until():
                return False
            await asyncio.sleep(_PAUSE_S)
