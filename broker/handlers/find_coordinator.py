"""FindCoordinator (10), v0-6.

Behaviour: the leader of the partition of `__consumer_offsets` or `__transaction_state` that owns the key;
COORDINATOR_NOT_AVAILABLE while there is none.
Version notes: v0 asks for groups only; v1 transactional ids, error message, throttle time; v3 flexible; v4
several keys at once (KIP-699).
"""

from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.transactions import TransactionCoordinators
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

_KEYS_FROM: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1


class _Deps(Protocol):
    config: BrokerConfig
    groups: GroupCoordinators
    metadata: MetadataCache
    transactions: TransactionCoordinators


class _Found(NamedTuple):
    """The fields of an answer, or of one of several."""

    error_code: ErrorCode
    error_message: str | None
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(call: Call, deps: _Deps) -> None:
    request = call.request
    key_type = getattr(request, "key_type", _GROUP)
    shape = response_shape(ApiKey.FIND_COORDINATOR, call.api_version)
    if call.api_version < _KEYS_FROM:
        call.reply(shape.make(throttle_time=duration(0), **_found(deps, key_type, request.key)._asdict()))
        return
    coordinators = tuple(
        shape.nested("Coordinator", key=key, **_found(deps, key_type, key)._asdict())
        for key in request.coordinator_keys
    )
    call.reply(shape.make(throttle_time=duration(0), coordinators=coordinators))


def _found(deps: _Deps, key_type: int, key: str) -> _Found:
    if key_type not in (_GROUP, _TRANSACTION):
        return _Found(ErrorCode.invalid_request, f"key type {key_type} is unknown")
    if key_type == _TRANSACTION and key == "":
        return _Found(ErrorCode.invalid_request, "a transactional id is not empty")
    coordinators = deps.groups if key_type == _GROUP else deps.transactions
    node = coordinators.node_of(key)
    if node is None:
        return _Found(ErrorCode.coordinator_not_available, _why_none(deps, coordinators.topic))
    return _Found(ErrorCode.none, None, node.broker_id, node.host, node.port)


def _why_none(deps: _Deps, topic: str) -> str:
    needed, live = deps.config.internal_replication_factor, len(deps.metadata.brokers)
    if deps.metadata.topic(topic) is None and live < needed:
        return f"{topic} is made when {needed} brokers are there, now {live}"
    return "the coordinator's partition has no leader now"
