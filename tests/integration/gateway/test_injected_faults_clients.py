"""Injected faults as a standard client feels them: each kind, what was acknowledged, and the neighbour."""

import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from contracts.injected_faults import FaultKind, InjectedFault
from tests.integration.broker.fake_control import wait_until
from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.scenarios.harness import A, B, instance_spec

RECORDS = 400


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("faults")
    with (
        running_broker(directory) as broker,
        running_gateway_process(directory, broker.port, instance_spec(A), instance_spec(B)) as running,
    ):
        for one in (A, B):
            admin = AdminClient({"bootstrap.servers": running.bootstrap(one)})
            topics = [NewTopic(kind, 2, 1) for kind in FaultKind]
            for created in admin.create_topics(topics).values():
                created.result(10)
        yield running


def metrics(gateway: GatewayProcess) -> str:
    with urllib.request.urlopen(gateway.metrics_url, timeout=5) as answer:
        return str(answer.read().decode())


def value(gateway: GatewayProcess, name: str, **labels: str) -> float:
    wanted = [f'{label}="{one}"' for label, one in labels.items()]
    lines = [line for line in metrics(gateway).splitlines() if line.startswith(name + "{")]
    return sum(float(line.split()[-1]) for line in lines if all(one in line for one in wanted))


class Injected:
    """A fault of instance A while the block runs."""

    def __init__(self, gateway: GatewayProcess, kind: FaultKind, **changes: Any) -> None:
        self._gateway, self._kind = gateway, kind
        now_ms = time.time_ns() // 1_000_000
        self._fault = InjectedFault(
            id=f"f{now_ms}", kind=kind, begins_at_ms=now_ms, ends_at_ms=now_ms + 120_000, **changes
        )

    def _serve(self, *faults: InjectedFault) -> None:
        self._gateway.serve(msgspec.structs.replace(self._gateway.specs[A], injected_faults=faults))
        wanted = len(faults)
        wait_until(
            lambda: value(self._gateway, "portico_faults_active", instance=A, kind=self._kind) == wanted
        )

    def __enter__(self) -> None:
        self._serve(self._fault)

    def __exit__(self, *failure: object) -> None:
        self._serve()


class Sender:
    """An idempotent producer and what came of each record."""

    def __init__(self, gateway: GatewayProcess, instance_id: str, **settings: object) -> None:
        self.acknowledged: Counter[str] = Counter()
        self.failed: list[KafkaError] = []
        self.errors: list[KafkaError] = []
        self.throttled_s: list[float] = []
        self.producer = Producer(
            {
                "bootstrap.servers": gateway.bootstrap(instance_id),
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 10,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "error_cb": self.errors.append,
                "throttle_cb": lambda event: self.throttled_s.append(event.throttle_time),
                **settings,
            }
        )

    def send(self, topic: str, values: list[str]) -> None:
        for number, one in enumerate(values):
            self.producer.produce(topic, one, partition=number % 2, on_delivery=self._delivered)
            self.producer.poll(0.002)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged[message.value().decode()] += 1

    def finish(self) -> None:
        assert self.producer.flush(60) == 0


def stored(gateway: GatewayProcess, instance_id: str, topic: str, count: int) -> list[str]:
    """What is in a topic, in order by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap(instance_id),
            "group.id": f"g-{topic}-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    values: dict[int, list[str]] = {0: [], 1: []}
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < 2 and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            error = message.error()
            if error is None:
                values[message.partition()].append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == 2
    return values[0] + values[1]


RETRIED = {
    FaultKind.LATENCY: {"delay_ms": 40},
    FaultKind.THROTTLING: {"delay_ms": 60},
    FaultKind.LEADER_LOSS: {"share_percent": 40},
    FaultKind.CONNECTION_RESET: {"share_percent": 15},
    FaultKind.CORRUPT_CHECKSUM: {"share_percent": 40},
}


@pytest.mark.parametrize("kind", RETRIED)
def test_nothing_is_lost_or_doubled_and_the_neighbour_feels_nothing(
    gateway: GatewayProcess, kind: FaultKind
) -> None:
    hit_before = value(gateway, "portico_fault_requests_total", kind=kind)
    sender, neighbour = Sender(gateway, A), Sender(gateway, B)
    numbers = [str(number) for number in range(RECORDS)]
    half = RECORDS // 2
    with Injected(gateway, kind, **RETRIED[kind]):
        for begin in range(0, half, 20):  # pieces, so that there are requests enough to be hit
            for one in (sender, neighbour):
                one.send(kind, numbers[begin : begin + 20])
        sender.finish()
    for one in (sender, neighbour):
        one.send(kind, numbers[half:])
        one.finish()
        assert one.failed == [] and one.acknowledged == Counter(numbers)
    assert value(gateway, "portico_fault_requests_total", instance=A, kind=kind) > hit_before
    for instance_id in (A, B):
        kept = stored(gateway, instance_id, kind, RECORDS)
        assert len(kept) == RECORDS and set(kept) == set(numbers)
        assert kept == [*numbers[0::2], *numbers[1::2]], "in the order they were sent"
    assert neighbour.errors == [] and max(neighbour.throttled_s, default=0.0) == 0.0
    assert value(gateway, "portico_fault_requests_total", instance=B) == 0
    closed = value(gateway, "portico_gateway_connections_closed_total", instance=B, cause="fault_injected")
    assert closed == 0
    if kind is FaultKind.THROTTLING:
        assert max(sender.throttled_s) >= 0.06


def test_a_consumer_lives_through_a_lost_leader(gateway: GatewayProcess) -> None:
    sender = Sender(gateway, A)
    topic = FaultKind.MESSAGE_TOO_LARGE
    numbers = [f"c{number}" for number in range(RECORDS)]
    sender.send(topic, numbers)
    sender.finish()
    before = value(gateway, "portico_fault_requests_total", instance=A, kind="leader_loss")
    with Injected(gateway, FaultKind.LEADER_LOSS, share_percent=50):
        kept = stored(gateway, A, topic, RECORDS)
    assert sorted(kept) == sorted(numbers)
    assert value(gateway, "portico_fault_requests_total", instance=A, kind="leader_loss") > before


def test_messages_above_the_size_fail_and_the_others_arrive(gateway: GatewayProcess) -> None:
    topic = FaultKind.MESSAGE_TOO_LARGE
    with Injected(gateway, FaultKind.MESSAGE_TOO_LARGE, above_bytes=2_000):
        sender, neighbour = Sender(gateway, A, **{"enable.idempotence": False}), Sender(gateway, B)
        for one in (sender, neighbour):
            one.send(topic, ["small", "small"])
            one.producer.flush(20)
            one.send(topic, ["x" * 3_000])
            one.finish()
    assert [error.code() for error in sender.failed] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert sender.acknowledged == {"small": 2}
    assert neighbour.failed == [] and neighbour.acknowledged == {"small": 2, "x" * 3_000: 1}
