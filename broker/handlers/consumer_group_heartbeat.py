"""ConsumerGroupHeartbeat 0-1 (KIP-848).

Behaviour: a member joins, says what it subscribes to and owns, and hears what it is given; see
`broker/groups/consumer_step.py`. The interval that it is told is short while its group is on the way to a new
assignment.
Deliberately not done: racks (`rack_id` is kept and shown, no assignor looks at it).
Version notes: v1 regular expressions, and member ids made by clients.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.consumer_messages import ConsumerHeartbeat, HeartbeatResult
from broker.groups.consumer_records import Partitions
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration, milliseconds
from wire.messages import ConsumerGroupHeartbeatRequest

_IDS_BY_CLIENTS_FROM = 1


class _Deps(Protocol):
    groups: GroupCoordinators


def handle(call: Call, deps: _Deps) -> None:
    version, request = call.api_version, call.request
    token = answering(call, lambda result: _response(version, result))
    shard = deps.groups.of(request.group_id)
    if isinstance(shard, ErrorCode):
        token(HeartbeatResult(shard))
    elif version >= _IDS_BY_CLIENTS_FROM and request.member_id == "":
        token(HeartbeatResult(ErrorCode.invalid_request, "MemberId can't be empty."))
    else:
        shard.submit(shard.core.consumer_heartbeat(_heartbeat(call, request), token, shard.now()))


def _heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    names = request.subscribed_topic_names
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.header.client_id or "",
        client_host=f"/{call.client_host}",
        rebalance_timeout_ms=None if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        server_assignor=request.server_assignor,
        owned=_owned(request),
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return {
        each.topic_id: frozenset(each.partitions)
        for each in request.topic_partitions
        if each.topic_id is not None and each.partitions
    }


def _response(version: int, result: HeartbeatResult) -> Payload:
    shape = response_shape(ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    return shape.make(
        throttle_time=duration(0),
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=duration(result.interval_ms),
        assignment=None if result.assigned is None else _assignment(shape, result.assigned),
    )


def _assignment(shape: ResponseShape, assigned: Partitions) -> Entity:
    topics = tuple(
        shape.nested("TopicPartitions", topic_id=topic_id, partitions=tuple(sorted(indexes)))
        for topic_id, indexes in assigned.items()
    )
    return shape.nested("Assignment", topic_partitions=topics)
