"""Topics with address lists of their own: every answer says what is refused, large ones too."""

import os
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.names import physical_name
from tests.scenarios.fake_broker import FakeBroker
from tests.scenarios.harness import A, instance_spec, running_gateway
from wire.api_table import ApiKey
from wire.build import build, response
from wire.codec import request_class

REFUSED = ErrorCode.topic_authorization_failed


def _fetch(version: int, *topics: str) -> Any:
    asked = [
        {
            "topic": name,
            "partitions": [{"partition": index, "partition_max_bytes": 2**30} for index in (0, 1)],
        }
        for name in topics
    ]
    return build(
        request_class(ApiKey.FETCH, version), {"replica_id": -1, "topics": asked, "session_epoch": -1}
    )


@pytest.mark.parametrize("version", [1, 4, 11])
@pytest.mark.parametrize("size", [0, 1_000, 3_000_000])
async def test_a_reply_of_any_size_says_which_topics_are_refused(
    broker: FakeBroker, size: int, version: int
) -> None:
    records = os.urandom(size)
    open_topic = {
        "topic": physical_name(A, "open"),
        "partitions": [{"partition_index": 0, "records": records}],
    }
    broker.intercept(
        ApiKey.FETCH, lambda one: response(ApiKey.FETCH, one.api_version, responses=[open_topic])
    )
    lists = {"closed": ("10.9.8.0/24",), "shut": ("10.9.8.0/24",), "open": ("127.0.0.0/8",)}
    spec = instance_spec(A, topic_whitelists=lists, legacy_clients=True)
    async with running_gateway(broker.port, spec) as gateway:
        client = await gateway.client(A)
        for _ in range(3):  # the connection goes on behind each
            answer = await client.call(_fetch(version, "closed", "open", "shut"))
            shown = {one.topic: [each.error_code for each in one.partitions] for one in answer.responses}
            assert shown == {"open": [ErrorCode.none], "closed": [REFUSED] * 2, "shut": [REFUSED] * 2}
            assert answer.responses[0].partitions[0].records == records
        (asked, *_) = broker.of(ApiKey.FETCH)
        assert [one.topic for one in asked.request.topics] == [physical_name(A, "open")]
        assert gateway.closed(A) == {}
