"""Transactions of tenants, through the gateway of a running stack."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.raw import RawClient, request
from tests.integration.stack import Stack, running_stack
from tests.integration.transactions.clients import TIMEOUT_S, producer, read, write


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack") / "data") as running:
        yield running


class Tenant:
    """An instance with topics `in` and `out`."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.bootstrap = str(stack.create_instance(name)["bootstrap_servers"])
        admin = AdminClient(self.config)
        for future in admin.create_topics([NewTopic(each, 2) for each in ("in", "out")]).values():
            future.result(TIMEOUT_S)

    @property
    def config(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap}

    def raw(self) -> RawClient:
        return RawClient(int(self.bootstrap.split(",")[0].rpartition(":")[2]))


@pytest.fixture(scope="module")
def tenants(stack: Stack) -> tuple[Tenant, Tenant]:
    return Tenant(stack, "one"), Tenant(stack, "other")


def test_the_same_transactional_id_in_two_instances_is_two(tenants: tuple[Tenant, Tenant]) -> None:
    one, other = tenants
    first, second = producer(one.config, "shared"), producer(other.config, "shared")
    first.begin_transaction()
    second.begin_transaction()
    for value in ("1", "2", "3"):
        first.produce("in", value.encode())
        second.produce("in", b"not theirs")
    second.flush(TIMEOUT_S)
    second.abort_transaction(TIMEOUT_S)
    first.commit_transaction(TIMEOUT_S)
    assert sorted(read(one.config, "in", 3, partitions=2)) == ["1", "2", "3"]
    write(second, "in", ["theirs"], commit=True)
    assert read(other.config, "in", 1, partitions=2) == ["theirs"]
    producer(one.config, "shared")
    write(second, "in", ["still theirs"], commit=True)
    with pytest.raises(KafkaException):
        write(first, "in", ["fenced"], commit=True)


def test_consume_transform_produce_at_a_vport(tenants: tuple[Tenant, Tenant]) -> None:
    one, _ = tenants
    write(producer(one.config, "fill"), "out", ["a", "b"], commit=True)
    consumer = Consumer(
        {**one.config, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["out"])
    messages: list[Message] = []
    while len(messages) < 2:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        messages.append(message)
    copier = producer(one.config, "copier")
    copier.begin_transaction()
    for message in messages:
        copier.produce("in", message.value().upper())
    position = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
    copier.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
    copier.commit_transaction(TIMEOUT_S)
    committed = consumer.committed([TopicPartition("out", index) for index in range(2)], TIMEOUT_S)
    assert sum(max(each.offset, 0) for each in committed) == sum(each.offset for each in position)
    consumer.close()
    assert {"A", "B"} <= set(read(one.config, "in", 5, partitions=2))


def test_tenants_see_their_own_transactions_only(tenants: tuple[Tenant, Tenant]) -> None:
    one, other = tenants
    mine = producer(one.config, "mine")
    mine.begin_transaction()
    mine.produce("in", b"open", partition=0)
    mine.flush(TIMEOUT_S)
    with one.raw() as raw:
        listed = raw.call(
            request(66, 1, state_filters=["Ongoing"], producer_id_filters=[], duration_filter=-1)
        )
        assert [each.transactional_id for each in listed.transaction_states] == ["mine"]
        everything = {"state_filters": ["Ongoing"], "producer_id_filters": [], "duration_filter": -1}
        listed = raw.call(request(66, 2, transactional_id_pattern=".*", **everything))
        assert [each.transactional_id for each in listed.transaction_states] == ["mine"]
        (state,) = raw.call(request(65, 0, transactional_ids=["mine"])).transaction_states
        assert [topic.topic for topic in state.topics] == ["in"]
        (topic,) = raw.call(request(61, 0, topics=[{"name": "in", "partition_indexes": (0,)}])).topics
        assert topic.partitions[0].active_producers[-1].current_txn_start_offset >= 0
    with other.raw() as raw:
        listed = raw.call(
            request(66, 1, state_filters=["Ongoing"], producer_id_filters=[], duration_filter=-1)
        )
        assert not listed.transaction_states
        (state,) = raw.call(request(65, 0, transactional_ids=["mine"])).transaction_states
        assert state.error_code.name == "transactional_id_not_found"
    mine.abort_transaction(TIMEOUT_S)


def _ongoing(raw: RawClient) -> list[str]:
    answer = raw.call(request(66, 0, state_filters=["Ongoing"], producer_id_filters=[]))
    return [each.transactional_id for each in answer.transaction_states]


def test_markers_are_not_a_tenants_business(tenants: tuple[Tenant, Tenant]) -> None:
    one, _ = tenants
    with one.raw() as raw:
        advertised = {each.api_key for each in raw.call(request(18, 0)).api_keys}
        assert 27 not in advertised
        assert {24, 25, 26, 28, 61, 65, 66} <= advertised
        raw.send(request(27, 1, markers=[]))
        assert raw.is_closed()
