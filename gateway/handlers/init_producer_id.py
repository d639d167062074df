"""InitProducerId 0-5: an empty transactional id is INVALID_REQUEST; null is plain idempotence."""

from kio.schema.errors import ErrorCode

from gateway.session.call import Call, Forward, Outcome
from wire.messages import InitProducerIdRequest


def on_request(call: Call, request: InitProducerIdRequest) -> Outcome:
    """Pass on, or refuse the empty id, which the scope would make a legal one."""
    if request.transactional_id == "":
        return call.answer(error_code=ErrorCode.invalid_request, producer_id=-1, producer_epoch=-1)
    return Forward(request)
