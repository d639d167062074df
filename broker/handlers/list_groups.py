"""ListGroups 0-5.

Behaviour: all groups that this broker coordinates.
Version notes: v4+ shows states and filters by them (KIP-518); v5 types (KIP-848).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.coordinators.groups import GroupCoordinators
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


class _Deps(Protocol):
    groups: GroupCoordinators


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.LIST_GROUPS, call.api_version)
    states = frozenset(getattr(call.request, "states_filter", ()))
    loading = deps.groups.is_loading
    types = {each.lower() for each in getattr(call.request, "types_filter", ())}
    groups = [] if loading else deps.groups.list_groups(states)
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none,
            groups=tuple(
                shape.nested(
                    "ListedGroup",
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
                for group in groups
                if (not types or group.group_type in types) and call.shows(group.group_id)
            ),
        )
    )
