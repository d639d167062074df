"""A consumer group member as a process: `python -m ...groups.member CLIENT ADDRESS GROUP TOPIC`.

Prints one JSON line per event: assigned, message, committed. SIGTERM leaves the group, SIGKILL does not.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from typing import Any

_SESSION_MS = 6_000
_HEARTBEAT_MS = 500
_COMMIT_EVERY_S = 0.2
_NEW_PROTOCOL = "consumer"
"""Instead of a strategy: the group's coordinator assigns (KIP-848)."""


class Report:
    """Prints events; knows when to commit and when to stop."""

    def __init__(self) -> None:
        self.stopping = False
        self._commit_at = 0.0
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_arguments: object) -> None:
        self.stopping = True

    def commit_due(self) -> bool:
        if time.monotonic() < self._commit_at:
            return False
        self._commit_at = time.monotonic() + _COMMIT_EVERY_S
        return True

    def say(self, event: str, **values: Any) -> None:
        print(json.dumps({"event": event, "at": time.monotonic(), **values}), flush=True)

    def assigned(self, partitions: list[int]) -> None:
        self.say("assigned", partitions=sorted(partitions))

    def message(self, partition: int, offset: int, value: bytes) -> None:
        self.say("message", partition=partition, offset=offset, value=value.decode())

    def committed(self, offsets: dict[int, int]) -> None:
        self.say("committed", offsets=offsets)


def run_confluent(options: argparse.Namespace, report: Report) -> None:
    import confluent_kafka as ck

    config: dict[str, Any] = {
        "bootstrap.servers": options.address,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 500,
        "debug": "cgrp",  # read where a member does not do what a test waits for
    }
    if options.strategy == _NEW_PROTOCOL:
        config["group.protocol"] = "consumer"
    else:
        config["session.timeout.ms"] = _SESSION_MS
        config["heartbeat.interval.ms"] = _HEARTBEAT_MS
        config["partition.assignment.strategy"] = options.strategy
    if options.instance:
        config["group.instance.id"] = options.instance
    consumer = ck.Consumer(config)
    owned: set[int] = set()
    positions: dict[int, int] = {}

    def commit() -> None:
        offsets = {partition: offset for partition, offset in positions.items() if partition in owned}
        if not offsets:
            return
        wanted = [ck.TopicPartition(options.topic, key, offset) for key, offset in offsets.items()]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False)
        except ck.KafkaException:
            return
        report.committed({one.partition: one.offset for one in done if one.error is None})

    def on_assign(_consumer: object, partitions: list[Any]) -> None:
        if options.strategy not in ("cooperative-sticky", _NEW_PROTOCOL):
            owned.clear()
        owned.update(one.partition for one in partitions)
        report.assigned(list(owned))

    def on_revoke(_consumer: object, partitions: list[Any]) -> None:
        commit()
        on_lost(_consumer, partitions)

    def on_lost(_consumer: object, partitions: list[Any]) -> None:
        for one in partitions:
            owned.discard(one.partition)
            positions.pop(one.partition, None)  # somebody else may commit beyond it meanwhile
        report.say("revoked", partitions=sorted(one.partition for one in partitions))

    consumer.subscribe([options.topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not report.stopping:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            report.message(message.partition(), message.offset(), message.value())
            positions[message.partition()] = message.offset() + 1
        if report.commit_due():
            commit()
    consumer.close()


def run_kafka_python(options: argparse.Namespace, report: Report) -> None:
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    owned: set[Any] = set()
    positions: dict[Any, int] = {}

    def commit() -> None:
        offsets = {one: offset for one, offset in positions.items() if one in owned}
        if not offsets:
            return
        try:
            consumer.commit({one: kafka.OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()})
        except KafkaError:
            return
        report.committed({one.partition: offset for one, offset in offsets.items()})

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            owned.difference_update(revoked)  # this client cannot commit from here
            positions.clear()
            report.say("revoked", partitions=sorted(one.partition for one in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            owned.clear()
            owned.update(assigned)
            report.assigned([one.partition for one in assigned])

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.address,
        group_id=options.group,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    consumer.subscribe([options.topic], listener=Listener())
    while not report.stopping:
        for partition, messages in consumer.poll(timeout_ms=100).items():
            for message in messages:
                report.message(partition.partition, message.offset, message.value)
                positions[partition] = message.offset + 1
        if report.commit_due():
            commit()
    consumer.close()


async def run_aiokafka(options: argparse.Namespace, report: Report) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    owned: set[Any] = set()
    positions: dict[Any, int] = {}

    async def commit() -> None:
        offsets = {one: offset for one, offset in positions.items() if one in owned}
        if not offsets:
            return
        try:
            await consumer.commit(offsets)
        except KafkaError:
            return
        report.committed({one.partition: offset for one, offset in offsets.items()})

    class Listener(aiokafka.ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit()
            owned.difference_update(revoked)
            positions.clear()
            report.say("revoked", partitions=sorted(one.partition for one in revoked))

        async def on_partitions_assigned(self, assigned: Any) -> None:
            owned.clear()
            owned.update(assigned)
            report.assigned([one.partition for one in assigned])

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options.address,
        group_id=options.group,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    try:
        while not report.stopping:
            for partition, messages in (await consumer.getmany(timeout_ms=100)).items():
                for message in messages:
                    if partition in owned:
                        report.message(partition.partition, message.offset, message.value)
                        positions[partition] = message.offset + 1
            if report.commit_due():
                await commit()
    finally:
        await consumer.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=("confluent", "kafka-python", "aiokafka"))
    parser.add_argument("address")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("--instance")
    parser.add_argument("--strategy", default="range")
    options = parser.parse_args()
    report = Report()
    if options.client == "confluent":
        run_confluent(options, report)
    elif options.client == "kafka-python":
        run_kafka_python(options, report)
    else:
        asyncio.run(run_aiokafka(options, report))
    report.say("left")


if __name__ == "__main__":
    sys.exit(main())
