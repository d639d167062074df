"""OffsetCommit and TxnOffsetCommit alike: which partitions can be committed, how each is answered."""

from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordination.effects import Token
from broker.coordinators.answering import answering
from broker.groups.messages import OffsetToCommit
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.build import response
from wire.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)

Errors: TypeAlias = dict[tuple[str, int], ErrorCode]
"""By topic and partition."""
_Topic: TypeAlias = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
_Request: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest


class SortedOffsets(NamedTuple):
    """What a request wants committed."""

    names: list[str]
    """Of its topics, in their order; of an id that is nobody's, what no topic can be called."""
    refused: Errors
    """What is answered at once."""
    offsets: tuple[OffsetToCommit, ...]
    """The rest."""


def sort_offsets(request: _Request, metadata: MetadataCache, fault: ErrorCode | None) -> SortedOffsets:
    """The partitions that are refused at once, all of them for a `fault` of the coordinator, and the rest."""
    names: list[str] = []
    refused: Errors = {}
    offsets = []
    for topic in request.topics:
        topic_name, unknown = _named(topic, metadata)
        names.append(topic_name)
        for one in topic.partitions:
            name = topic_name, one.partition_index
            if fault is not None:
                refused[name] = fault
            elif unknown is not None:
                refused[name] = unknown
            elif metadata.partition(*name) is None:
                refused[name] = ErrorCode.unknown_topic_or_partition
            else:
                leader_epoch = getattr(one, "committed_leader_epoch", -1)
                text = one.committed_metadata or ""
                offsets.append(OffsetToCommit(*name, one.committed_offset, leader_epoch, text))
    return SortedOffsets(names, refused, tuple(offsets))


def _named(topic: _Topic, metadata: MetadataCache) -> tuple[str, ErrorCode | None]:
    if hasattr(topic, "name"):
        return topic.name, None
    topic_id = getattr(topic, "topic_id", None)
    known = None if topic_id is None else metadata.topic_by_id(topic_id)
    if known is None:
        return f"/{topic_id}", ErrorCode.unknown_topic_id
    return known.name, None


def answering_commit(call: Call, sorted_offsets: SortedOffsets) -> Token:
    """Answers each partition of the request in its order: what was refused at once, and what the
    coordinator's result says of the rest."""
    names, refused, _ = sorted_offsets
    return answering(call, lambda result: _answer(call, names, refused | result.errors))


def _answer(call: Call, names: list[str], errors: Errors) -> Payload:
    request: _Request = call.request
    asked: tuple[_Topic, ...] = request.topics
    topics = [
        {
            **({"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": name}),
            "partitions": [
                {"partition_index": one.partition_index, "error_code": errors[name, one.partition_index]}
                for one in topic.partitions
            ],
        }
        for name, topic in zip(names, asked, strict=True)
    ]
    return response(call.header.api_key, call.api_version, topics=topics)
