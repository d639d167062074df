"""Real clients in one group join, leave, die, and lose their broker; nothing is lost or done twice."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.groups.feeder import PARTITIONS, Feeder, nothing_lost_or_repeated
from tests.integration.groups.members import group_of_members, wait_until


def create_topic(address: str, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)


def test_three_kinds_of_clients_share_a_group_through_everything(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path) as broker,
        group_of_members(broker.address, "mixed", "t", PARTITIONS) as group,
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
        nothing_lost_or_repeated(group, feeder)
        for member in group.members:
            if member.is_alive:
                member.leave()


def test_a_broker_restart_alone_rebalances_nobody(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path) as broker,
        group_of_members(broker.address, "restart", "t", PARTITIONS) as group,
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
        nothing_lost_or_repeated(group, feeder)


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
def test_members_come_and_go(broker: BrokerProcess, client: str) -> None:
    topic = f"come-and-go-{client}"
    create_topic(broker.address, topic)
    with group_of_members(broker.address, f"group-{client}", topic, PARTITIONS) as group:
        feeder = Feeder(broker.address, topic)
        for _ in range(3):
            group.start(client)
        group.settle(3)
        group.members[1].leave()
        group.settle(2)
        group.start(client)
        group.settle(3)
        nothing_lost_or_repeated(group, feeder)


def test_cooperative_members_keep_what_they_have(broker: BrokerProcess) -> None:
    create_topic(broker.address, "cooperative")
    with group_of_members(broker.address, "cooperative", "cooperative", PARTITIONS) as group:
        feeder = Feeder(broker.address, "cooperative")
        first = group.start("confluent", "--strategy", "cooperative-sticky")
        group.settle(1)
        group.start("confluent", "--strategy", "cooperative-sticky")
        group.settle(2)
        revoked = [partition for event in first.of("revoked") for partition in event["partitions"]]
        assert len(revoked) == PARTITIONS // 2, "only what moves is given up"
        nothing_lost_or_repeated(group, feeder)


def test_a_static_member_restarts_without_a_rebalance(broker: BrokerProcess) -> None:
    create_topic(broker.address, "static")
    with group_of_members(broker.address, "static", "static", PARTITIONS) as group:
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
        nothing_lost_or_repeated(group, feeder)
