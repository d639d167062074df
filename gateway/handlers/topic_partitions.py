"""ListOffsets 0-11, OffsetForLeaderEpoch 2-4, DeleteRecords 0-2, DescribeProducers 0: topics with address
lists."""

from dataclasses import replace
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from gateway.session.call import Answer, Call, Forward, Later, Outcome
from gateway.session.injection import refusal_of_all
from gateway.topic_access import refused_topics, with_refused, without_refused


def on_request(call: Call, request: Any) -> Forward:
    """Leave out the topics this client may not use."""
    return Forward(without_refused(call, request))


def on_response(call: Call, response: Any) -> Any:
    """Answer for those left out."""
    return with_refused(call, response)


def on_fault(call: Call, request: Any) -> Later | None:
    """An injected fault may want a ListOffsets refused."""
    error_code = refusal_of_all(call)
    return None if error_code is None else Later(partial(_refused, call, request, error_code))


async def _refused(call: Call, request: Any, error_code: ErrorCode, _deps: object) -> Outcome:
    known = {"error_code": error_code, "offset": -1, "timestamp": -1, "leader_epoch": -1}
    response = call.response()
    return Answer(replace(response, topics=refused_topics(type(response), request.topics, known)))
