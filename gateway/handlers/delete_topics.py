"""DeleteTopics 1-6, by name or (6) by id: the rewrite, topics with address lists, and ids that are not the
instance's own, which stay here."""

from dataclasses import replace
from functools import partial

from kio.schema.errors import ErrorCode

from contracts.acls import Operation
from gateway.owned_topics import Decision, with_ids_known
from gateway.session.call import Call, Forward
from gateway.topic_access import split
from wire.build import with_entries
from wire.messages import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState


def on_request(call: Call, request: DeleteTopicsRequest) -> Decision:
    """Leave out the topics this client may not use."""
    if not hasattr(request, "topics"):
        kept, refused = split(request.topic_names, partial(_is_refused, call))
        if refused:
            call.exchange.notes = [_refusal(name) for name in refused]
            request = replace(request, topic_names=kept)
        return Forward(request)
    ids = (topic.topic_id for topic in request.topics)
    return with_ids_known(call, ids, partial(_decided, call, request))


def _decided(call: Call, request: DeleteTopicsRequest) -> Decision:
    kept: list[DeleteTopicState] = []
    refused: list[dict[str, object]] = []
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
            kept.append(topic)
    if not kept and refused:
        return call.answer(responses=refused)
    call.exchange.notes = refused
    return Forward(replace(request, topics=tuple(kept)))


def _is_refused(call: Call, name: str) -> bool:
    return call.refuses_topic(name, Operation.DELETE)


def _refusal(name: str | None) -> dict[str, object]:
    return {"name": name, "error_code": ErrorCode.topic_authorization_failed}


def on_response(call: Call, response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """Answer for those left out."""
    return with_entries(response, "responses", call.exchange.notes) if call.exchange.notes else response
