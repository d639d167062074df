"""What a worker tells the control plane."""

import msgspec

from contracts.specs import RefusedAddress
from gateway.app import Gateway
from gateway.causes import DisconnectCause
from gateway.config import GatewayConfig
from gateway.reporter import Reporter
from runtime.internal_http import InternalClient
from tests.scenarios.harness import A, instance_spec


async def test_refused_addresses_are_told_once_and_counts_always() -> None:
    gateway = Gateway(GatewayConfig(name="gateway-0"))
    gateway.follower.apply_static([instance_spec(A)], [])
    served = gateway.worker.served[A]
    for number in range(60):
        served.count_refused(DisconnectCause.NOT_WHITELISTED, f"10.0.0.{number}", number)
    served.count_refused(DisconnectCause.CONNECTIONS_MAX, "10.0.0.1", 99)
    client = InternalClient("http://127.0.0.1:9", "secret")
    reporter = Reporter(gateway.worker, client, "gateway-0", "boot")
    (first,), (second,) = reporter.report().instances, reporter.report().instances
    assert first.closed == second.closed == {"not_whitelisted": 60, "connections_max": 1}
    assert first.refused[-1] == RefusedAddress(address="10.0.0.59", at_ms=59) and len(first.refused) == 50
    assert second.refused == () and second.connections == 0
    told = msgspec.json.decode(msgspec.json.encode(reporter.report()))
    assert "clusters" not in told, "older control planes refuse it"
    assert told["version"] == 1
    await client.aclose()
    await gateway.aclose()
