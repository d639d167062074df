"""DescribeProducers (61), v0.

Behaviour: what the leader's log remembers of each producer, the start of its open transaction among it: what
`txn find-hanging` looks at (KIP-664).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.log.errors import LogError
from broker.replication.replicas import Replicas
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration


class _Deps(Protocol):
    replicas: Replicas


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.DESCRIBE_PRODUCERS, call.api_version)
    call.reply(
        shape.make(
            throttle_time=duration(0),
            topics=tuple(
                shape.nested(
                    "TopicResponse",
                    name=topic.name,
                    partitions=tuple(
                        _partition(deps, shape, topic.name, index) for index in topic.partition_indexes
                    ),
                )
                for topic in call.request.topics
            ),
        )
    )


def _partition(deps: _Deps, shape: ResponseShape, topic: str, index: int) -> Entity:
    try:
        producers = deps.replicas.leader(topic, index).log.producers.describe()
        error, message = ErrorCode.none, None
    except LogError as refusal:
        producers, error, message = [], refusal.error_code, refusal.message
    return shape.nested(
        "PartitionResponse",
        partition_index=index,
        error_code=error,
        error_message=message,
        active_producers=tuple(
            shape.nested(
                "ProducerState",
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_active_ms,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.txn_start_offset,
            )
            for each in producers
        ),
    )
