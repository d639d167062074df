"""DeleteGroups 0-2.

Behaviour: empty groups go with their offsets, group by group; answered when the last one is durable.
"""

from functools import partial
from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


class _Deps(Protocol):
    groups: GroupCoordinators


def handle(call: Call, deps: _Deps) -> None:
    """Delete each group, gather their answers."""
    version = call.api_version
    group_ids = tuple(dict.fromkeys(call.request.groups_names))
    answer = answering(call, lambda results: _response(version, results))
    results: dict[str, ErrorCode] = {}
    if not group_ids:
        answer(results)
        return

    def gather(group_id: str, error: ErrorCode) -> None:
        results[group_id] = error
        if len(results) == len(group_ids):
            answer(results)

    for group_id in group_ids:
        shard = deps.groups.of(group_id)
        if isinstance(shard, ErrorCode):
            gather(group_id, shard)
        else:
            shard.submit(shard.core.delete_group(group_id, partial(gather, group_id), shard.now()))


def _response(version: int, results: dict[str, ErrorCode]) -> Payload:
    shape = response_shape(ApiKey.DELETE_GROUPS, version)
    return shape.make(
        throttle_time=duration(0),
        results=tuple(
            shape.nested("DeletableGroupResult", group_id=group_id, error_code=error)
            for group_id, error in results.items()
        ),
    )
