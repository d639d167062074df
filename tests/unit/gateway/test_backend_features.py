"""Features of a backend whose brokers are exchanged one by one."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.specs import BrokerAddress, ClusterSpec
from gateway.backend import Backend
from runtime.upstream import Upstreams
from wire.api_table import TRANSACTION_VERSION, ApiKey
from wire.build import response_shape
from wire.codec import duration


@pytest.mark.parametrize("node_id", [None, 1, 2])
async def test_a_feature_is_offered_when_the_last_broker_has_it(
    monkeypatch: pytest.MonkeyPatch, node_id: int | None
) -> None:
    levels = {1: 2, 2: 0}

    async def call(node: int, _request: object) -> Any:
        shape = response_shape(ApiKey.API_VERSIONS, 3)
        told = shape.nested(
            "FinalizedFeatureKey",
            name=TRANSACTION_VERSION,
            max_version_level=levels[node],
            min_version_level=levels[node],
        )
        return shape.make(
            error_code=ErrorCode.none,
            api_keys=(),
            throttle_time=duration(0),
            finalized_features=(told,) if levels[node] else (),
        )

    brokers = tuple(BrokerAddress(node_id=n, host=f"10.1.1.{n}", port=9092) for n in levels)
    backend = Backend(ClusterSpec(revision=1, cluster_id="c", brokers=brokers), None, Upstreams(None))
    monkeypatch.setattr(backend, "call", call)
    await backend.versions(None)
    for each in (await backend.versions(node_id), backend.known_versions(node_id)):
        assert each is not None and not each.features.get(TRANSACTION_VERSION)
    levels[2] = 2
    backend.doubt_versions(2)
    await backend.versions(None)
    for each in (await backend.versions(node_id), backend.known_versions(node_id)):
        assert each is not None and each.features[TRANSACTION_VERSION] == 2
