"""Full load on single partitions of an instance, through the gateway, counted as frames."""

import threading
import time
from typing import Final

from confluent_kafka.admin import AdminClient

from ctl.bench import load

BATCH_BYTES: Final = 60_000


def leader_port(bootstrap: str, topic: str, partition: int) -> int:
    """Where the partition's leader answers. Raises: LookupError while it has none."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    metadata = admin.list_topics(topic, timeout=5)
    return int(metadata.brokers[metadata.topics[topic].partitions[partition].leader].port)


class PartitionLoad:
    """Produces to one partition as fast as it may, at whoever leads it, until stopped."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self.carried = 0
        self.reconnected = -1
        self._bootstrap, self._topic, self._partition = bootstrap, topic, partition
        self._frame = load.produce_frames(topic, load.workload(BATCH_BYTES), partition + 1)[partition]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.reconnected += 1
            try:
                self._exchange(load.Client(leader_port(self._bootstrap, self._topic, self._partition)))
            except (OSError, ConnectionError, LookupError, RuntimeError):
                time.sleep(0.1)

    def _exchange(self, client: load.Client) -> None:
        client.socket.settimeout(5)
        with client.socket:
            while not self._stopped.is_set():
                size = client.exchange(self._frame)
                answer = load.produce_answer(client, size)
                code = answer.responses[0].partition_responses[0].error_code
                if code != 0:
                    raise RuntimeError(f"produce failed: {code}")
                self.carried += len(self._frame)

    def stop(self) -> None:
        """Send nothing more and wait for the answer under way."""
        self._stopped.set()
        self._thread.join(10)


def rate(loads: list[PartitionLoad], seconds: float) -> float:
    """Bytes per second of all of them while time passes."""
    before, started = sum(each.carried for each in loads), time.monotonic()
    time.sleep(seconds)
    return (sum(each.carried for each in loads) - before) / (time.monotonic() - started)
