"""TxnOffsetCommit (28), v0-5.

Behaviour: offsets that take effect when the producer's transaction commits; answered when their records are
committed. The first ones of a transaction are verified with its coordinator (KIP-890). Partitions that do not
exist are refused one by one.
Versions: v2 leader epoch; v3 flexible, with the member's generation, which must be current (KIP-447);
v4 TRANSACTION_ABORTABLE instead of INVALID_TXN_STATE; v5 takes the group's partition into the transaction by
itself (transactions of version 2).
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.offset_commits import answering_commit, sort_offsets
from broker.coordinators.shard import Shard
from broker.coordinators.transactions import TransactionCoordinators
from broker.groups.coordinator import GroupCoordinator
from broker.groups.messages import CommitResult, Producer, TransactionalCommit
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call

_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_FIRST_SEQUENCE: Final = 0
_PASSING: Final = (ErrorCode.not_enough_replicas, ErrorCode.concurrent_transactions)


class _Deps(Protocol):
    epoch_ms: Callable[[], int]
    groups: GroupCoordinators
    metadata: MetadataCache
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    request = call.request
    shard = deps.groups.of(request.group_id)
    wanted = sort_offsets(request, deps.metadata, None if isinstance(shard, Shard) else shard)
    token = answering_commit(call, wanted)
    if isinstance(shard, ErrorCode) or not wanted.offsets:
        token(CommitResult({}))
        return
    commit = TransactionalCommit(
        group_id=request.group_id,
        generation_id=getattr(request, "generation_id", -1),
        member_id=getattr(request, "member_id", ""),
        group_instance_id=getattr(request, "group_instance_id", None),
        producer=Producer(request.producer_id, request.producer_epoch),
        verification=None,
        offsets=wanted.offsets,
    )
    _verify(deps, shard, call, commit, token)


def _verify(
    deps: _Deps,
    shard: Shard[GroupCoordinator],
    call: Call,
    commit: TransactionalCommit,
    token: Token,
) -> None:
    log = shard.partition.log
    adds = call.api_version >= _ADDS_FROM
    guard = log.producers.begin_verification(
        *commit.producer, _FIRST_SEQUENCE, deps.epoch_ms(), starts_at_zero=adds
    )
    if guard is None:
        shard.submit(shard.core.commit_in_transaction(commit, token, shard.now()))
        return
    verified = partial(_verified, shard, call.api_version, commit._replace(verification=guard), token)
    offsets, transactional_id = shard.partition, call.request.transactional_id
    ask = deps.transactions.add if adds else deps.transactions.verify
    ask(offsets.topic, offsets.index, transactional_id, *commit.producer, verified)


def _verified(
    shard: Shard[GroupCoordinator],
    api_version: int,
    commit: TransactionalCommit,
    token: Token,
    error: ErrorCode,
) -> None:
    fault = shard.error if error is ErrorCode.none else _told(error, api_version)
    if fault is not None:
        token(CommitResult({(one.topic, one.partition): fault for one in commit.offsets}))
    else:
        shard.submit(shard.core.commit_in_transaction(commit, token, shard.now()))


def _told(error: ErrorCode, api_version: int) -> ErrorCode:
    """In the group coordinator's words: what a producer retries, a committer retries. Aborting mends that the
    group is no part of the transaction."""
    if error is ErrorCode.invalid_txn_state and api_version >= _ABORTABLE_FROM:
        return ErrorCode.transaction_abortable
    return ErrorCode.coordinator_load_in_progress if error in _PASSING else error
