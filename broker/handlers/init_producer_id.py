"""InitProducerId (22), v0-4.

Behaviour: a new producer id with epoch 0, never used before, also after kill -9. A producer that brings its
old id (v3, KIP-360) gets a new one too, as from Kafka without a transactional id.
Deliberately not done: transactions. A transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which
every client reports at once, where COORDINATOR_NOT_AVAILABLE would be retried until a time-out; an empty one
gets INVALID_REQUEST.
Versions: v2 flexible; v3 producer id and epoch; v4 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Draw an id."""
    transactional_id = call.request.transactional_id
    producer_id = producer_epoch = -1
    if transactional_id is not None:
        error_code = ErrorCode.transactional_id_authorization_failed
        if transactional_id == "":
            error_code = ErrorCode.invalid_request
    else:
        try:
            producer_id, producer_epoch = broker.producer_ids.draw(), 0
            error_code = ErrorCode.none
        except OSError as error:
            broker.storage_failed("a block of producer ids cannot be kept", error)
            error_code = ErrorCode.coordinator_not_available
    shape = response_shape(ApiKey.INIT_PRODUCER_ID, call.api_version)
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=error_code,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
    )
