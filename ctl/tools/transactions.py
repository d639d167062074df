"""Transactions of a cluster: what coordinators and partitions say of them, and ending what hangs.

A transaction hangs on a partition when it is open there and nobody will end it: its coordinator does not
have the partition in the producer's current transaction. It holds back every read_committed reader.
Source: KIP-664, Kafka TransactionsCommand.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.static.primitive import i8, i16, i32

from ctl.cluster_client import Cluster, refusal
from ctl.errors import CommandError
from ctl.tools.partitions import PartitionRow, by_leader
from runtime.kafka_client import KafkaUnavailable

_TRANSACTION: Final = i8(1)
TopicPartition = tuple[str, int]


class Listed(NamedTuple):
    """A transactional id and who coordinates it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class Described(NamedTuple):
    """Where a transactional id stands."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    """-1 without an open transaction."""
    partitions: frozenset[TopicPartition]


class OpenTransaction(NamedTuple):
    """A transaction that is open on a partition, as the partition's leader has it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    """When the producer last wrote."""


class Hanging(NamedTuple):
    """One that somebody has to look at."""

    transaction: OpenTransaction
    transactional_id: str | None
    reason: str


async def list_transactions(cluster: Cluster, states: Sequence[str] = ()) -> list[Listed]:
    """Every transactional id of the cluster. Raises: CommandError, KafkaUnavailable."""
    await cluster.metadata([])
    found: list[Listed] = []
    for node_id in sorted(cluster.addresses):
        request = ListTransactionsRequest(state_filters=tuple(states), producer_id_filters=())
        answer = await cluster.ask(node_id, request)
        if answer.error_code is not ErrorCode.none:
            raise refusal(f"broker {node_id}", answer.error_code, None)
        if answer.unknown_state_filters:
            raise CommandError(f"there is no state {', '.join(answer.unknown_state_filters)}")
        found += (
            Listed(each.transactional_id, int(each.producer_id), each.transaction_state, node_id)
            for each in answer.transaction_states
        )
    return sorted(found)


async def describe_transaction(cluster: Cluster, transactional_id: str) -> Described:
    """Ask its coordinator. Raises: CommandError, KafkaUnavailable."""
    node_id = await _coordinator(cluster, transactional_id)
    (described,) = await _describe(cluster, node_id, [transactional_id])
    return described


async def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    await cluster.metadata([])
    request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
    for node_id in sorted(cluster.addresses):
        try:
            answer = await cluster.ask(node_id, request)
        except KafkaUnavailable:
            continue
        if answer.error_code is not ErrorCode.none:
            raise refusal(f"transactional id {transactional_id}", answer.error_code, answer.error_message)
        return int(answer.node_id)
    raise CommandError("no broker answers")


async def _describe(cluster: Cluster, node_id: int, ids: Iterable[str]) -> list[Described]:
    request = DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, ids)))
    answer = await cluster.ask(node_id, request)
    found = []
    for each in answer.transaction_states:
        if each.error_code is not ErrorCode.none:
            raise refusal(f"transactional id {each.transactional_id}", each.error_code, None)
        found.append(_described(each, node_id))
    return found


def _described(each: Any, node_id: int) -> Described:
    return Described(
        each.transactional_id,
        node_id,
        int(each.producer_id),
        int(each.producer_epoch),
        each.transaction_state,
        round(each.transaction_timeout.total_seconds() * 1000),
        int(each.transaction_start_time),
        frozenset((topic.topic, int(index)) for topic in each.topics for index in topic.partitions),
    )


async def open_transactions(cluster: Cluster, rows: Iterable[PartitionRow]) -> list[OpenTransaction]:
    """What the leaders of these partitions have open; partitions without a leader are left out.

    Raises: CommandError, KafkaUnavailable.
    """
    found: list[OpenTransaction] = []
    for leader, topics in by_leader(rows):
        asked = tuple(
            TopicRequest(name=TopicName(name), partition_indexes=tuple(map(i32, indexes)))
            for name, indexes in topics.items()
        )
        answer = await cluster.ask(leader, DescribeProducersRequest(topics=asked))
        found += (
            OpenTransaction(
                topic.name,
                int(partition.partition_index),
                int(each.producer_id),
                int(each.producer_epoch),
                int(each.coordinator_epoch),
                int(each.current_txn_start_offset),
                int(each.last_timestamp),
            )
            for topic in answer.topics
            for partition in topic.partitions
            for each in partition.active_producers
            if each.current_txn_start_offset >= 0
        )
    return sorted(found)


async def find_hanging(
    cluster: Cluster, rows: Sequence[PartitionRow], *, now_ms: int, timeout_max_ms: int
) -> list[Hanging]:
    """Open transactions of these partitions that nobody will end, or that should have ended.

    Partitions are asked before coordinators, and again behind them: what began or ended meanwhile does not
    hang. Raises: CommandError, KafkaUnavailable.
    """
    candidates = await open_transactions(cluster, rows)
    if not candidates:
        return []
    known: dict[int, Described] = {}
    by_coordinator: dict[int, list[str]] = {}
    for listed in await list_transactions(cluster):
        by_coordinator.setdefault(listed.coordinator_id, []).append(listed.transactional_id)
    for node_id, ids in by_coordinator.items():
        known |= {each.producer_id: each for each in await _describe(cluster, node_id, ids)}
    still_open = {each[:6] for each in await open_transactions(cluster, rows)}
    found = []
    for each in candidates:
        owner = known.get(each.producer_id)
        reason = _reason(each, owner, now_ms, timeout_max_ms)
        if reason is not None and each[:6] in still_open:
            found.append(Hanging(each, None if owner is None else owner.transactional_id, reason))
    return found


def _reason(each: OpenTransaction, owner: Described | None, now_ms: int, timeout_max_ms: int) -> str | None:
    if owner is None:
        return "no coordinator knows its producer"
    if (each.topic, each.partition) not in owner.partitions:
        return "its coordinator does not have the partition in the transaction"
    if owner.start_ms >= 0 and now_ms - owner.start_ms > timeout_max_ms:
        return "it has been open for longer than the greatest timeout"
    return None


async def abort(cluster: Cluster, row: PartitionRow, start_offset: int) -> OpenTransaction:
    """Write an abort marker for the transaction that began there. Raises: CommandError, KafkaUnavailable."""
    matching = [each for each in await open_transactions(cluster, [row]) if each.start_offset == start_offset]
    where = f"{row.topic}-{row.partition}"
    if not matching:
        raise CommandError(f"no transaction that began at offset {start_offset} is open on {where}")
    (found,) = matching
    marker = WritableTxnMarker(
        producer_id=ProducerId(found.producer_id),
        producer_epoch=i16(found.producer_epoch),
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=TopicName(row.topic), partition_indexes=(i32(row.partition),)),),
        coordinator_epoch=i32(max(found.coordinator_epoch, 0)),
    )
    answer = await cluster.ask(row.leader, WriteTxnMarkersRequest(markers=(marker,)))
    error_code = answer.markers[0].topics[0].partitions[0].error_code
    if error_code is not ErrorCode.none:
        raise refusal(where, error_code, None)
    return found
