"""SyncGroup 0-5.

Behaviour: parked until the leader's assignment is durable; the leader sends it, everyone gets their part,
which is charged.
Version notes: v3+ static members (KIP-345), v5+ names the protocol, which must be the group's (KIP-559).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import SyncRequest, SyncResult
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


class _Deps(Protocol):
    groups: GroupCoordinators

    def charge_owner(self, key: str, size_bytes: int) -> None: ...


def handle(call: Call, deps: _Deps) -> None:
    """Park the call until its member has an assignment."""
    version, request = call.api_version, call.request

    def respond(result: SyncResult) -> Payload:
        if result.assignment:
            deps.charge_owner(request.group_id, len(result.assignment))
        return _response(version, result)

    token = answering(call, respond)
    shard = deps.groups.of(request.group_id)
    if isinstance(shard, ErrorCode):
        token(SyncResult(shard))
        return
    sync = SyncRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        protocol_type=getattr(request, "protocol_type", None),
        protocol_name=getattr(request, "protocol_name", None),
        assignments=tuple((one.member_id, one.assignment) for one in request.assignments),
    )
    shard.submit(shard.core.sync(sync, token, shard.now()))


def _response(version: int, result: SyncResult) -> Payload:
    return response_shape(ApiKey.SYNC_GROUP, version).make(
        throttle_time=duration(0),
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
