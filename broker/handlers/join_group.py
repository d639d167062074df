"""JoinGroup 0-9.

Behaviour: the answer is parked until the group's join phase completes; v4+ first gets MEMBER_ID_REQUIRED
(KIP-394), v5+ static members (KIP-345). v0 has no rebalance timeout: the session timeout stands in for it.
The metadata in a leader's answer is charged.
Deliberately not done: a member's reason (v8) is not kept.
Version notes: below v7 the protocol name is not nullable, so it is empty where there is none. A static
leader that comes back to a stable group is told its former id as the leader's, and so does not assign anew;
from v9 on it is told that it leads and skips the assignment (KIP-814), and so it notices new partitions.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import JoinRequest, JoinResult
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds

_REQUIRES_MEMBER_ID_FROM: Final = 4
_PROTOCOL_NULLABLE_FROM: Final = 7
_SKIPS_ASSIGNMENT_FROM: Final = 9


class _Deps(Protocol):
    groups: GroupCoordinators

    def charge_owner(self, key: str, size_bytes: int) -> None: ...


def handle(call: Call, deps: _Deps) -> None:
    """Park the call in its group."""
    version = call.api_version
    group_id = call.request.group_id

    def respond(result: JoinResult) -> Payload:
        if result.members:
            deps.charge_owner(group_id, sum(len(member.metadata) for member in result.members))
        return _response(version, result)

    token = answering(call, respond)
    shard = deps.groups.of(group_id)
    if isinstance(shard, ErrorCode):
        token(JoinResult(shard, call.request.member_id))
    else:
        shard.submit(shard.core.join(_request(call), token, shard.now()))


def _request(call: Call) -> JoinRequest:
    request = call.request
    session_timeout_ms = milliseconds(request.session_timeout)
    has_rebalance_timeout = call.api_version >= 1
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        client_id=call.client_id or "",
        client_host=f"/{call.client_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            milliseconds(request.rebalance_timeout) if has_rebalance_timeout else session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_member_id=call.api_version >= _REQUIRES_MEMBER_ID_FROM,
        may_skip_assignment=call.api_version >= _SKIPS_ASSIGNMENT_FROM,
    )


def _response(version: int, result: JoinResult) -> Payload:
    shape = response_shape(ApiKey.JOIN_GROUP, version)
    protocol_name = result.protocol_name
    if protocol_name is None and version < _PROTOCOL_NULLABLE_FROM:
        protocol_name = ""
    return shape.make(
        throttle_time=duration(0),
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=tuple(
            shape.nested(
                "JoinGroupResponseMember",
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ),
    )
