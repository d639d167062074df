"""ListOffsets 0-6, OffsetForLeaderEpoch 2-4, DeleteRecords 0-2, DescribeProducers 0: topics with address
lists."""

from typing import Any

from gateway.call import Call, Forward
from gateway.topic_access import with_refused, without_refused


def on_request(call: Call, request: Any) -> Forward:
    """Leave out the topics this client may not use."""
    return Forward(without_refused(call, request))


def on_response(call: Call, response: Any) -> Any:
    """Answer for those left out."""
    return with_refused(call, response)
