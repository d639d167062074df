"""Clients of two makers in one consumer group of the new protocol, whose members and coordinator die."""

import sys
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
from tests.ecosystem.java_process import JavaProcess, Program
from tests.foreign.maven import COMPILER, KAFKA, SIMPLE_LOGGER, Artifact, class_path, compile_classes, library
from tests.integration.stack import ROOT, Stack

_TOPIC: Final = "numbers"
_GROUP: Final = "mixed"
_PARTITIONS: Final = 12
_RECORDS: Final = 12_000
_RECORDS_PER_S: Final = 80
_JARS: Final = (Artifact(KAFKA, "kafka-clients"), SIMPLE_LOGGER, COMPILER)
_SOURCE: Final = Path(__file__).parent / "java" / "portico" / "GroupMember.java"


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
    asked = [TopicPartition(_TOPIC, partition) for partition in range(_PARTITIONS)]
    told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(_GROUP, asked)])
    return {one.partition: one.offset for one in told[_GROUP].result(60).topic_partitions or []}


def _takes_part(member: Program) -> None:
    """It has been given something, and reads on from now."""
    before = member.said().count("read ")
    member.until("it reads", lambda: member.said().count("read ") > before + 20, 180)


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_members_and_the_coordinator_die(stack: Stack, tmp_path: Path) -> None:
    """No record is lost, and none is read again that a commit before it had covered."""
    jars = library(f"{DEFAULT_VERSION}-group-member", _JARS)
    classes = tmp_path / "classes"
    compile_classes(jars, _SOURCE, classes)
    bootstrap = stack.create_instance("mixed-group")["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(_TOPIC, _PARTITIONS)])[_TOPIC].result(30)
    arguments = (bootstrap, _GROUP, _TOPIC)
    members: list[tuple[Program, Path]] = []
    with ExitStack() as running, _writing(bootstrap) as hurry:

        def java() -> Program:
            log = tmp_path / f"java-{len(members)}.log"
            return joined(
                JavaProcess(class_path(classes, jars), ("portico.GroupMember", *arguments), log), log
            )

        def librdkafka() -> Program:
            log = tmp_path / f"librdkafka-{len(members)}.log"
            return joined(
                Program([sys.executable, "-m", "tests.ecosystem.group_member", *arguments], log, ROOT), log
            )

        def joined(member: Program, log: Path) -> Program:
            members.append((running.enter_context(member), log))
            _takes_part(member)
            return member

        first_java, first_librdkafka = java(), librdkafka()
        second_java, second_librdkafka = java(), librdkafka()
        first_java.kill()
        _takes_part(second_librdkafka)
        first_librdkafka.stop()
        _takes_part(second_java)
        stack.wait_for_restart("brokers", stack.kill("brokers"))
        _takes_part(second_librdkafka)
        java()
        second_librdkafka.kill()
        hurry.set()
        ends = dict.fromkeys(range(_PARTITIONS), _RECORDS // _PARTITIONS)
        second_java.until("all is committed", lambda: _committed(admin) == ends, 240)
    history = events(line for _, log in members for line in log.read_text().splitlines(keepends=True))
    assert not (found := faults(history, ends)), "\n".join(found[:20])
    holds(
        Part.GROUPS,
        ran=f"`kafka-clients` {DEFAULT_VERSION} and librdkafka, `group.protocol=consumer`, 12 partitions",
        records=_RECORDS,
        killed="a member of each, the coordinator; others join and leave",
        held="nothing lost, nothing read again that had been committed",
    )
