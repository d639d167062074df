"""ConsumerGroupHeartbeat 0-1: the topics and patterns that a member of a consumer group subscribes to.

Beside the rewrite: an empty group id is refused here, because the scope would make it a legal one; a pattern
that has no form inside the instance is INVALID_REGULAR_EXPRESSION; groups and topics that the client may not
use are refused, topics that a pattern finds where they are fetched. Topic ids pass: a broker gives those of
names and patterns with this instance's scope, and looks at a member's own only where it has been given them.
"""

from kio.schema.errors import ErrorCode

from contracts.acls import Operation, ResourceType
from gateway.session.call import Answer, Call, Forward, Outcome
from wire.faults import NotMappable
from wire.messages import ConsumerGroupHeartbeatRequest
from wire.patterns import checked_pattern


def on_request(call: Call, request: ConsumerGroupHeartbeatRequest) -> Outcome:
    """Pass on or refuse."""
    if request.group_id == "":
        return _refused(call, ErrorCode.invalid_request, "GroupId can't be empty.")
    if call.refuses(ResourceType.GROUP, request.group_id, Operation.READ):
        return _refused(call, ErrorCode.group_authorization_failed, "Not authorized to access the group.")
    if any(call.refuses_topic(name, Operation.DESCRIBE) for name in request.subscribed_topic_names or ()):
        message = "Not authorized to access some of the topics."
        return _refused(call, ErrorCode.topic_authorization_failed, message)
    try:
        checked_pattern(getattr(request, "subscribed_topic_regex", None) or "")
    except NotMappable as fault:
        return _refused(call, ErrorCode.invalid_regular_expression, str(fault))
    return Forward(request)


def _refused(call: Call, error: ErrorCode, message: str) -> Answer:
    return call.answer(error_code=error, error_message=message)
