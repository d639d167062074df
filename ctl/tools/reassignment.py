"""Moving partitions to other brokers: start, watch and cancel reassignments, and the throttle on them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from ctl.cluster_client import Cluster, refusal
from ctl.tools.partitions import PartitionRow
from ctl.tools.reassignment_plan import Plan, TopicPartition, throttled_replicas
from ctl.tools.topic_admin import BROKER, TOPIC, alter_configs, configs_of
from wire.codec import duration
from wire.request_bounds import PARTITIONS_AT_ONCE, pieces

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
_TIMEOUT: Final = duration(60_000)
_UNSET: Final = (None, False)


class Ongoing(NamedTuple):
    """A reassignment that has not ended."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Outcome(NamedTuple):
    """What became of one partition's request."""

    topic: str
    partition: int
    error: str | None


async def ongoing(cluster: Cluster) -> dict[TopicPartition, Ongoing]:
    """All reassignments of the cluster. Raises: CommandError, KafkaUnavailable."""
    request = ListPartitionReassignmentsRequest(timeout=_TIMEOUT, topics=None)
    answer = await cluster.ask_controller(request, lambda each: each.error_code)
    if answer.error_code is not ErrorCode.none:
        raise refusal("reassignments", answer.error_code, answer.error_message)
    return {
        (topic.name, int(one.partition_index)): Ongoing(
            *(tuple(map(int, ids)) for ids in (one.replicas, one.adding_replicas, one.removing_replicas))
        )
        for topic in answer.topics
        for one in topic.partitions
    }


async def alter(cluster: Cluster, targets: dict[TopicPartition, tuple[int, ...] | None]) -> list[Outcome]:
    """Begin reassignments; None cancels one. Raises: CommandError, KafkaUnavailable."""
    found: list[Outcome] = []
    for some in pieces(sorted(targets.items()), PARTITIONS_AT_ONCE):
        found += await _alter(cluster, some)
    return sorted(found)


async def _alter(
    cluster: Cluster, targets: Sequence[tuple[TopicPartition, tuple[int, ...] | None]]
) -> Iterator[Outcome]:
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), replicas in targets:
        brokers = None if replicas is None else tuple(map(BrokerId, replicas))
        topics.setdefault(topic, []).append(
            ReassignablePartition(partition_index=i32(partition), replicas=brokers)
        )
    request = AlterPartitionReassignmentsRequest(
        timeout=_TIMEOUT,
        topics=tuple(
            ReassignableTopic(name=TopicName(topic), partitions=tuple(parts))
            for topic, parts in topics.items()
        ),
    )
    answer = await cluster.ask_controller(request, lambda each: each.error_code)
    if answer.error_code is not ErrorCode.none:
        raise refusal("reassignments", answer.error_code, answer.error_message)
    return (
        Outcome(topic.name, int(one.partition_index), _error(one))
        for topic in answer.responses
        for one in topic.partitions
    )


def _error(result: Any) -> str | None:
    if result.error_code is ErrorCode.none:
        return None
    return str(result.error_message or result.error_code.name.upper())


async def throttle(cluster: Cluster, plan: Plan, rows: Iterable[PartitionRow], bytes_per_s: int) -> None:
    """Limit what the moves of a plan may take of each broker's network, in each direction.

    Set before the moves begin, so that none runs unlimited. Raises: CommandError, KafkaUnavailable.
    """
    moving = list(rows)
    for topic, replicas in throttled_replicas(plan, moving).items():
        changes = {LEADER_REPLICAS: replicas.leader, FOLLOWER_REPLICAS: replicas.follower}
        await alter_configs(cluster, TOPIC, topic, changes)
    involved = {broker for row in moving if (row.topic, row.partition) in plan for broker in row.replicas}
    for broker in sorted(involved.union(*plan.values())):
        rates = {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)}
        await alter_configs(cluster, BROKER, str(broker), rates)


async def unthrottle(cluster: Cluster, plan: Plan) -> None:
    """Take the limits off again, if the plan's topics have any. Raises: CommandError, KafkaUnavailable."""
    configs = await configs_of(cluster, sorted({topic for topic, _ in plan}))
    keys = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
    limited = [topic for topic, found in configs.items() if any(found.get(key, _UNSET)[1] for key in keys)]
    if not limited:
        return
    for topic in limited:
        await alter_configs(cluster, TOPIC, topic, dict.fromkeys(keys))
    for broker in sorted(cluster.addresses):
        await alter_configs(cluster, BROKER, str(broker), dict.fromkeys((LEADER_RATE, FOLLOWER_RATE)))


class Progress(NamedTuple):
    """How far one partition of a plan is."""

    topic: str
    partition: int
    state: str
    """`complete`, `in progress`, or what it is instead."""
    detail: str


def progress(
    plan: Plan, rows: Iterable[PartitionRow], moving: dict[TopicPartition, Ongoing]
) -> list[Progress]:
    """The state of every partition of a plan. Pure."""
    known = {(row.topic, row.partition): row for row in rows}
    found = []
    for (topic, partition), target in sorted(plan.items()):
        row, move = known.get((topic, partition)), moving.get((topic, partition))
        if row is None:
            state, detail = "missing", "the partition does not exist"
        elif move is not None:
            behind = [broker for broker in move.adding if broker not in row.isr]
            state = "in progress"
            detail = f"not in sync yet: {_ids(behind)}" if behind else "all in sync; the last step is due"
        elif row.replicas == target:
            missing = [broker for broker in target if broker not in row.isr]
            state, detail = "complete", f"out of sync: {_ids(missing)}" if missing else ""
        else:
            state, detail = "differs", f"its replicas are {_ids(row.replicas)}, the plan says {_ids(target)}"
        found.append(Progress(topic, partition, state, detail))
    return found


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
