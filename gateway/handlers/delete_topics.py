"""DeleteTopics 1-5, by name: the rewrite, and topics with address lists. By id (6) is not offered."""

from dataclasses import replace

from kio.schema.errors import ErrorCode

from gateway.session.call import Call, Forward
from gateway.topic_access import split
from wire.build import with_entries
from wire.messages import DeleteTopicsRequest, DeleteTopicsResponse


def on_request(call: Call, request: DeleteTopicsRequest) -> Forward:
    """Leave out the topics this client may not use."""
    kept, refused = split(request.topic_names, call.refuses_topic)
    if refused:
        call.exchange.notes = refused
        request = replace(request, topic_names=kept)
    return Forward(request)


def on_response(call: Call, response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """Answer for those left out."""
    if not call.exchange.notes:
        return response
    refused = [
        {"name": name, "error_code": ErrorCode.topic_authorization_failed} for name in call.exchange.notes
    ]
    return with_entries(response, "responses", refused)
