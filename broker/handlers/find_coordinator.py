"""FindCoordinator 0-3.

Behaviour: every group is coordinated here: there is one broker. Transactions are not served yet: a
transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients report at once, where they would
retry COORDINATOR_NOT_AVAILABLE until a time-out.
Deliberately not done: v4+ (several keys at once).
Version notes: v0 asks for groups only.
"""

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_GROUP: Final = 0
_TRANSACTION: Final = 1


def handle(broker: "Broker", call: "Call") -> None:
    """Answer at once."""
    key_type = getattr(call.request, "key_type", _GROUP)
    shape = response_shape(ApiKey.FIND_COORDINATOR, call.api_version)
    if key_type == _GROUP:
        call.reply(_response(shape, ErrorCode.none, None, *broker.node))
    elif key_type == _TRANSACTION:
        error = ErrorCode.transactional_id_authorization_failed
        call.reply(_response(shape, error, "transactions are not served yet", -1, "", -1))
    else:
        call.reply(_response(shape, ErrorCode.invalid_request, f"key type {key_type} is unknown", -1, "", -1))


def _response(shape: Any, error: ErrorCode, message: str | None, node_id: int, host: str, port: int) -> Any:
    return shape.make(
        throttle_time=duration(0),
        error_code=error,
        error_message=message,
        node_id=node_id,
        host=host,
        port=port,
    )
