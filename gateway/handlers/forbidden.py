"""Known APIs about the cluster: CLUSTER_AUTHORIZATION_FAILED in their own form, nothing forwarded.

ElectLeaders 0-2, AlterPartitionReassignments 0-1, ListPartitionReassignments 0. Placement is the operator's.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from gateway.session.call import Answer, Call
from wire.api_table import ApiKey
from wire.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest

_REFUSED: Final = ErrorCode.cluster_authorization_failed
_ERROR: Final = {"error_code": _REFUSED, "error_message": "not available to tenants"}


def on_request(call: Call, request: Any) -> Answer:
    """Refuse; lists of results have one entry per thing asked."""
    match call.api_key:
        case ApiKey.ELECT_LEADERS:
            return call.answer(error_code=_REFUSED, replica_election_results=_elections(request))
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return call.answer(**_ERROR, responses=_reassignments(request))
    return call.answer(**_ERROR)


def _elections(request: ElectLeadersRequest) -> list[dict[str, object]]:
    """Every partition asked for carries the error: version 0 has no other, and clients count the entries."""
    return [
        {
            "topic": asked.topic,
            "partition_result": [{"partition_id": partition, **_ERROR} for partition in asked.partitions],
        }
        for asked in request.topic_partitions or ()
    ]


def _reassignments(request: AlterPartitionReassignmentsRequest) -> list[dict[str, object]]:
    """Refuses each one; Java's AdminClient takes a refusal without entries for a broken broker."""
    return [
        {
            "name": asked.name,
            "partitions": [
                {"partition_index": partition.partition_index, **_ERROR} for partition in asked.partitions
            ],
        }
        for asked in request.topics
    ]
