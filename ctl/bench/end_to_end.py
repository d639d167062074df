"""How long a record takes from `produce` to the consumer's hands, at a steady rate, with confluent-kafka."""

import threading
import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from ctl.bench.measure import percentile
from ctl.bench.peers import Peer

RECORD_BYTES: Final = 1000
_TICK_S: Final = 0.002
_DRAIN_S: Final = 10.0
_WARM_UP_SHARE: Final = 0.3
"""The part of the time that is not counted."""


def client_settings(peer: Peer) -> dict[str, object]:
    """How a librdkafka client reaches the cluster."""
    servers = ",".join(f"127.0.0.1:{node.port}" for node in peer.nodes.values())
    settings: dict[str, object] = {"bootstrap.servers": servers, "topic.metadata.refresh.interval.ms": 1000}
    if peer.secret is not None:
        settings |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "portico",
            "sasl.password": peer.secret,
        }
    return settings


class _Reader:
    """Consumes every partition from its end, notes each record's age."""

    def __init__(self, peer: Peer, topic: str, partitions: int) -> None:
        settings = client_settings(peer) | {"group.id": "latency", "enable.auto.commit": False}
        self._consumer = Consumer(settings | {"fetch.wait.max.ms": 100})
        ends = []
        for index in range(partitions):
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, index), 10)
            ends.append(TopicPartition(topic, index, end))
        self._consumer.assign(ends)
        self._stopping = threading.Event()
        self.ages_ms: list[tuple[float, float]] = []
        """(sent at, age)."""
        self.faults: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, 0.05):
                if message.error() is not None:
                    self.faults.append(str(message.error()))
                    continue
                sent_s = float(message.value()[:20])
                self.ages_ms.append((sent_s, (time.perf_counter() - sent_s) * 1000))

    def close(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


def latencies(
    peer: Peer, topic: str, partitions: int, rate_bytes_per_s: float, seconds: float, linger_ms: int
) -> dict[str, float]:
    """p50 and p99 in ms of records sent at a rate. Raises: RuntimeError when one is not delivered."""
    reader = _Reader(peer, topic, partitions)
    settings = client_settings(peer) | {"acks": "all", "linger.ms": linger_ms, "batch.size": 1_000_000}
    producer = Producer(settings)
    padding = b"x" * (RECORD_BYTES - 20)
    started = time.perf_counter()
    sent = 0
    while (now := time.perf_counter()) - started < seconds:
        due = int((now - started) * rate_bytes_per_s / RECORD_BYTES)
        while sent < due:
            stamp = f"{time.perf_counter():020.9f}".encode()
            producer.produce(topic, stamp + padding, partition=sent % partitions)
            sent += 1
        producer.poll(0)
        time.sleep(_TICK_S)
    left = producer.flush(_DRAIN_S)
    deadline = time.monotonic() + _DRAIN_S
    while len(reader.ages_ms) < sent and time.monotonic() < deadline:
        time.sleep(0.05)
    reader.close()
    if left or reader.faults or len(reader.ages_ms) < sent:
        raise RuntimeError(f"{len(reader.ages_ms)} of {sent} records arrived; {reader.faults[:1]}")
    counted = [age for at, age in reader.ages_ms if at - started > _WARM_UP_SHARE * seconds]
    return {"p50 ms": percentile(counted, 0.5), "p99 ms": percentile(counted, 0.99)}
