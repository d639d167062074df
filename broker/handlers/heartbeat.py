"""Heartbeat 0-4.

Behaviour: keeps the member's session; REBALANCE_IN_PROGRESS asks it to join again.
Version notes: v3+ static members (KIP-345).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import HeartbeatRequest
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


class _Deps(Protocol):
    groups: GroupCoordinators


def handle(call: Call, deps: _Deps) -> None:
    version, request = call.api_version, call.request
    token = answering(call, lambda error: _response(version, error))
    shard = deps.groups.of(request.group_id)
    if isinstance(shard, ErrorCode):
        # As Kafka does: a member must not start anew only because its coordinator does.
        token(ErrorCode.none if shard is ErrorCode.coordinator_load_in_progress else shard)
        return
    beat = HeartbeatRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
    )
    shard.submit(shard.core.heartbeat(beat, token, shard.now()))


def _response(version: int, error: ErrorCode) -> Payload:
    shape = response_shape(ApiKey.HEARTBEAT, version)
    return shape.make(throttle_time=duration(0), error_code=error)
