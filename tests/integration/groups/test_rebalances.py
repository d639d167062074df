"""Real clients in one group join, leave, die, and lose their broker; nothing is lost or done twice."""

import threading
import time
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.groups.members import GroupOfMembers, group_of_members, wait_until

_PARTITIONS = 12


def create_topic(address: str, topic: str, partitions: int = _PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)


class Feeder:
    """Produces numbered values evenly, with acks=all and idempotence, until stopped."""

    def __init__(self, address: str, topic: str, partitions: int = _PARTITIONS) -> None:
        self.acknowledged: set[str] = set()
        self.failed: list[Any] = []
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = str(number)
            self._producer.produce(
                self._topic, value, partition=number % self._partitions, on_delivery=self._delivered
            )
            number += 1
            self._producer.poll(0.002)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value().decode())
        else:
            self.failed.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stopping.set()
        self._producer.purge()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)
        assert self._producer.flush(30) == 0
        assert self.failed == []


def _nothing_lost_or_repeated(group: GroupOfMembers, feeder: Feeder) -> None:
    feeder.stop()
    wait_until(
        lambda: feeder.acknowledged <= group.values(),
        lambda: (
            f"{len(feeder.acknowledged - group.values())} of {len(feeder.acknowledged)} values are missing"
        ),
    )
    assert len(feeder.acknowledged) > 500
    assert group.reprocessed() == []


def test_three_kinds_of_clients_share_a_group_through_everything(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path) as broker,
        group_of_members(broker.address, "mixed", "t", _PARTITIONS) as group,
    ):
        create_topic(broker.address, "t")
        feeder = Feeder(broker.address, "t")
        for client in ("confluent", "kafka-python", "aiokafka"):
            group.start(client)
        group.settle(3)
        fourth = group.start("confluent")
        group.settle(4)
        fourth.leave()
        group.settle(3)
        group.members[0].die()
        group.settle(2)
        broker.kill()
        time.sleep(0.5)
        broker.start()
        group.start("confluent")
        group.settle(3)
        _nothing_lost_or_repeated(group, feeder)
        for member in group.members:
            if member.is_alive:
                member.leave()


def test_a_broker_restart_alone_rebalances_nobody(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path) as broker,
        group_of_members(broker.address, "restart", "t", _PARTITIONS) as group,
    ):
        create_topic(broker.address, "t")
        feeder = Feeder(broker.address, "t")
        for _ in range(2):
            group.start("confluent")
        group.settle(2)
        before = [len(member.of("assigned")) for member in group.members]
        broker.kill()
        broker.start()
        seen = len(group.values())
        wait_until(lambda: len(group.values()) > seen + 200, lambda: "consuming does not go on")
        assert [len(member.of("assigned")) for member in group.members] == before
        _nothing_lost_or_repeated(group, feeder)


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
def test_members_come_and_go(broker: BrokerProcess, client: str) -> None:
    topic = f"come-and-go-{client}"
    create_topic(broker.address, topic)
    with group_of_members(broker.address, f"group-{client}", topic, _PARTITIONS) as group:
        feeder = Feeder(broker.address, topic)
        for _ in range(3):
            group.start(client)
        group.settle(3)
        group.members[1].leave()
        group.settle(2)
        group.start(client)
        group.settle(3)
        _nothing_lost_or_repeated(group, feeder)


def test_cooperative_members_keep_what_they_have(broker: BrokerProcess) -> None:
    create_topic(broker.address, "cooperative")
    with group_of_members(broker.address, "cooperative", "cooperative", _PARTITIONS) as group:
        feeder = Feeder(broker.address, "cooperative")
        first = group.start("confluent", "--strategy", "cooperative-sticky")
        group.settle(1)
        group.start("confluent", "--strategy", "cooperative-sticky")
        group.settle(2)
        revoked = [partition for event in first.of("revoked") for partition in event["partitions"]]
        assert len(revoked) == _PARTITIONS // 2, "only what moves is given up"
        _nothing_lost_or_repeated(group, feeder)


def test_a_static_member_restarts_without_a_rebalance(broker: BrokerProcess) -> None:
    create_topic(broker.address, "static")
    with group_of_members(broker.address, "static", "static", _PARTITIONS) as group:
        feeder = Feeder(broker.address, "static")
        stays = group.start("confluent", "--instance", "one")
        restarts = group.start("confluent", "--instance", "two")
        group.settle(2)
        share, assignments = restarts.owned, len(stays.of("assigned"))
        restarts.die()
        back = group.start("confluent", "--instance", "two")
        wait_until(lambda: back.owned == share, lambda: f"{back.owned} instead of {share}\n{back.log()}")
        seen = len(group.values())
        wait_until(lambda: len(group.values()) > seen + 100, lambda: "consuming does not go on")
        assert len(stays.of("assigned")) == assignments
        assert stays.of("revoked") == []
        _nothing_lost_or_repeated(group, feeder)
