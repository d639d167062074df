"""FindCoordinator (10), v0-3.

Behaviour: the leader of the partition of `__consumer_offsets` or `__transaction_state` that owns the key;
COORDINATOR_NOT_AVAILABLE while there is none.
Deliberately not done: v4+ (several keys at once).
Version notes: v0 asks for groups only; v1 transactional ids, error message, throttle time; v3 flexible.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.config import BrokerConfig
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.transactions import TransactionCoordinators
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration

_GROUP: Final = 0
_TRANSACTION: Final = 1


class _Deps(Protocol):
    config: BrokerConfig
    groups: GroupCoordinators
    metadata: MetadataCache
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    """Answer at once."""
    key_type = getattr(call.request, "key_type", _GROUP)
    shape = response_shape(ApiKey.FIND_COORDINATOR, call.api_version)
    if key_type not in (_GROUP, _TRANSACTION):
        call.reply(_response(shape, ErrorCode.invalid_request, f"key type {key_type} is unknown"))
        return
    if key_type == _TRANSACTION and call.request.key == "":
        call.reply(_response(shape, ErrorCode.invalid_request, "a transactional id is not empty"))
        return
    coordinators = deps.groups if key_type == _GROUP else deps.transactions
    node = coordinators.node_of(call.request.key)
    if node is None:
        call.reply(_response(shape, ErrorCode.coordinator_not_available, _why_none(deps, coordinators.topic)))
    else:
        call.reply(_response(shape, ErrorCode.none, None, node.broker_id, node.host, node.port))


def _why_none(deps: _Deps, topic: str) -> str:
    needed, live = deps.config.internal_replication_factor, len(deps.metadata.brokers)
    if deps.metadata.topic(topic) is None and live < needed:
        return f"{topic} is made when {needed} brokers are there, now {live}"
    return "the coordinator's partition has no leader now"


def _response(
    shape: ResponseShape,
    error: ErrorCode,
    message: str | None,
    node_id: int = -1,
    host: str = "",
    port: int = -1,
) -> Payload:
    return shape.make(
        throttle_time=duration(0),
        error_code=error,
        error_message=message,
        node_id=node_id,
        host=host,
        port=port,
    )
