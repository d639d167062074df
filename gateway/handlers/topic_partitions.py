"""ListOffsets 0-11, OffsetForLeaderEpoch 2-4, DeleteRecords 0-2, DescribeProducers 0: topics that
some clients may not use."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from contracts.acls import Operation
from gateway.session.call import Answer, Call, Forward, Later, Outcome
from gateway.session.injection import refusal_of_all
from gateway.topic_access import refused_topics, with_refused, without_refused
from wire.api_table import ApiKey

_OPERATIONS: Final[Mapping[int, Operation]] = {
    ApiKey.LIST_OFFSETS: Operation.DESCRIBE,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Operation.DESCRIBE,
    ApiKey.DELETE_RECORDS: Operation.DELETE,
    ApiKey.DESCRIBE_PRODUCERS: Operation.READ,
}


def on_request(call: Call, request: Any) -> Forward:
    """Leave out the topics this client may not use."""
    kept, call.exchange.notes = without_refused(call, request, _OPERATIONS[call.api_key])
    return Forward(kept)


def on_response(call: Call, response: Any) -> Any:
    """Answer for those left out."""
    return with_refused(call, response, _OPERATIONS[call.api_key], call.exchange.notes)


def on_fault(call: Call, request: Any) -> Later | None:
    """An injected fault may want a ListOffsets refused."""
    error_code = refusal_of_all(call)
    return None if error_code is None else Later(partial(_refused, call, request, error_code))


async def _refused(call: Call, request: Any, error_code: ErrorCode, _deps: object) -> Outcome:
    known = {"error_code": error_code, "offset": -1, "timestamp": -1, "leader_epoch": -1}
    response = call.response()
    return Answer(replace(response, topics=refused_topics(type(response), request.topics, known)))
