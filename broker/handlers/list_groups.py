"""ListGroups 0-4.

Behaviour: all groups that this broker coordinates.
Version notes: v4+ shows states and filters by them (KIP-518).
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
    """Answer at once."""
    shape = response_shape(ApiKey.LIST_GROUPS, call.api_version)
    states = frozenset(getattr(call.request, "states_filter", ()))
    loading = deps.groups.is_loading
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
                )
                for group in groups
                if call.shows(group.group_id)
            ),
        )
    )
