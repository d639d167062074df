"""The transaction APIs: AddPartitionsToTxn 0-3, AddOffsetsToTxn 0-4, EndTxn 0-5, TxnOffsetCommit 0-5,
DescribeTransactions 0.

Beside the rewrite: empty transactional and group ids are refused here, because the scope would make them
legal ones; so are ids that no ACL allows, and topics that this client may not use. Partitions of internal
topics that a transaction writes to are not shown.
Deliberately not served: WriteTxnMarkers, and AddPartitionsToTxn 4-5, which brokers speak among themselves.
"""

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from contracts.acls import Operation, ResourceType
from gateway.session.call import Answer, Call, Forward, Outcome
from gateway.topic_access import refused_topics, split, with_refused, without_refused
from wire.api_table import ApiKey
from wire.build import with_entries
from wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TxnOffsetCommitRequest,
)
from wire.messages import DescribeTransactionsResponseTransactionState as TransactionState


def on_request(call: Call, request: Any) -> Outcome:
    """Refuse ids and topics this client may not use."""
    match call.api_key:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return _partitions(call, request)
        case ApiKey.TXN_OFFSET_COMMIT:
            return _offsets(call, request)
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return _description(call, request)
    error = _fault(call, request.transactional_id)
    if error is ErrorCode.none and call.api_key == ApiKey.ADD_OFFSETS_TO_TXN:
        error = _group_fault(call, request.group_id)
    return Forward(request) if error is ErrorCode.none else call.answer(error_code=error)


def _fault(call: Call, transactional_id: str, operation: Operation = Operation.WRITE) -> ErrorCode:
    if transactional_id == "":
        return ErrorCode.invalid_request
    if call.refuses(ResourceType.TRANSACTIONAL_ID, transactional_id, operation):
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.none


def _group_fault(call: Call, group_id: str) -> ErrorCode:
    if group_id == "":
        return ErrorCode.invalid_group_id
    if call.refuses(ResourceType.GROUP, group_id, Operation.READ):
        return ErrorCode.group_authorization_failed
    return ErrorCode.none


def _partitions(call: Call, request: AddPartitionsToTxnRequest) -> Outcome:
    """All partitions are added or none: what is not refused was not attempted."""
    topics = request.v3_and_below_topics
    error = _fault(call, request.v3_and_below_transactional_id)
    if error is not ErrorCode.none:
        return _added(call, [(topic, error) for topic in topics])
    refused = [call.refuses_topic(topic.name, Operation.WRITE) for topic in topics]
    if not any(refused):
        return Forward(request)
    failed, not_attempted = ErrorCode.topic_authorization_failed, ErrorCode.operation_not_attempted
    errors = [failed if is_refused else not_attempted for is_refused in refused]
    return _added(call, list(zip(topics, errors, strict=True)))


def _added(call: Call, errors: list[tuple[AddPartitionsToTxnTopic, ErrorCode]]) -> Answer:
    results = [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": error} for index in topic.partitions
            ],
        }
        for topic, error in errors
    ]
    return call.answer(results_by_topic_v3_and_below=results)


def _offsets(call: Call, request: TxnOffsetCommitRequest) -> Outcome:
    error = _fault(call, request.transactional_id)
    if error is ErrorCode.none:
        error = _group_fault(call, request.group_id)
    if error is ErrorCode.none:
        kept, call.exchange.notes = without_refused(call, request, Operation.READ)
        return Forward(kept)
    return call.answer(topics=refused_topics(call.response_class, request.topics, {"error_code": error}))


def _description(call: Call, request: DescribeTransactionsRequest) -> Outcome:
    kept, refused = [], []
    for each in request.transactional_ids:
        error = _fault(call, each, Operation.DESCRIBE)
        if error is ErrorCode.none:
            kept.append(each)
        else:
            refused.append(
                {
                    "error_code": error,
                    "transactional_id": each,
                    "transaction_start_time": -1,
                    "producer_id": -1,
                    "producer_epoch": -1,
                }
            )
    call.exchange.notes = refused
    return Forward(replace(request, transactional_ids=tuple(kept)) if refused else request)


def on_response(call: Call, response: Any) -> Any:
    """Answer for what was left out."""
    if call.api_key == ApiKey.TXN_OFFSET_COMMIT:
        return with_refused(call, response, Operation.READ, call.exchange.notes or ())
    if call.api_key == ApiKey.DESCRIBE_TRANSACTIONS:
        return _described(call, response)
    return response


def _described(call: Call, response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
    if call.instance.tells_clients_apart:
        states = tuple(_shown(call, state) for state in response.transaction_states)
        response = replace(response, transaction_states=states)
    return with_entries(response, "transaction_states", call.exchange.notes or ())


def _shown(call: Call, state: TransactionState) -> TransactionState:
    """Topics of a transaction are told to who may know of them."""
    kept, _ = split(state.topics, lambda one: call.refuses_topic(one.topic, Operation.DESCRIBE))
    return replace(state, topics=kept)
