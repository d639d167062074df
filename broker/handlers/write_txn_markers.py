"""WriteTxnMarkers (27), v1-2: between brokers, and for operators who end a hanging transaction.

Behaviour: appends a control batch to each partition; answered when all are committed, or why they are not;
REQUEST_TIMED_OUT for those that take too long, which may be committed yet: writing a marker twice does no
harm. In a partition of the offsets topic the group coordinator acts on it. Behind a gateway it is not served;
a peer that proved the deployment's secret without speaking for a client may ask.
Versions: v2 the transaction's version (KIP-1228): from 2 on a late copy does not end the next transaction.
"""

from functools import partial
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.transactions import TransactionCoordinators
from broker.groups.messages import Producer
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.control import EndMarker
from wire.messages import WriteTxnMarkersRequest

_SAYS_VERSION_FROM: Final = 2
_TIMEOUT_MS: Final = 5_000
"""One partition whose followers are away must not hold back the markers of others for long."""
_Errors = dict[tuple[int, str, int], ErrorCode]
"""(position of the marker, topic, partition) -> error."""


class _Deps(Protocol):
    later: Later
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    """Write each marker to each partition, gather what becomes of them."""
    version, request = call.api_version, call.request
    answer = answering(call, lambda errors: _response(version, request, errors))
    wanted = {
        (number, topic.name, index): marker
        for number, marker in enumerate(request.markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    }
    if not call.may_operate or not wanted:
        answer(dict.fromkeys(wanted, ErrorCode.cluster_authorization_failed))
        return
    errors: _Errors = {}

    def gather(key: tuple[int, str, int], error: ErrorCode) -> None:
        errors[key] = error
        if len(errors) == len(wanted):
            timer.cancel()
            answer(errors)

    def give_up() -> None:
        answer(dict.fromkeys(wanted, ErrorCode.request_timed_out) | errors)

    timer = deps.later.after_ms(_TIMEOUT_MS, give_up)
    for key, marker in wanted.items():
        _, topic, index = key
        producer = Producer(marker.producer_id, marker.producer_epoch)
        of_version = marker.transaction_version if version >= _SAYS_VERSION_FROM else 0
        end = EndMarker(marker.transaction_result, marker.coordinator_epoch, of_version)
        deps.transactions.marker_writer.write(topic, index, producer, end, partial(gather, key))


def _response(version: int, request: WriteTxnMarkersRequest, errors: _Errors) -> Payload:
    shape = response_shape(ApiKey.WRITE_TXN_MARKERS, version)
    return shape.make(
        markers=tuple(
            shape.nested(
                "WritableTxnMarkerResult",
                producer_id=marker.producer_id,
                topics=tuple(
                    shape.nested(
                        "WritableTxnMarkerTopicResult",
                        name=topic.name,
                        partitions=tuple(
                            shape.nested(
                                "WritableTxnMarkerPartitionResult",
                                partition_index=index,
                                error_code=errors[number, topic.name, index],
                            )
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for number, marker in enumerate(request.markers)
        )
    )
