"""What operators' commands ask of a cluster with 12,000 topics: in requests that a broker takes."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.describe_configs.v2.response import DescribeConfigsResponse
from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.errors import ErrorCode

from ctl.tools import placements, reassignment, topic_admin, transactions
from ctl.tools.partitions import PartitionRow
from wire.codec import decode, duration, encode

ROWS = [PartitionRow(f"t-{number}", 0, 1, (1,), (1,), ()) for number in range(12_000)]
EMPTY = {
    "DescribeConfigsRequest": DescribeConfigsResponse(throttle_time=duration(0), results=()),
    "DescribeProducersRequest": DescribeProducersResponse(throttle_time=duration(0), topics=()),
    "DescribeLogDirsRequest": DescribeLogDirsResponse(throttle_time=duration(0), results=()),
    "AlterPartitionReassignmentsRequest": AlterPartitionReassignmentsResponse(
        throttle_time=duration(0), error_code=ErrorCode.none, error_message=None, responses=()
    ),
}


class Brokers:
    """Read a request as brokers do: with more entries than they take it raises."""

    def __init__(self) -> None:
        self.addresses = {1: ("127.0.0.1", 1)}
        self.named: list[str] = []

    async def ask(self, _node_id: int, request: Any, **_more: Any) -> Any:
        read = decode(type(request), encode(request))
        self.named += _names(read)
        return EMPTY[type(request).__name__]

    async def ask_controller(self, request: Any, _error_of: Any) -> Any:
        return await self.ask(1, request)


def _names(request: Any) -> Iterator[str]:
    for each in getattr(request, "resources", None) or request.topics:
        yield str(getattr(each, "resource_name", None) or getattr(each, "topic", None) or each.name)


@pytest.mark.parametrize("work", ["configs", "transactions", "sizes", "moves"])
def test_every_topic_is_asked_about_once(work: str) -> None:
    brokers: Any = Brokers()
    names: Sequence[str] = [row.topic for row in ROWS]
    asked = {
        "configs": lambda: topic_admin.configs_of(brokers, names),
        "transactions": lambda: transactions.open_transactions(brokers, ROWS),
        "sizes": lambda: placements._sizes(brokers, ROWS),
        "moves": lambda: reassignment.alter(brokers, {(name, 0): (1,) for name in names}),
    }
    asyncio.run(asked[work]())
    assert sorted(brokers.named) == sorted(names)
