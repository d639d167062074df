"""LeaveGroup 0-5.

Behaviour: removes members at once and rebalances the rest.
Version notes: v0-2 one member, its error is the request's; v3+ a batch, also by instance id alone (KIP-345).
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import LeaveResult, LeavingMember
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

_BATCH_FROM: Final = 3


class _Deps(Protocol):
    groups: GroupCoordinators


def handle(call: Call, deps: _Deps) -> None:
    version, request = call.api_version, call.request
    token = answering(call, lambda result: _response(version, result))
    shard = deps.groups.of(request.group_id)
    if isinstance(shard, ErrorCode):
        token(LeaveResult(shard))
        return
    if version < _BATCH_FROM:
        leaving: tuple[LeavingMember, ...] = (LeavingMember(request.member_id, None),)
    else:
        leaving = tuple(LeavingMember(one.member_id, one.group_instance_id) for one in request.members)
    shard.submit(shard.core.leave(request.group_id, leaving, token, shard.now()))


def _response(version: int, result: LeaveResult) -> Payload:
    shape = response_shape(ApiKey.LEAVE_GROUP, version)
    error = result.error
    if version < _BATCH_FROM and error is ErrorCode.none:
        error = next((one for _, one in result.members), error)
    return shape.make(
        throttle_time=duration(0),
        error_code=error,
        members=()
        if version < _BATCH_FROM
        else tuple(
            shape.nested(
                "MemberResponse",
                member_id=leaving.member_id,
                group_instance_id=leaving.group_instance_id,
                error_code=one,
            )
            for leaving, one in result.members
        ),
    )
