"""OffsetCommit and TxnOffsetCommit alike: which partitions can be committed, how each is answered."""

from typing import TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordination.effects import Token
from broker.coordinators.answering import answering
from broker.groups.messages import OffsetToCommit
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.build import response
from wire.messages import OffsetCommitRequest, TxnOffsetCommitRequest

Errors: TypeAlias = dict[tuple[str, int], ErrorCode]
"""By topic and partition."""
_Request: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest


def sort_offsets(
    request: _Request, metadata: MetadataCache, fault: ErrorCode | None
) -> tuple[Errors, tuple[OffsetToCommit, ...]]:
    """The partitions that are refused at once, all of them for a `fault` of the coordinator, and the rest."""
    refused: Errors = {}
    offsets = []
    for topic in request.topics:
        for one in topic.partitions:
            name = topic.name, one.partition_index
            if fault is not None:
                refused[name] = fault
            elif metadata.partition(*name) is None:
                refused[name] = ErrorCode.unknown_topic_or_partition
            else:
                leader_epoch = getattr(one, "committed_leader_epoch", -1)
                text = one.committed_metadata or ""
                offsets.append(OffsetToCommit(*name, one.committed_offset, leader_epoch, text))
    return refused, tuple(offsets)


def answering_commit(call: Call, refused: Errors) -> Token:
    """Answers each partition of the request in its order: what was refused at once, and what the
    coordinator's result says of the rest."""
    return answering(call, lambda result: _answer(call, refused | result.errors))


def _answer(call: Call, errors: Errors) -> Payload:
    request: _Request = call.request
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": one.partition_index,
                    "error_code": errors[topic.name, one.partition_index],
                }
                for one in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return response(call.header.api_key, call.api_version, topics=topics)
