"""InitProducerId 0-5: an empty transactional id is INVALID_REQUEST; null is plain idempotence."""

from kio.schema.errors import ErrorCode

from contracts.acls import Operation, ResourceType
from gateway.session.call import Call, Forward, Outcome
from wire.messages import InitProducerIdRequest


def on_request(call: Call, request: InitProducerIdRequest) -> Outcome:
    """Pass on, or refuse the empty id, which the scope would make a legal one."""
    if request.transactional_id == "":
        return call.answer(error_code=ErrorCode.invalid_request, producer_id=-1, producer_epoch=-1)
    unmade = {"producer_id": -1, "producer_epoch": -1}
    if request.transactional_id is not None:
        if call.refuses(ResourceType.TRANSACTIONAL_ID, request.transactional_id, Operation.WRITE):
            return call.answer(error_code=ErrorCode.transactional_id_authorization_failed, **unmade)
    elif call.refuses_of_cluster(Operation.IDEMPOTENT_WRITE) and not _writes_somewhere(call):
        return call.answer(error_code=ErrorCode.cluster_authorization_failed, **unmade)
    return Forward(request)


def _writes_somewhere(call: Call) -> bool:
    """Who may write to any topic may be idempotent there (KIP-679)."""
    rights = call.rights
    return rights is None or rights.allows_some(Operation.WRITE, ResourceType.TOPIC)
