"""Three brokers in a stack: who leads what, and how to hurt one of them."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kio.schema.metadata.v7.request import MetadataRequest, MetadataRequestTopic

from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from tests.integration.stack import Stack

IN_SYNC_WITHIN_S = 60.0


class Cluster:
    """The brokers of a running stack, asked directly with the deployment's secret."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._secret = (stack.data_dir / "internal.key").read_text().strip()

    def look(self, topic: str) -> Any:
        """Metadata of one topic from any broker that answers."""
        for broker in self.stack.facts["brokers"]:
            try:
                return asyncio.run(self._look(int(broker["port"]), topic))
            except KafkaUnavailable:
                continue
        raise AssertionError("no broker answers")

    async def _look(self, port: int, topic: str) -> Any:
        connection = await KafkaConnection.open("127.0.0.1", port, secret=self._secret, timeout_s=2)
        try:
            request = MetadataRequest(
                topics=(MetadataRequestTopic(name=topic),),  # type: ignore[arg-type]
                allow_auto_topic_creation=False,
            )
            return await connection.call(request, timeout_s=2)
        finally:
            connection.close()

    def leader(self, topic: str, partition: int) -> int:
        """Who leads a partition; waits until somebody does."""
        deadline = time.monotonic() + IN_SYNC_WITHIN_S
        while time.monotonic() < deadline:
            for each in self.look(topic).topics[0].partitions:
                if each.partition_index == partition and each.leader_id >= 0:
                    return int(each.leader_id)
            time.sleep(0.1)
        raise AssertionError(f"{topic}-{partition} has no leader")

    def controller(self) -> int:
        """The node that is the controller; waits until one is."""
        deadline = time.monotonic() + IN_SYNC_WITHIN_S
        while time.monotonic() < deadline:
            controller = int(self.look("any").controller_id)
            if controller >= 0:
                return controller
            time.sleep(0.1)
        raise AssertionError("there is no controller")

    def until_in_sync(self, topic: str, size: int = 3) -> None:
        """Wait until every partition of a topic has so many replicas in its ISR."""
        deadline = time.monotonic() + IN_SYNC_WITHIN_S
        isrs: list[Any] = []
        while time.monotonic() < deadline:
            partitions = self.look(topic).topics[0].partitions
            isrs = [each.isr_nodes for each in partitions]
            if isrs and all(len(isr) == size for isr in isrs):
                return
            time.sleep(0.1)
        raise AssertionError(f"the ISRs of {topic} are {isrs}")

    def kill(self, node_id: int) -> None:
        """kill -9; the supervisor starts the broker again."""
        self.stack.wait_for_broker(node_id, other_than=self.stack.kill_broker(node_id))

    @contextmanager
    def paused(self, node_id: int) -> Iterator[None]:
        """SIGSTOP, and SIGCONT at the end."""
        self.stack.signal_broker(node_id, signal.SIGSTOP)
        try:
            yield
        finally:
            self.stack.signal_broker(node_id, signal.SIGCONT)
