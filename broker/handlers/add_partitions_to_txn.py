"""AddPartitionsToTxn (24), v0-5.

Behaviour: v0-3 is what producers ask before they write to a partition; answered when the coordinator's record
is committed. If any partition does not exist none is added: the others are OPERATION_NOT_ATTEMPTED. Internal
topics are TOPIC_AUTHORIZATION_FAILED. From v4 on it is spoken between brokers only (several transactions,
KIP-890): to verify, or to take in what a broker that leads it is about to get the first batch of, internal
topics and all.
Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible; v5 TRANSACTION_ABORTABLE, which
is not answered here.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from broker.coordinators.answering import answering
from broker.coordinators.transactions import TransactionCoordinators
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.topic_names import INTERNAL_TOPICS
from broker.requests.call import Call
from broker.transactions.messages import Producer
from broker.transactions.state import TopicPartition
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.control import BUMPS_EPOCH_FROM
from wire.messages import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction

_FENCED_FROM: Final = 2
_BETWEEN_BROKERS_FROM: Final = 4
_Errors = dict[TopicPartition, ErrorCode]


class _Deps(Protocol):
    metadata: MetadataCache
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    if call.api_version >= _BETWEEN_BROKERS_FROM:
        _for_brokers(deps, call)
    else:
        _add(deps, call)


def _add(deps: _Deps, call: Call) -> None:
    version, request = call.api_version, call.request
    wanted = _partitions(request.v3_and_below_topics)
    token = answering(call, lambda errors: _response(version, errors))
    faults = _faults(deps, wanted)
    if faults:
        not_attempted = ErrorCode.operation_not_attempted
        token({each: faults.get(each, not_attempted) for each in wanted})
        return

    def told(error: ErrorCode) -> None:
        token(dict.fromkeys(wanted, error))

    transactional_id = request.v3_and_below_transactional_id
    shard = deps.transactions.of(transactional_id)
    if transactional_id == "":
        told(ErrorCode.invalid_request)
    elif isinstance(shard, ErrorCode):
        told(shard)
    else:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        partitions = frozenset(wanted)
        shard.submit(shard.core.add_partitions(transactional_id, producer, partitions, told, shard.now()))


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    """Each once, in the order asked."""
    found = (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)
    return tuple(dict.fromkeys(found))


def _faults(deps: _Deps, wanted: tuple[TopicPartition, ...]) -> _Errors:
    faults = {}
    for each in wanted:
        if each.topic in INTERNAL_TOPICS:
            faults[each] = ErrorCode.topic_authorization_failed
        elif deps.metadata.partition(*each) is None:
            faults[each] = ErrorCode.unknown_topic_or_partition
    return faults


def _for_brokers(deps: _Deps, call: Call) -> None:
    shape = response_shape(ApiKey.ADD_PARTITIONS_TO_TXN, call.api_version)
    if call.peer_broker is None:
        error = ErrorCode.cluster_authorization_failed
        call.reply(shape.make(throttle_time=duration(0), error_code=error, results_by_transaction=()))
        return
    transactions = call.request.transactions
    answer = answering(call, lambda found: _results(shape, found))
    found: dict[int, tuple[str, _Errors]] = {}

    def told(number: int, each: AddPartitionsToTxnTransaction, errors: _Errors) -> None:
        found[number] = (each.transactional_id, errors)
        if len(found) == len(transactions):
            answer([found[number] for number in range(len(found))])

    for number, each in enumerate(transactions):
        _decide(deps, each, partial(told, number, each))
    if not transactions:
        answer([])


def _decide(deps: _Deps, each: AddPartitionsToTxnTransaction, tell: Callable[[_Errors], None]) -> None:
    wanted = _partitions(each.topics)
    producer = Producer(each.producer_id, each.producer_epoch)
    shard = deps.transactions.of(each.transactional_id)
    if isinstance(shard, ErrorCode):
        tell(dict.fromkeys(wanted, shard))
    elif each.verify_only:
        tell(shard.core.known.verify(each.transactional_id, producer, wanted))
    else:

        def added(error: ErrorCode) -> None:
            tell(dict.fromkeys(wanted, error))

        partitions, version = frozenset(wanted), BUMPS_EPOCH_FROM
        shard.submit(
            shard.core.add_partitions(
                each.transactional_id, producer, partitions, added, shard.now(), version
            )
        )


def _results(shape: ResponseShape, found: list[tuple[str, _Errors]]) -> Payload:
    results = [
        shape.nested(
            "AddPartitionsToTxnResult",
            transactional_id=transactional_id,
            topic_results=_topics(shape, errors),
        )
        for transactional_id, errors in found
    ]
    return shape.make(
        throttle_time=duration(0), error_code=ErrorCode.none, results_by_transaction=tuple(results)
    )


def _response(version: int, errors: _Errors) -> Payload:
    if version < _FENCED_FROM:
        fenced, before = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch
        errors = {each: before if error is fenced else error for each, error in errors.items()}
    shape = response_shape(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    return shape.make(throttle_time=duration(0), results_by_topic_v3_and_below=_topics(shape, errors))


def _topics(shape: ResponseShape, errors: _Errors) -> tuple[Entity, ...]:
    by_topic: dict[str, list[Entity]] = {}
    for (topic, index), error in errors.items():
        one = shape.nested(
            "AddPartitionsToTxnPartitionResult", partition_index=index, partition_error_code=error
        )
        by_topic.setdefault(topic, []).append(one)
    return tuple(
        shape.nested("AddPartitionsToTxnTopicResult", name=name, results_by_partition=tuple(results))
        for name, results in by_topic.items()
    )
