"""CreatePartitions 0-3: the partition limit; explicit assignments are refused as in CreateTopics."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from contracts.topic_policy import partitions_fault
from gateway.session.call import Answer, Call, Later
from gateway.session.deps import ChangesPartitions
from gateway.topic_access import REFUSED_TEXT
from wire.build import with_entries
from wire.messages import CreatePartitionsRequest, CreatePartitionsTopic


class _Refusal(NamedTuple):
    name: str
    error_code: ErrorCode
    error_message: str


def on_request(call: Call, request: CreatePartitionsRequest) -> Later:
    """The limit needs the counts of now."""
    return Later(partial(_grown, call, request))


async def _grown(call: Call, request: CreatePartitionsRequest, deps: ChangesPartitions) -> Answer:
    async with deps.changing_partitions():
        counts = await deps.partition_counts()
        present = sum(counts.values())
        accepted: list[CreatePartitionsTopic] = []
        refusals: list[_Refusal] = []
        for topic in request.topics:
            refusal = _refusal(call, topic, counts, present)
            if refusal is not None:
                refusals.append(refusal)
                continue
            accepted.append(topic)
            # A topic that is not there adds nothing: the backend answers for it.
            present += max(0, topic.count - counts[topic.name]) if topic.name in counts else 0
        response = call.response()
        if accepted:
            response = await deps.ask_controller(replace(request, topics=tuple(accepted)))
        return Answer(with_entries(response, "results", [refusal._asdict() for refusal in refusals]))


def _refusal(
    call: Call, topic: CreatePartitionsTopic, counts: dict[str, int], present: int
) -> _Refusal | None:
    if call.refuses_topic(topic.name):
        return _Refusal(topic.name, ErrorCode.topic_authorization_failed, REFUSED_TEXT)
    if topic.assignments:
        message = "replica assignments are the cluster's: leave them out"
        return _Refusal(topic.name, ErrorCode.invalid_replica_assignment, message)
    if topic.name not in counts:
        return None
    added = max(0, topic.count - counts[topic.name])
    fault = partitions_fault(present, added, call.spec.limits) if added else None
    return None if fault is None else _Refusal(topic.name, ErrorCode.policy_violation, fault)
