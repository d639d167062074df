"""Somebody else at the same instance, by a client that is none of the programs: what is really there."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.clients.contract import PARTITIONS, Connection, Record
from tests.clients.judging import Written

_TIMEOUT_S: Final = 60.0
SETTINGS: Final = {"retention.ms": "3600000"}


class Watcher:
    """Comes in without a login."""

    def __init__(self, connection: Connection) -> None:
        assert connection.tls is None and connection.sasl is None
        self._settings: dict[str, Any] = {"bootstrap.servers": connection.bootstrap}
        self.admin = AdminClient(self._settings)

    def create(self, *topics: str) -> None:
        """Topics of as many partitions as all have here."""
        wanted = [NewTopic(one, PARTITIONS, config=SETTINGS) for one in topics]
        for made in self.admin.create_topics(wanted, operation_timeout=_TIMEOUT_S).values():
            made.result(_TIMEOUT_S)

    def partitions(self, topic: str) -> int | None:
        """None: there is no such topic."""
        found = self.admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        return None if found is None else len(found.partitions)

    def config(self, topic: str, name: str) -> str:
        """As it is told."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        told: str = self.admin.describe_configs([resource])[resource].result(_TIMEOUT_S)[name].value
        return told

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Offsets of a group."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, one) for one in range(PARTITIONS)])
        told = self.admin.list_consumer_group_offsets([asked])[group].result(_TIMEOUT_S)
        return {one.partition: one.offset for one in told.topic_partitions}

    def write(self, topic: str, codec: str, records: Mapping[int, Sequence[Written]], **own: Any) -> Producer:
        """Records, each with its codec as header; the transaction that they are part of stays open."""
        errors: list[Any] = []
        producer = Producer(self._settings | {"compression.type": codec, "linger.ms": 50} | own)
        if own:
            producer.init_transactions(_TIMEOUT_S)
            producer.begin_transaction()
        for partition, those in records.items():
            for key, value, header in those:
                producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    headers=[("codec", header.encode())],
                    on_delivery=lambda error, _: errors.append(error) if error else None,
                )
        assert producer.flush(_TIMEOUT_S) == 0 and errors == []
        return producer

    def read(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """All there is, to the end of each partition."""
        own = {"group.id": "watcher", "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer(self._settings | own | {"enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
        found, ends = [], 0
        while ends < PARTITIONS:
            message = consumer.poll(_TIMEOUT_S)
            assert message is not None, "nothing came"
            error = message.error()
            if error is None:
                headers = dict(message.headers() or [])
                texts = [
                    (part or b"").decode() for part in (message.key(), message.value(), headers.get("codec"))
                ]
                found.append(Record(message.partition(), message.offset(), *texts))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends += 1
        consumer.close()
        return found
