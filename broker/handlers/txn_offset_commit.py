"""TxnOffsetCommit (28), v0-3.

Behaviour: offsets that take effect when the producer's transaction commits; answered when their records are
committed. The first ones of a transaction are verified with its coordinator (KIP-890). Partitions that do not
exist are refused one by one.
Versions: v2 leader epoch; v3 flexible, with the member's generation, which must be current (KIP-447).
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordination.effects import Token
from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.shard import Shard
from broker.coordinators.transactions import TransactionCoordinators
from broker.groups.coordinator import GroupCoordinator
from broker.groups.messages import CommitResult, OffsetToCommit, Producer, TransactionalCommit
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration
from wire.messages import TxnOffsetCommitRequest

_FIRST_SEQUENCE: Final = 0
_Errors = dict[tuple[str, int], ErrorCode]


class _Deps(Protocol):
    epoch_ms: Callable[[], int]
    groups: GroupCoordinators
    metadata: MetadataCache
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    """Commit what exists."""
    version, request = call.api_version, call.request
    shard = deps.groups.of(request.group_id)
    refused, offsets = _checked(deps, request, None if isinstance(shard, Shard) else shard)
    token = answering(call, lambda result: _response(version, request, refused | result.errors))
    if isinstance(shard, ErrorCode) or not offsets:
        token(CommitResult({}))
        return
    commit = TransactionalCommit(
        group_id=request.group_id,
        generation_id=getattr(request, "generation_id", -1),
        member_id=getattr(request, "member_id", ""),
        group_instance_id=getattr(request, "group_instance_id", None),
        producer=Producer(request.producer_id, request.producer_epoch),
        verification=None,
        offsets=offsets,
    )
    _verify(deps, shard, request.transactional_id, commit, token)


def _checked(
    deps: _Deps, request: TxnOffsetCommitRequest, error: ErrorCode | None
) -> tuple[_Errors, tuple[OffsetToCommit, ...]]:
    """The partitions refused at once, and the rest."""
    refused: _Errors = {}
    offsets = []
    for topic in request.topics:
        for one in topic.partitions:
            if error is not None:
                refused[topic.name, one.partition_index] = error
            elif deps.metadata.partition(topic.name, one.partition_index) is None:
                refused[topic.name, one.partition_index] = ErrorCode.unknown_topic_or_partition
            else:
                leader_epoch = getattr(one, "committed_leader_epoch", -1)
                metadata = one.committed_metadata or ""
                offsets.append(
                    OffsetToCommit(
                        topic.name, one.partition_index, one.committed_offset, leader_epoch, metadata
                    )
                )
    return refused, tuple(offsets)


def _verify(
    deps: _Deps,
    shard: Shard[GroupCoordinator],
    transactional_id: str,
    commit: TransactionalCommit,
    token: Token,
) -> None:
    log = shard.partition.log
    guard = log.producers.begin_verification(*commit.producer, _FIRST_SEQUENCE, deps.epoch_ms())
    if guard is None:
        shard.submit(shard.core.commit_in_transaction(commit, token, shard.now()))
        return
    verified = partial(_verified, shard, commit._replace(verification=guard), token)
    offsets = shard.partition
    deps.transactions.verify(offsets.topic, offsets.index, transactional_id, *commit.producer, verified)


def _verified(
    shard: Shard[GroupCoordinator], commit: TransactionalCommit, token: Token, error: ErrorCode
) -> None:
    fault = shard.error if error is ErrorCode.none else _told(error)
    if fault is not None:
        token(CommitResult({(one.topic, one.partition): fault for one in commit.offsets}))
    else:
        shard.submit(shard.core.commit_in_transaction(commit, token, shard.now()))


def _told(error: ErrorCode) -> ErrorCode:
    """In the group coordinator's words: what a producer retries, a committer retries."""
    return ErrorCode.coordinator_load_in_progress if error is ErrorCode.not_enough_replicas else error


def _response(version: int, request: TxnOffsetCommitRequest, errors: _Errors) -> Payload:
    shape = response_shape(ApiKey.TXN_OFFSET_COMMIT, version)
    return shape.make(
        throttle_time=duration(0),
        topics=tuple(
            shape.nested(
                "TxnOffsetCommitResponseTopic",
                name=topic.name,
                partitions=tuple(
                    shape.nested(
                        "TxnOffsetCommitResponsePartition",
                        partition_index=one.partition_index,
                        error_code=errors[topic.name, one.partition_index],
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
