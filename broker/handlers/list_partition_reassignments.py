"""ListPartitionReassignments (46), v0 (KIP-455).

Behaviour: the controller tells what is under way, of the partitions named or of all (null); other brokers
answer NOT_CONTROLLER.
"""

from itertools import groupby
from typing import Protocol

from broker.controller.api import OK, ControllerApi, Verdict
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


class _Deps(Protocol):
    controller: ControllerApi
    later: Later


def handle(call: Call, deps: _Deps) -> None:
    deps.later.answer(call, _answer(deps, call))


async def _answer(deps: _Deps, call: Call) -> None:
    asked = call.request.topics
    named = None if asked is None else [(each.name, i) for each in asked for i in each.partition_indexes]
    moving = await deps.controller.list_reassignments(named)
    shape = response_shape(ApiKey.LIST_PARTITION_REASSIGNMENTS, call.api_version)
    refusal = moving if isinstance(moving, Verdict) else OK
    found = {} if isinstance(moving, Verdict) else moving
    topics = tuple(
        shape.nested(
            "OngoingTopicReassignment",
            name=topic,
            partitions=tuple(
                shape.nested(
                    "OngoingPartitionReassignment",
                    partition_index=name[1],
                    replicas=found[name].replicas,
                    adding_replicas=found[name].adding_replicas,
                    removing_replicas=found[name].removing_replicas,
                )
                for name in names
            ),
        )
        for topic, names in groupby(sorted(found), key=lambda name: name[0])
    )
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=refusal.error_code,
            error_message=refusal.message,
            topics=topics,
        )
    )
