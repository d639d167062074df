"""librdkafka tells of itself at a vport, beside a neighbour who sends what hurts."""

import asyncio
import time
from uuid import UUID

import msgspec
from confluent_kafka import Producer
from kio.static.protocol import Payload

from contracts.client_metrics import ClientReport, MetricsSubscription
from gateway.rules.client_metrics import PUSHED_BYTES_MAX
from tests.scenarios.fake_broker import FakeBroker
from tests.scenarios.harness import A, B, FrameClient, RunningGateway, instance_spec, running_gateway
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import request_class
from wire.compression import compress

_LATENCY = "org.apache.kafka.producer.node.request.latency.avg"


async def _told(gateway: RunningGateway, within_s: float = 30.0) -> ClientReport:
    """The next report of instance A that holds numbers."""
    metrics = gateway.gateway.worker.served[A].client_metrics
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for report in metrics.take_reports(100, gateway.gateway.worker.clock.monotonic_ms()):
            if _LATENCY in report.values:
                return report
        await asyncio.sleep(0.05)
    raise AssertionError(f"nothing was told: {metrics.pushes}")


async def _hurts(client: FrameClient, got: object, codec: int, metrics: bytes) -> str:
    push = build(
        request_class(ApiKey.PUSH_TELEMETRY, 0),
        {
            "client_instance_id": got.client_instance_id,  # type: ignore[attr-defined]
            "subscription_id": got.subscription_id,  # type: ignore[attr-defined]
            "terminating": True,
            "compression_type": codec,
            "metrics": metrics,
        },
    )
    return str((await client.call(push)).error_code.name)


def _wanted(number: int) -> Payload:
    return build(
        request_class(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0), {"client_instance_id": UUID(int=number)}
    )


async def test_a_real_client_is_heard_while_a_neighbour_sends_bombs(broker: FakeBroker) -> None:
    quick = (MetricsSubscription(name="quick", interval_ms=200),)
    specs = instance_spec(A, metric_subscriptions=msgspec.to_builtins(quick)), instance_spec(B)
    async with running_gateway(broker.port, *specs) as gateway:
        producer = Producer(
            {"bootstrap.servers": f"127.0.0.1:{gateway.port(A)}", "client.id": "orders", "log_level": 0}
        )
        polling = asyncio.create_task(asyncio.to_thread(producer.poll, 3.0))
        neighbour = await gateway.client(B)
        bombs = [(codec, compress(bytes(64 << 20), codec)) for codec in (1, 3, 4)]
        bombs += [(0, bytes(PUSHED_BYTES_MAX + 1))]
        answers = []
        for number, (codec, bomb) in enumerate(bombs, 2):
            answers.append(await _hurts(neighbour, await neighbour.call(_wanted(number)), codec, bomb))
        assert answers == ["telemetry_too_large"] * len(bombs)
        answers = [
            await _hurts(neighbour, await neighbour.call(_wanted(number)), *bombs[0])
            for number in range(100, 110)
        ]
        assert answers.count("none") > 5, "no more is read of it for a while"
        report = await _told(gateway)
        await polling
        assert report.client_id == "orders" and "rdkafka" in report.software_version
        assert report.address == "127.0.0.1" and report.push_interval_ms == 200
        pushes = gateway.gateway.worker.served[B].client_metrics.pushes
        assert pushes["too_large"] + pushes["dropped"] == len(bombs) + 10
        assert not gateway.gateway.worker.served[B].client_metrics.waiting
    assert not broker.of(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS) and not broker.of(ApiKey.PUSH_TELEMETRY)
