"""The transaction APIs: AddPartitionsToTxn 0-3, AddOffsetsToTxn 0-4, EndTxn 0-4, TxnOffsetCommit 0-4,
DescribeTransactions 0.

Beside the rewrite: empty transactional and group ids are refused here, because the scope would make them
legal ones; and topics with address lists. ListTransactions needs nothing more than the rewrite, which shows
an instance its own; partitions of internal topics that a transaction writes to are not shown either.
Deliberately not served: WriteTxnMarkers, and AddPartitionsToTxn 4, which brokers speak among themselves.
"""

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from gateway.session.call import Answer, Call, Forward, Outcome
from gateway.topic_access import refused_topics, with_refused, without_refused
from wire.api_table import ApiKey
from wire.build import with_entries
from wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    TxnOffsetCommitRequest,
)


def on_request(call: Call, request: Any) -> Outcome:
    """Refuse empty ids and topics this client may not use."""
    match call.api_key:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return _partitions(call, request)
        case ApiKey.TXN_OFFSET_COMMIT:
            return _offsets(call, request)
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return _description(call, request)
    if request.transactional_id == "":
        return call.answer(error_code=ErrorCode.invalid_request)
    if call.api_key == ApiKey.ADD_OFFSETS_TO_TXN and request.group_id == "":
        return call.answer(error_code=ErrorCode.invalid_group_id)
    return Forward(request)


def _partitions(call: Call, request: AddPartitionsToTxnRequest) -> Outcome:
    """All partitions are added or none: what is not refused was not attempted."""
    topics = request.v3_and_below_topics
    if request.v3_and_below_transactional_id == "":
        return _added(call, [(topic, ErrorCode.invalid_request) for topic in topics])
    refused = [call.refuses_topic(topic.name) for topic in topics]
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
    error = None
    if request.transactional_id == "":
        error = ErrorCode.invalid_request
    elif request.group_id == "":
        error = ErrorCode.invalid_group_id
    if error is None:
        return Forward(without_refused(call, request))
    return call.answer(topics=refused_topics(call.response_class, request.topics, {"error_code": error}))


def _description(call: Call, request: DescribeTransactionsRequest) -> Forward:
    ids = request.transactional_ids
    if "" in ids:
        call.exchange.notes = ids.count("")
        request = replace(request, transactional_ids=tuple(each for each in ids if each))
    return Forward(request)


def on_response(call: Call, response: Any) -> Any:
    """Answer for what was left out."""
    if call.api_key == ApiKey.TXN_OFFSET_COMMIT:
        return with_refused(call, response)
    if call.api_key == ApiKey.DESCRIBE_TRANSACTIONS and call.exchange.notes:
        refused = {
            "error_code": ErrorCode.invalid_request,
            "transaction_start_time": -1,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        return with_entries(response, "transaction_states", [refused] * call.exchange.notes)
    return response
