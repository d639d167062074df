"""Where trace contexts go and where not: up to brokers that take them, never to nor from tenants."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.heartbeat.v3 import HeartbeatRequest
from kio.schema.metadata.v4 import MetadataRequest

from contracts.tracing import TAKES_TRACES, TRACE_KEY, TraceContext, decode, encode
from gateway.tracing import GatewayTraces
from runtime.trace_settings import TraceSettings
from runtime.tracing import Tracing
from tests.scenarios.fake_broker import FakeBroker, Received
from tests.scenarios.harness import A, RunningGateway, instance_spec, running_gateway
from tests.servers.collector import Collector, attributes, running_collector
from wire.api_table import ApiKey
from wire.build import response

_HEAD_BYTES = 10
_METADATA = MetadataRequest(topics=None, allow_auto_topic_creation=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture
def tracing(collector: Collector) -> Iterator[Tracing]:
    made = Tracing(
        TraceSettings(endpoint=f"{collector.url}/v1/traces", per_second=100), "gateway", "gateway-0"
    )
    yield made
    made.close()


@pytest.fixture
async def gateway(broker: FakeBroker, tracing: Tracing, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """It logs in, and traces."""
    secret = tmp_path / "secret"
    secret.write_text("of the deployment")
    broker.intercept(TRACE_KEY, lambda _: None)
    async with running_gateway(broker.port, instance_spec(A), secret_file=secret) as running:
        running.gateway.worker.traces = GatewayTraces(tracing, "gateway-0")
        yield running


def _takes_traces(broker: FakeBroker) -> None:
    def answer(asked: Received) -> Any:
        return response(ApiKey.SASL_AUTHENTICATE, asked.api_version, auth_bytes=TAKES_TRACES)

    broker.intercept_own(ApiKey.SASL_AUTHENTICATE, answer)


def _spans(tracing: Tracing, collector: Collector) -> dict[str, list[Any]]:
    tracing.provider.force_flush()
    found: dict[str, list[Any]] = {}
    for _, span in collector.spans:
        found.setdefault(span.name, []).append(span)
    return found


async def test_a_context_goes_up_in_front_of_its_request_once_the_broker_has_said_so(
    broker: FakeBroker, gateway: RunningGateway, tracing: Tracing, collector: Collector
) -> None:
    _takes_traces(broker)
    client = await gateway.client(A)
    for _ in range(3):
        await client.call(_METADATA)
    spans = await asyncio.to_thread(_spans, tracing, collector)
    assert len(spans["metadata"]) == 3 and len(spans["upstream"]) == 3
    of_client = [one for one in broker.received if not one.is_own]
    assert [one.api_key for one in of_client] == [3, TRACE_KEY, 3, TRACE_KEY, 3]
    told = [decode(one.frame[_HEAD_BYTES:]) for one in broker.of(TRACE_KEY)]
    assert {(each.trace_id, each.span_id) for each in told} == {
        (span.trace_id, span.span_id) for span in spans["upstream"][1:]
    }


async def test_a_broker_that_says_nothing_gets_what_it_always_got(
    broker: FakeBroker, gateway: RunningGateway, tracing: Tracing, collector: Collector
) -> None:
    client = await gateway.client(A)
    for _ in range(3):
        await client.call(_METADATA)
    assert broker.of(TRACE_KEY) == []
    assert len((await asyncio.to_thread(_spans, tracing, collector))["metadata"]) == 3


async def test_a_tenant_cannot_say_whose_child_a_request_is(
    broker: FakeBroker, gateway: RunningGateway, tracing: Tracing, collector: Collector
) -> None:
    _takes_traces(broker)
    client = await gateway.client(A)
    await client.call(_METADATA)
    forged = encode(TraceContext(trace_id=b"\7" * 16, span_id=b"\7" * 8))
    frame = TRACE_KEY.to_bytes(2, "big") + b"\0\0" + b"\0\0\0\1" + b"\xff\xff" + forged
    client.writer.write(len(frame).to_bytes(4, "big") + frame)
    assert await client.reader.read() == b""
    assert gateway.closed(A) == {"unsupported_api": 1}
    assert broker.of(TRACE_KEY) == []
    for named in (await asyncio.to_thread(_spans, tracing, collector)).values():
        assert all(span.trace_id != b"\7" * 16 for span in named)


async def test_what_is_unanswered_when_a_connection_ends_says_why(
    broker: FakeBroker, gateway: RunningGateway, tracing: Tracing, collector: Collector
) -> None:
    broker.intercept(ApiKey.HEARTBEAT, lambda _: None)
    client = await gateway.client(A)
    client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))  # type: ignore[arg-type]
    while not broker.of(ApiKey.HEARTBEAT):
        await asyncio.sleep(0.01)
    broker.drop_connections()
    assert await client.reader.read() == b""
    (span,) = (await asyncio.to_thread(_spans, tracing, collector))["heartbeat"]
    assert attributes(span)["error.type"] == "upstream_closed"
    assert attributes(span)["portico.instance.id"] == A
