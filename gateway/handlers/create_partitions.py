"""CreatePartitions 0-3: the partition limit, and the rate at which partitions are created (refused from
version 3 on, KIP-599). An explicit assignment counts as its number of partitions, as in CreateTopics."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from contracts.acls import Operation
from contracts.topic_policy import partitions_fault
from gateway.mutation_quota import within_rate
from gateway.rules.topic_rules import placement_fault
from gateway.session.call import Answer, Call, Later
from gateway.session.deps import ChangesWithinRate
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


async def _grown(call: Call, request: CreatePartitionsRequest, deps: ChangesWithinRate) -> Answer:
    async with within_rate(call, deps, only_looks=request.validate_only) as quota:
        names = {topic.name for topic in request.topics}
        counts = await (deps.partitions_of(names) if quota.is_spent else deps.partition_counts())
        present = sum(counts.values())
        accepted: list[CreatePartitionsTopic] = []
        refusals: list[_Refusal] = []
        for topic in request.topics:
            refusal = _refusal(call, topic, counts, present)
            # A topic that is not there adds nothing: the backend answers for it.
            added = max(0, topic.count - counts[topic.name]) if topic.name in counts else 0
            if refusal is None and not quota.admits(topic.name, added):
                refusal = _Refusal(topic.name, ErrorCode.throttling_quota_exceeded, quota.refusal)
            if refusal is not None:
                refusals.append(refusal)
                continue
            accepted.append(replace(topic, assignments=None))
            present += added
        response = call.response()
        if accepted:
            response = await deps.ask_controller(replace(request, topics=tuple(accepted)))
            quota.settle((result.name, result.error_code) for result in response.results)
        response = with_entries(response, "results", [refusal._asdict() for refusal in refusals])
        return Answer(quota.told(response))


def _refusal(
    call: Call, topic: CreatePartitionsTopic, counts: dict[str, int], present: int
) -> _Refusal | None:
    if call.refuses_topic(topic.name, Operation.ALTER):
        return _Refusal(topic.name, ErrorCode.topic_authorization_failed, REFUSED_TEXT)
    if topic.name not in counts:
        return None
    added = max(0, topic.count - counts[topic.name])
    placed = topic.assignments
    if placed is not None:
        brokers = {each.node_id for each in call.cluster.spec.brokers}
        fault = placement_fault([each.broker_ids for each in placed], brokers)
        if fault is None and added not in (0, len(placed)):
            fault = f"{added} partitions are added, {len(placed)} are placed"
        if fault is not None:
            return _Refusal(topic.name, ErrorCode.invalid_replica_assignment, fault)
    fault = partitions_fault(present, added, call.spec.limits) if added else None
    return None if fault is None else _Refusal(topic.name, ErrorCode.policy_violation, fault)
