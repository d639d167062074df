"""FindCoordinator 0-3: empty keys are refused here, because the scope would make them legal ones.

Key type 0 is a group, 1 a transactional id (versions above 0); any other is INVALID_REQUEST.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from gateway.session.call import Answer, Call, Forward, Outcome
from wire.messages import FindCoordinatorRequest

_GROUP: Final = 0
_TRANSACTION: Final = 1


def on_request(call: Call, request: FindCoordinatorRequest) -> Outcome:
    """Pass on or refuse."""
    key_type = getattr(request, "key_type", _GROUP)
    if key_type not in (_GROUP, _TRANSACTION):
        return _refused(call, ErrorCode.invalid_request, f"key type {key_type} is unknown")
    if request.key == "":
        if key_type == _GROUP:
            return _refused(call, ErrorCode.invalid_group_id, "the group id is empty")
        return _refused(call, ErrorCode.invalid_request, "the transactional id is empty")
    return Forward(request)


def _refused(call: Call, error_code: ErrorCode, message: str) -> Answer:
    return call.answer(error_code=error_code, error_message=message, node_id=-1, host="", port=-1)
