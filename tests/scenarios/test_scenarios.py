"""Runs every scenario file, and fails when a row of the gateway's table has none."""

import pytest

from gateway.apis import LEGACY, SERVED
from tests.scenarios.fake_broker import GATEWAY_CLIENT_ID, FakeBroker
from tests.scenarios.harness import A, instance_spec, running_gateway
from tests.scenarios.scenario import Scenario, differences, entity, load_all
from wire.api_table import ApiKey
from wire.codec import request_class, response_class

SCENARIOS = load_all()
RUNS = [
    pytest.param(scenario, version, id=f"{scenario.name}-{version}")
    for scenario in SCENARIOS
    for version in scenario.versions
]


def test_every_row_and_version_has_a_scenario() -> None:
    told = {(int(scenario.api), version) for scenario in SCENARIOS for version in scenario.versions}
    table = SERVED.keys() | LEGACY.keys()
    missing = [f"{ApiKey(key).name} v{version}" for key, version in sorted(table - told)]
    assert not missing
    assert not told - table


@pytest.mark.parametrize(("scenario", "version"), RUNS)
async def test_scenario(scenario: Scenario, version: int) -> None:
    body = scenario.body
    broker = FakeBroker()
    broker.topics = dict(body.get("topics") or {})
    if body.get("reply") is not None:
        reply = entity(response_class(scenario.api, version), body["reply"])
        broker.intercept(scenario.api, lambda _received: reply)
    await broker.start()
    try:
        async with running_gateway(broker.port, instance_spec(A, **(body.get("instance") or {}))) as gateway:
            client = await gateway.client(A)
            request = entity(request_class(scenario.api, version), body["request"])
            if body.get("response", {}) is None:
                client.send(request)
                assert await client.ended()
                assert gateway.closed(A) == {body["cause"]: 1}
            else:
                response = await client.call(request)
                assert not differences(body["response"], response, type(response))
            client.close()
    finally:
        await broker.stop()
    received = broker.of(scenario.api)
    if body["upstream"] is None:
        assert not received
    else:
        (one,) = received
        assert one.client_id in ("test-client", GATEWAY_CLIENT_ID)
        assert not differences(body["upstream"], one.request, type(one.request))
