"""Clients of four makers in one consumer group of the new protocol, whose members and coordinator die."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.kafka.jars import DEFAULT_VERSION
from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.group_history import events, faults
from tests.ecosystem.group_members import Maker, Members
from tests.ecosystem.java_process import Program
from tests.integration.stack import Stack, running_stack

_TOPIC: Final = "numbers"
_GROUP: Final = "mixed"
_PARTITIONS: Final = 12
_RECORDS: Final = 36_000
_RECORDS_PER_S: Final = 60
"""Slow enough that records last while members come and go."""


@contextmanager
def _writing(bootstrap: str) -> Iterator[threading.Event]:
    """Records come one by one, in turns over the partitions; from the event on without a pause."""
    hurry = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})

    def write() -> None:
        for number in range(_RECORDS):
            producer.produce(_TOPIC, str(number), partition=number % _PARTITIONS)
            producer.poll(0)
            hurry.wait(1 / _RECORDS_PER_S)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield hurry
    finally:
        hurry.set()
        thread.join()
        assert producer.flush(60) == 0


def _committed(admin: AdminClient) -> dict[int, int]:
    """`admin` must be younger than the coordinator: librdkafka 2.16, having lost all brokers for a moment,
    goes on asking one that it has given up, until it times out."""
    asked = [TopicPartition(_TOPIC, partition) for partition in range(_PARTITIONS)]
    told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(_GROUP, asked)])
    return {one.partition: one.offset for one in told[_GROUP].result(60).topic_partitions or []}


def _take_part(*members: Program) -> None:
    """Each has been given something, and reads on from now."""
    before = [member.said().count("read ") for member in members]
    for member, count in zip(members, before, strict=True):
        member.until("it reads", lambda: member.said().count("read ") > count + 20, 180)  # noqa: B023 - asked at once


def _kill_the_coordinator(stack: Stack, admin: AdminClient) -> None:
    node_id = admin.describe_consumer_groups([_GROUP])[_GROUP].result(60).coordinator.id
    stack.wait_for_broker(node_id, other_than=stack.kill_broker(node_id))


@pytest.mark.ecosystem
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("brokers", "part"), [(None, Part.GROUPS), (3, Part.GROUPS_OF_THREE)], ids=["one_broker", "three_brokers"]
)
def test_members_and_the_coordinator_die(brokers: int | None, part: Part, tmp_path: Path) -> None:
    """No record is lost, and none is read again that a commit before it had covered."""
    logs: list[Path] = []
    with ExitStack() as running:
        stack = running.enter_context(running_stack(tmp_path / "data", brokers=brokers))
        bootstrap = stack.create_instance("mixed-group")["bootstrap_servers"]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(_TOPIC, _PARTITIONS)])[_TOPIC].result(30)
        makers = Members(tmp_path, (bootstrap, _GROUP, _TOPIC))
        hurry = running.enter_context(_writing(bootstrap))

        def joined(maker: Maker) -> Program:
            logs.append(tmp_path / f"{maker.value}-{len(logs)}.log")
            member = running.enter_context(makers.member(maker, logs[-1]))
            _take_part(member)
            return member

        first = {maker: joined(maker) for maker in Maker}
        first[Maker.JAVA].kill()
        second = {Maker.JAVA: joined(Maker.JAVA)}
        first[Maker.LIBRDKAFKA].stop()
        second[Maker.LIBRDKAFKA] = joined(Maker.LIBRDKAFKA)
        _take_part(first[Maker.FRANZ_GO], first[Maker.PLATFORMATIC])
        _kill_the_coordinator(stack, admin)
        _take_part(*second.values(), first[Maker.FRANZ_GO], first[Maker.PLATFORMATIC])
        first[Maker.FRANZ_GO].kill()
        second[Maker.FRANZ_GO] = joined(Maker.FRANZ_GO)
        first[Maker.PLATFORMATIC].kill()
        second[Maker.PLATFORMATIC] = joined(Maker.PLATFORMATIC)
        second[Maker.LIBRDKAFKA].kill()
        second[Maker.JAVA].stop()
        second[Maker.PLATFORMATIC].stop()
        hurry.set()
        last = joined(Maker.PLATFORMATIC)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        ends = dict.fromkeys(range(_PARTITIONS), _RECORDS // _PARTITIONS)
        last.until("all is committed", lambda: _committed(admin) == ends, 300)
    history = events(line for log in logs for line in log.read_text().splitlines(keepends=True))
    assert not (found := faults(history, ends)), "\n".join(found[:20])
    holds(
        part,
        ran=f"`kafka-clients` {DEFAULT_VERSION}, librdkafka, franz-go, @platformatic/kafka; 12 partitions",
        records=_RECORDS,
        killed="a member of each maker, the coordinator; others join and leave",
        held="nothing lost, nothing read again that had been committed",
    )
