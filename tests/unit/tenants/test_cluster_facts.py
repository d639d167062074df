"""What operators are told of a cluster, counted from its metadata."""

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from tenants.backend.facts import BrokerFacts, facts_of

RESPONSE: Any = MetadataResponse
BROKER: Any = MetadataResponseBroker
TOPIC: Any = MetadataResponseTopic
PARTITION: Any = MetadataResponsePartition


def partition(index: int, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> Any:
    offline = tuple(node_id for node_id in replicas if node_id == 3)
    return PARTITION(
        error_code=ErrorCode.none,
        partition_index=index,
        leader_id=leader,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )


def metadata(*partitions: Any, controller_id: int = 2) -> Any:
    return RESPONSE(
        throttle_time=timedelta(0),
        brokers=(BROKER(node_id=1, host="a", port=1, rack="r1"), BROKER(node_id=2, host="b", port=2)),
        controller_id=controller_id,
        topics=(TOPIC(error_code=ErrorCode.none, name="iabcdefghijk.t", partitions=partitions),),
    )


def test_leaders_replicas_and_what_lacks_something() -> None:
    facts = facts_of(
        metadata(
            partition(0, 1, (1, 2), (1, 2)),
            partition(1, 2, (2, 3), (2,)),
            partition(2, -1, (3,), (3,)),
        )
    )
    assert facts.controller_id == 2
    assert facts.brokers == {
        1: BrokerFacts(rack="r1", leaders=1, replicas=1, in_sync=1, under_replicated=0),
        2: BrokerFacts(rack=None, leaders=1, replicas=2, in_sync=2, under_replicated=1),
    }
    assert facts.absent == {3: BrokerFacts(rack=None, leaders=0, replicas=2, in_sync=1, under_replicated=0)}
    assert [(one.partition, one.leader, one.is_under_replicated) for one in facts.partitions] == [
        (0, 1, False),
        (1, 2, True),
        (2, None, False),
    ]


def test_without_a_controller() -> None:
    facts = facts_of(metadata(controller_id=-1))
    assert facts.controller_id is None and facts.partitions == ()
