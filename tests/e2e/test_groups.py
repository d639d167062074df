"""A group of three members over 12 partitions at a vip:vport survives members and processes that die."""

import pytest

from tests.e2e.records import create_topic
from tests.integration.groups.feeder import PARTITIONS, Feeder, nothing_lost_or_repeated
from tests.integration.groups.members import group_of_members
from tests.integration.stack import Stack


@pytest.mark.timeout(240)
def test_nothing_is_lost_and_nothing_committed_is_repeated(own_stack: Stack) -> None:
    bootstrap = own_stack.create_instance("groups")["bootstrap_servers"]
    create_topic(bootstrap, "t", PARTITIONS)
    with (
        group_of_members(bootstrap, "mixed", "t", PARTITIONS) as group,
        group_of_members(bootstrap, "new", "t", PARTITIONS) as new,
        Feeder(bootstrap, "t") as feeder,
    ):
        for _ in range(2):
            new.start("confluent", "--strategy", "consumer")
        new.settle(2)
        for client in ("confluent", "kafka-python", "aiokafka"):
            group.start(client)
        group.settle(3)
        fourth = group.start("confluent")
        group.settle(4)
        fourth.leave()
        group.settle(3)
        group.members[0].die()
        group.settle(2)
        new.start("confluent", "--strategy", "consumer")
        new.settle(3)
        new.members[0].leave()
        new.settle(2)
        for process in ("gateways", "brokers"):
            killed = own_stack.kill(process)
            own_stack.wait_for_restart(process, killed)
        group.start("confluent")
        group.settle(3)
        new.start("confluent", "--strategy", "consumer")
        new.settle(3)
        nothing_lost_or_repeated(group, feeder)
        nothing_lost_or_repeated(new, feeder)
        for member in (*group.members, *new.members):
            if member.is_alive:
                member.leave()
