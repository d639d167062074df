"""DeleteTopics 1-6, by name or (6) by id: the rewrite, topics with address lists, ids that are not the
instance's own, which stay here, and the rate at which partitions are deleted (refused from version 5 on,
KIP-599)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from contracts.acls import Operation
from gateway.mutation_quota import MutationQuota
from gateway.owned_topics import Decision, with_ids_known
from gateway.session.call import Call, Forward, Later, Outcome
from gateway.session.deps import ChangesWithinRate
from gateway.topic_access import split
from wire.build import with_entries
from wire.messages import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

_Wanted: TypeAlias = tuple[str, DeleteTopicState | None]
"""A topic's name, and its entry where the request has more than names."""
_Refusal: TypeAlias = dict[str, object]


class _Noted(NamedTuple):
    """What the reply is completed with."""

    refused: list[_Refusal]
    quota: MutationQuota


def on_request(call: Call, request: DeleteTopicsRequest) -> Decision:
    """Leave out the topics this client may not use, and what the instance has no rate for."""
    if not hasattr(request, "topics"):
        kept, refused = split(request.topic_names, partial(_is_refused, call))
        return _counted_first(call, request, [(name, None) for name in kept], list(map(_refusal, refused)))
    ids = (topic.topic_id for topic in request.topics)
    return with_ids_known(call, ids, partial(_decided, call, request))


def _decided(call: Call, request: DeleteTopicsRequest) -> Decision:
    kept: list[_Wanted] = []
    refused: list[_Refusal] = []
    for topic in request.topics:
        topic_id = topic.topic_id
        name = topic.name if topic_id is None else call.instance.topic_ids.name(topic_id)
        if topic_id is not None and (name is None or topic.name is not None):
            error_code = ErrorCode.unknown_topic_id if topic.name is None else ErrorCode.invalid_request
            refused.append({"name": topic.name, "topic_id": topic_id, "error_code": error_code})
        elif name is None:
            refused.append({"name": None, "error_code": ErrorCode.invalid_request})
        elif _is_refused(call, name):
            refused.append(_refusal(topic.name) | {"topic_id": topic_id})
        else:
            kept.append((name, topic))
    if not kept and refused:
        return call.answer(responses=refused)
    return _counted_first(call, request, kept, refused)


def _is_refused(call: Call, name: str) -> bool:
    return call.refuses_topic(name, Operation.DELETE)


def _refusal(name: str | None) -> _Refusal:
    return {"name": name, "error_code": ErrorCode.topic_authorization_failed}


def _counted_first(
    call: Call, request: DeleteTopicsRequest, wanted: Sequence[_Wanted], refused: list[_Refusal]
) -> Later:
    """The rate needs the partitions of what is deleted."""
    return Later(partial(_within_rate, call, request, wanted, refused))


async def _within_rate(
    call: Call,
    request: DeleteTopicsRequest,
    wanted: Sequence[_Wanted],
    refused: list[_Refusal],
    deps: ChangesWithinRate,
) -> Outcome:
    counts = await deps.partitions_of({name for name, _ in wanted})
    quota = MutationQuota(call)
    while wait_ms := quota.held_back_ms:
        await deps.pause(wait_ms)
    kept: list[_Wanted] = []
    for name, entry in wanted:
        if quota.admits(name, counts.get(name, 0)):
            kept.append((name, entry))
            continue
        refusal = {"error_code": ErrorCode.throttling_quota_exceeded, "error_message": quota.refusal}
        called = {"name": name} if entry is None else {"name": entry.name, "topic_id": entry.topic_id}
        refused.append(called | refusal)
    if not kept and refused:
        answer = call.answer(responses=refused)
        return answer._replace(response=quota.told(answer.response))
    call.exchange.notes = _Noted(refused, quota)
    if not hasattr(request, "topics"):
        return Forward(replace(request, topic_names=tuple(TopicName(name) for name, _ in kept)))
    return Forward(replace(request, topics=tuple(entry for _, entry in kept if entry is not None)))


def on_response(call: Call, response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """Answer for those left out."""
    refused, quota = call.exchange.notes
    quota.settle((_name(call, one), one.error_code) for one in response.responses)
    answer: DeleteTopicsResponse = quota.told(with_entries(response, "responses", refused))
    return answer


def _name(call: Call, result: DeletableTopicResult) -> str | None:
    """The topic's, also of one that was named by its id."""
    topic_id = getattr(result, "topic_id", None)
    return call.instance.topic_ids.name(topic_id) if result.name is None and topic_id else result.name
