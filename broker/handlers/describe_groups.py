"""DescribeGroups 0-6.

Behaviour: state and members, with metadata and assignments while the group is stable. A group that does not
exist is Dead, one that is named twice is answered once. The instance pays for metadata and assignments;
groups behind `DESCRIBED_BYTES_MAX` of them get COORDINATOR_LOAD_IN_PROGRESS, with which clients ask again.
Deliberately not done: authorization; who may ask at all may do everything, as in a Kafka without authorizer.
Version notes: v3+ authorized operations when asked for, v4+ instance ids (KIP-345), v6 GROUP_ID_NOT_FOUND and
a message where the group does not exist (KIP-1043).
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.coordinators.groups import GroupCoordinators
from broker.groups.group import State
from broker.groups.messages import DescribedGroup
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration

DESCRIBED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of metadata and assignments in one answer; the group that passes it is the last one."""
_MISSING_FROM: Final = 6
_NOT_ASKED: Final = -(2**31)
_ALL_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8
"""READ, DELETE and DESCRIBE: what an authorizer can allow on a group."""


class _Deps(Protocol):
    groups: GroupCoordinators

    def charge_owner(self, key: str, size_bytes: int) -> None: ...


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.DESCRIBE_GROUPS, call.api_version)
    asked = getattr(call.request, "include_authorized_operations", False)
    operations = _ALL_OPERATIONS if asked else _NOT_ASKED
    groups = []
    told_bytes = 0
    for group_id in dict.fromkeys(call.request.groups):
        shard = deps.groups.of(group_id)
        if not isinstance(shard, ErrorCode) and told_bytes > DESCRIBED_BYTES_MAX:
            shard = ErrorCode.coordinator_load_in_progress
        if isinstance(shard, ErrorCode):
            groups.append(_group(shape, DescribedGroup(group_id, "", "", "", ()), shard, operations))
            continue
        described = shard.core.describe(group_id)
        size_bytes = sum(len(member.metadata) + len(member.assignment) for member in described.members)
        told_bytes += size_bytes
        deps.charge_owner(group_id, size_bytes)
        is_missing = call.api_version >= _MISSING_FROM and described.state == State.DEAD
        error = ErrorCode.group_id_not_found if is_missing else ErrorCode.none
        groups.append(_group(shape, described, error, operations))
    call.reply(shape.make(throttle_time=duration(0), groups=tuple(groups)))


def _group(shape: ResponseShape, group: DescribedGroup, error: ErrorCode, operations: int) -> Entity:
    return shape.nested(
        "DescribedGroup",
        error_code=error,
        error_message=f"Group {group.group_id} not found." if error is ErrorCode.group_id_not_found else None,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            shape.nested(
                "DescribedGroupMember",
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=operations,
    )
