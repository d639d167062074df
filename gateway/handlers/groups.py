"""The group APIs: OffsetCommit 2-10, OffsetFetch 1-10, OffsetDelete 0, JoinGroup 0-9, SyncGroup 0-5,
Heartbeat 0-4, LeaveGroup 0-5, DescribeGroups 0-6, DeleteGroups 0-2, ConsumerGroupDescribe 0-1.

Beside the rewrite: an empty group id is INVALID_GROUP_ID here, because the scope would make it a legal one;
groups that no ACL allows, topics that a client may not use, and ids of topics (OffsetCommit 10, OffsetFetch
10) that are not the instance's.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.protocol import Entity

from contracts.acls import Operation, ResourceType
from contracts.specs import Engine
from gateway.owned_topics import Decision, check_own, with_ids_known
from gateway.rules.acls import NOT_ASKED
from gateway.session.call import Answer, Call, Forward, Outcome
from gateway.topic_access import Refused, refused_topics, with_refused, without_refused
from wire.api_table import ApiKey
from wire.build import build, entry_class, known_to, with_entries
from wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseDescribedGroup,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponseDescribedGroup,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

_Described = TypeVar(
    "_Described", DescribeGroupsResponseDescribedGroup, ConsumerGroupDescribeResponseDescribedGroup
)
_LISTS: Final = {
    ApiKey.DESCRIBE_GROUPS: ("groups", "groups"),
    ApiKey.DELETE_GROUPS: ("groups_names", "results"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("group_ids", "groups"),
}
"""APIs about several groups: the request's list of ids, the response's list of answers."""
_OPERATIONS: Final[Mapping[int, Operation]] = {
    ApiKey.OFFSET_COMMIT: Operation.READ,
    ApiKey.OFFSET_FETCH: Operation.DESCRIBE,
    ApiKey.OFFSET_DELETE: Operation.DELETE,
    ApiKey.JOIN_GROUP: Operation.READ,
    ApiKey.SYNC_GROUP: Operation.READ,
    ApiKey.HEARTBEAT: Operation.READ,
    ApiKey.LEAVE_GROUP: Operation.READ,
    ApiKey.DESCRIBE_GROUPS: Operation.DESCRIBE,
    ApiKey.CONSUMER_GROUP_DESCRIBE: Operation.DESCRIBE,
    ApiKey.DELETE_GROUPS: Operation.DELETE,
}
"""What each does with the group."""
_OF_TOPICS: Final[Mapping[int, Operation]] = {
    ApiKey.OFFSET_COMMIT: Operation.READ,
    ApiKey.OFFSET_FETCH: Operation.DESCRIBE,
    ApiKey.OFFSET_DELETE: Operation.READ,
}
"""What some do with topics."""
_OPERATIONS_FROM: Final = {ApiKey.DESCRIBE_GROUPS: 3, ApiKey.CONSUMER_GROUP_DESCRIBE: 0}
"""Versions that tell what the client may do."""


def on_request(call: Call, request: Any) -> Decision:
    """Refuse groups, leave out topics this client may not use."""
    if call.api_key in _LISTS:
        return _listed(call, request)
    if hasattr(request, "groups"):
        ids = (each for group in request.groups for each in _ids(group.topics))
        return with_ids_known(call, ids, partial(_of_several, call, request))
    fault = _fault(call, request.group_id)
    if fault is not None:
        return _refused(call, request, fault)
    if call.api_key not in _OF_TOPICS:
        return Forward(request)
    return with_ids_known(call, _ids(request.topics), partial(_of_one, call, request))


def _fault(call: Call, group_id: str) -> ErrorCode | None:
    if group_id == "":
        return ErrorCode.invalid_group_id
    refused = call.refuses(ResourceType.GROUP, group_id, _OPERATIONS[call.api_key])
    return ErrorCode.group_authorization_failed if refused else None


def _listed(
    call: Call, request: DescribeGroupsRequest | DeleteGroupsRequest | ConsumerGroupDescribeRequest
) -> Outcome:
    ids_field, answers_field = _LISTS[ApiKey(call.api_key)]
    kept: list[GroupId] = []
    refused: list[dict[str, object]] = []
    for group_id in getattr(request, ids_field):
        fault = _fault(call, group_id)
        if fault is None:
            kept.append(group_id)
        else:
            refused.append({"group_id": group_id, "error_code": fault})
    if refused and not kept:
        return Answer(with_entries(call.response(), answers_field, refused))
    call.exchange.notes = refused
    if not refused:
        return Forward(request)
    changed: Any = {ids_field: tuple(kept)}
    return Forward(replace(request, **changed))


def _ids(topics: Iterable[object] | None) -> Iterator[UUID | None]:
    return (getattr(topic, "topic_id", None) for topic in topics or ())


def _of_one(call: Call, request: OffsetCommitRequest | OffsetFetchRequest) -> Outcome:
    kept, refused = without_refused(call, request, _OF_TOPICS[call.api_key])
    if refused and not kept.topics:
        return Answer(with_refused(call, call.response(), _OF_TOPICS[call.api_key], refused))
    call.exchange.notes = refused
    return Forward(kept)


def _of_several(call: Call, request: OffsetFetchRequest) -> Outcome:
    """Each group for itself: what is refused of it is added to its part of the answer, or is all of that."""
    entry, operation = entry_class(call.response_class, "groups"), _OF_TOPICS[call.api_key]
    kept: list[OffsetFetchRequestGroup] = []
    answers: list[Entity] = []
    refused: dict[str, list[Refused]] = {}
    for asked in request.groups:
        fault = _fault(call, asked.group_id)
        if fault is not None:
            answers.append(build(entry, {"group_id": asked.group_id, "error_code": fault}))
            continue
        group, refused_topics = without_refused(call, asked, operation)
        if refused_topics and not group.topics:
            empty = build(entry, {"group_id": asked.group_id})
            answers.append(with_refused(call, empty, operation, refused_topics))
            continue
        kept.append(group)
        refused.setdefault(asked.group_id, []).extend(refused_topics)
    call.exchange.notes = answers, refused
    if answers and not kept:
        return Answer(_of_several_answered(call, cast(OffsetFetchResponse, call.response())))
    return Forward(replace(request, groups=tuple(kept)))


def _of_several_answered(call: Call, response: OffsetFetchResponse) -> OffsetFetchResponse:
    answers, refused = call.exchange.notes
    operation = _OF_TOPICS[call.api_key]
    groups = [
        with_refused(call, group, operation, refused.pop(group.group_id, ())) for group in response.groups
    ]
    return replace(response, groups=(*groups, *answers))


def _refused(call: Call, request: OffsetCommitRequest | OffsetFetchRequest, fault: ErrorCode) -> Answer:
    said = {"error_code": fault, "generation_id": -1, "protocol_name": ""}
    known = known_to(call.response_class, said)
    if call.api_key in _OF_TOPICS and not known:
        # Versions without an error of their own say it for every partition.
        partition = {"error_code": fault, "committed_offset": -1, "metadata": ""}
        known["topics"] = refused_topics(call.response_class, request.topics or (), partition)
    return call.answer(**known)


def _shown(call: Call, group: _Described) -> _Described:
    """An Apache Kafka saw our own address as its members', which is nobody's business."""
    if call.cluster.spec.engine is Engine.APACHE:
        members = tuple(replace(member, client_host="") for member in group.members)
        group = replace(group, members=members)
    rights = call.rights
    if rights is None:
        return group
    asked_from = _OPERATIONS_FROM[ApiKey(call.api_key)]
    if call.api_version < asked_from or group.authorized_operations == NOT_ASKED:
        return group
    return replace(group, authorized_operations=rights.told(ResourceType.GROUP, group.group_id))


def _without_hidden(
    call: Call, group: ConsumerGroupDescribeResponseDescribedGroup
) -> ConsumerGroupDescribeResponseDescribedGroup:
    """Without its members where it consumes a topic that the client may not see, as in Kafka."""
    if not any(call.refuses_topic(name, Operation.DESCRIBE) for name in _topics_of(group)):
        return group
    fault = ErrorCode.topic_authorization_failed
    said = "the group consumes topics that you may not see"
    return replace(group, error_code=fault, error_message=said, members=())


def _topics_of(group: ConsumerGroupDescribeResponseDescribedGroup) -> set[str]:
    found: set[str] = set()
    for member in group.members:
        found.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            found.update(each.topic_name for each in assignment.topic_partitions)
    return found


def on_response(call: Call, response: Any) -> Any:
    """Answer for what was left out. Raises: ForeignName."""
    if hasattr(response, "groups") and call.api_key == ApiKey.OFFSET_FETCH:
        check_own(call, (each for group in response.groups for each in _ids(group.topics)))
        return _of_several_answered(call, response)
    if call.api_key in _OF_TOPICS:
        check_own(call, _ids(response.topics))
        return with_refused(call, response, _OF_TOPICS[call.api_key], call.exchange.notes)
    if call.api_key not in _LISTS:
        return response
    if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE and call.instance.tells_clients_apart:
        hidden = partial(_without_hidden, call)
        response = replace(response, groups=tuple(map(hidden, response.groups)))
    if call.api_key in _OPERATIONS_FROM:
        response = replace(response, groups=tuple(_shown(call, group) for group in response.groups))
    _, answers_field = _LISTS[ApiKey(call.api_key)]
    return with_entries(response, answers_field, call.exchange.notes) if call.exchange.notes else response
