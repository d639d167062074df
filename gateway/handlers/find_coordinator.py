"""FindCoordinator 0-6: empty keys are refused here, because the scope would make them legal ones, and
what no ACL allows.

Key type 0 is a group, 1 a transactional id (versions above 0); any other is INVALID_REQUEST. From version 4
on each of several keys has its own answer.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from contracts.acls import Operation, ResourceType
from gateway.session.call import Answer, Call, Forward, Outcome
from wire.build import with_entries
from wire.messages import FindCoordinatorRequest, FindCoordinatorResponse

_KEYS_FROM: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_RESOURCES: Final = {
    _GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    _TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ErrorCode.transactional_id_authorization_failed),
}


class _Refusal(NamedTuple):
    error_code: ErrorCode
    error_message: str
    node_id: int = -1
    host: str = ""
    port: int = -1


def on_request(call: Call, request: FindCoordinatorRequest) -> Outcome:
    """Pass on or refuse."""
    key_type = getattr(request, "key_type", _GROUP)
    if call.api_version < _KEYS_FROM:
        fault = _fault(call, key_type, request.key)
        return Forward(request) if fault is None else call.answer(**fault._asdict())
    refused, accepted = [], []
    for key in request.coordinator_keys:
        fault = _fault(call, key_type, key)
        if fault is None:
            accepted.append(key)
        else:
            refused.append({"key": key, **fault._asdict()})
    if not accepted:
        return Answer(with_entries(call.response(), "coordinators", refused))
    call.exchange.notes = refused
    return Forward(replace(request, coordinator_keys=tuple(accepted)))


def on_response(call: Call, response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    """Add the refused keys."""
    return with_entries(response, "coordinators", call.exchange.notes) if call.exchange.notes else response


def _fault(call: Call, key_type: int, key: str) -> _Refusal | None:
    if key_type not in (_GROUP, _TRANSACTION):
        return _Refusal(ErrorCode.invalid_request, f"key type {key_type} is unknown")
    if key != "":
        resource_type, error_code = _RESOURCES[key_type]
        refused = call.refuses(resource_type, key, Operation.DESCRIBE)
        return _Refusal(error_code, "no ACL allows it") if refused else None
    if key_type == _GROUP:
        return _Refusal(ErrorCode.invalid_group_id, "the group id is empty")
    return _Refusal(ErrorCode.invalid_request, "the transactional id is empty")
