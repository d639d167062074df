"""The group APIs: OffsetCommit 2-8, OffsetFetch 1-7, OffsetDelete 0, JoinGroup 0-9, SyncGroup 0-5,
Heartbeat 0-4, LeaveGroup 0-5, DescribeGroups 0-6, DeleteGroups 0-2.

Beside the rewrite: an empty group id is INVALID_GROUP_ID here, because the scope would make it a legal one;
and topics with address lists.
"""

from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from contracts.specs import Engine
from gateway.session.call import Answer, Call, Forward, Outcome
from gateway.topic_access import refused_topics, with_refused, without_refused
from wire.api_table import ApiKey
from wire.build import known_to, with_entries
from wire.messages import DescribedGroup

_LISTS: Final = {
    ApiKey.DESCRIBE_GROUPS: ("groups", "groups"),
    ApiKey.DELETE_GROUPS: ("groups_names", "results"),
}
"""APIs about several groups: the request's list of ids, the response's list of answers."""
_WITH_TOPICS: Final = (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE)
_INVALID: Final = ErrorCode.invalid_group_id


def on_request(call: Call, request: Any) -> Outcome:
    """Refuse empty group ids, leave out topics this client may not use."""
    if call.api_key in _LISTS:
        ids_field, _ = _LISTS[ApiKey(call.api_key)]
        ids = getattr(request, ids_field)
        if "" in ids:
            call.exchange.notes = ids.count("")
            request = replace(request, **{ids_field: tuple(group for group in ids if group)})
        return Forward(request)
    if request.group_id == "":
        return _refused(call, request)
    return Forward(without_refused(call, request) if call.api_key in _WITH_TOPICS else request)


def _refused(call: Call, request: Any) -> Answer:
    said = {"error_code": _INVALID, "generation_id": -1, "protocol_name": ""}
    known = known_to(call.response_class, said)
    if call.api_key in _WITH_TOPICS and not known:
        # Versions without an error of their own say it for every partition.
        partition = {"error_code": _INVALID, "committed_offset": -1, "metadata": ""}
        known["topics"] = refused_topics(call.response_class, request.topics or (), partition)
    return call.answer(**known)


def _without_hosts(group: DescribedGroup) -> DescribedGroup:
    """It saw our own address, which is nobody's business."""
    return replace(group, members=tuple(replace(member, client_host="") for member in group.members))


def on_response(call: Call, response: Any) -> Any:
    """Answer for what was left out."""
    if call.api_key in _WITH_TOPICS:
        return with_refused(call, response)
    if call.api_key == ApiKey.DESCRIBE_GROUPS and call.cluster.spec.engine is Engine.APACHE:
        response = replace(response, groups=tuple(map(_without_hosts, response.groups)))
    if not call.exchange.notes:
        return response
    _, answers_field = _LISTS[ApiKey(call.api_key)]
    refused = {"group_id": "", "error_code": _INVALID}
    return with_entries(response, answers_field, [refused] * call.exchange.notes)
