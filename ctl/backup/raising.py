"""What becomes of a metadata tree that is older than the logs it comes back to. Pure (ADR-0029).

Whatever fences (controller epoch, leader epochs, producer ids) goes above all that was given out since. Who
may lead is decided by the logs and not by the old ISR: of the replicas those with the highest (leader epoch,
log end offset), for they have every record that was acknowledged. What the tree does not know and the disk
holds comes into the tree; orders to delete or move something, which may have been carried out since, go.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from broker.metadata import znode_paths as paths
from broker.metadata.topic_names import INTERNAL_CONFIGS, INTERNAL_TOPICS
from broker.metadata.znodes import (
    Assignment,
    PartitionState,
    TopicNode,
    decode_controller_epoch,
    decode_producer_id_block,
    decode_state,
    decode_topic,
    encode_config,
    encode_controller_epoch,
    encode_kept_until,
    encode_producer_id_block,
    encode_state,
    encode_topic,
)
from contracts.cluster import NO_LEADER
from contracts.masters import MASTER_EPOCH_PATH

EPOCHS_AHEAD: Final = 10_000
"""Epochs go so far above the highest known one: elections nobody saw, at brokers whose logs are not here."""
PRODUCER_IDS_AHEAD: Final = 1_000_000_000
"""More ids than a cluster gives out between two backups, few of the 2^63 there are."""
KEPT: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""The layer of a topic whose own nobody remembers: nothing of it expires before its owner says so."""
_NO_TOPIC_ID: Final = UUID(int=0)
_FORGOTTEN: Final = (
    paths.BROKER_IDS,
    paths.CONTROLLER,
    paths.DELETE_TOPICS,
    paths.LEFTOVER_REPLICAS,
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
    paths.CONFIG_CHANGES,
)
"""Nodes of processes that are gone, and orders of then."""


class Replica(NamedTuple):
    """A log on the disk."""

    broker_id: int
    topic: str
    partition: int
    topic_id: UUID
    leader_epoch: int
    """-1: none noted."""
    end_offset: int
    made_ns: int
    """When its directory was made, as far as the disk says."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from the tree as it was kept."""

    topics: int
    partitions: int
    found: tuple[str, ...]
    """Topics that only the disk knows: created after the backup."""
    made_anew: tuple[str, ...]
    """Topics that were deleted and created again after it."""
    grown: tuple[str, ...]
    """Topics with more partitions than then."""
    empty: tuple[str, ...]
    """Topics of which no log is on any disk: deleted after the backup, or their disks are lost."""
    moved: int
    """Partitions with replicas elsewhere than then."""
    behind: int
    """Partitions of which some replica has to fetch what another one has."""
    orders: int
    """Orders to delete or move something that were under way then."""


class Raised(NamedTuple):
    """The tree to write."""

    nodes: dict[str, bytes]
    changed: Changed


class _Topic(NamedTuple):
    node: TopicNode
    holders: dict[int, list[Replica]]
    """Holders by partition; the broker's first wins where it has two."""
    is_found: bool
    is_made_anew: bool
    is_grown: bool
    moved: int


def brokers_of(nodes: Mapping[str, bytes]) -> set[int]:
    """Who is assigned a replica in a tree."""
    found: set[int] = set()
    for topic in _topic_names(nodes):
        for assignment in decode_topic(nodes[paths.topic_path(topic)]).partitions.values():
            found.update(assignment.replicas)
    return found


def raise_tree(
    nodes: Mapping[str, bytes], replicas: Iterable[Replica], seen: Collection[int], kept_until_ms: int
) -> Raised:
    """The tree for what the logs are now.

    `seen` are the brokers whose logs were looked at. Until `kept_until_ms` (epoch time) nothing expires:
    configs that keep more may have been set after the backup.

    Raises: ZnodeDamaged. Invariant: nothing on a disk that has a topic id is left out of the tree.
    """
    kept = {path: data for path, data in nodes.items() if not _is_forgotten(path)}
    on_disk: dict[str, list[Replica]] = {}
    for replica in replicas:
        on_disk.setdefault(replica.topic, []).append(replica)
    for topic in [name for name, held in on_disk.items() if not _has_id(held)]:
        if paths.topic_path(topic) not in nodes:
            del on_disk[topic]  # not even its id is known: the broker keeps the files and tells
    controller_epoch = _raise_epoch(kept, paths.CONTROLLER_EPOCH)
    if MASTER_EPOCH_PATH in kept:
        _raise_epoch(kept, MASTER_EPOCH_PATH)
    topics = {
        name: _topic(kept.get(paths.topic_path(name)), on_disk.get(name, ()), seen)
        for name in sorted(_topic_names(kept) | on_disk.keys())
    }
    behind = sum(_write_topic(kept, name, topic, controller_epoch) for name, topic in topics.items())
    _raise_producer_ids(kept)
    kept[paths.KEPT_UNTIL] = encode_kept_until(kept_until_ms)
    return Raised(
        _with_parents(kept),
        Changed(
            topics=len(topics),
            partitions=sum(len(topic.node.partitions) for topic in topics.values()),
            found=tuple(name for name, topic in topics.items() if topic.is_found),
            made_anew=tuple(name for name, topic in topics.items() if topic.is_made_anew),
            grown=tuple(name for name, topic in topics.items() if topic.is_grown),
            empty=tuple(name for name, topic in topics.items() if not topic.holders),
            moved=sum(topic.moved for topic in topics.values()),
            behind=behind,
            orders=_orders(nodes),
        ),
    )


def _topic_names(nodes: Iterable[str]) -> set[str]:
    depth = paths.TOPICS.count("/") + 1
    return {
        path.rpartition("/")[2]
        for path in nodes
        if path.startswith(f"{paths.TOPICS}/") and path.count("/") == depth
    }


def _is_forgotten(path: str) -> bool:
    return path in (paths.CONTROLLER, paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION) or any(
        path.startswith(f"{each}/") for each in _FORGOTTEN
    )


def _orders(nodes: Iterable[str]) -> int:
    parents = (paths.DELETE_TOPICS, paths.LEFTOVER_REPLICAS)
    below = tuple(f"{parent}/" for parent in parents)
    return sum(path == paths.REASSIGN_PARTITIONS or path.startswith(below) for path in nodes)


def _has_id(held: Iterable[Replica]) -> bool:
    return any(replica.topic_id != _NO_TOPIC_ID for replica in held)


def _topic(node: bytes | None, held: Collection[Replica], seen: Collection[int]) -> _Topic:
    """What a topic is now: the tree's word where the disk does not know better."""
    known = TopicNode(None, {}) if node is None else decode_topic(node)
    topic_id = _newest_id(known.topic_id, held)
    is_made_anew = node is not None and topic_id != known.topic_id
    holders: dict[int, list[Replica]] = {}
    for replica in sorted(held, key=lambda each: (each.partition, each.broker_id)):
        if replica.topic_id in (topic_id, _NO_TOPIC_ID):
            holders.setdefault(replica.partition, []).append(replica)
    partitions: dict[int, Assignment] = {}
    moved = 0
    count = max([*holders, *(() if is_made_anew else known.partitions)], default=-1) + 1
    for index in range(count):
        before = known.partitions.get(index, Assignment(())).replicas
        now = _assigned(before, [each.broker_id for each in holders.get(index, ())], seen)
        moved += bool(before) and before != now
        partitions[index] = Assignment(now)
    _fill(partitions)
    return _Topic(
        TopicNode(topic_id, partitions),
        holders,
        is_found=node is None,
        is_made_anew=is_made_anew,
        is_grown=node is not None and not is_made_anew and count > len(known.partitions),
        moved=moved,
    )


def _newest_id(known: UUID | None, held: Iterable[Replica]) -> UUID | None:
    """A topic id that the tree does not know is younger than the tree's: names are taken again only after
    the deletion of before."""
    others = [each for each in held if each.topic_id not in (known, _NO_TOPIC_ID)]
    if known is None or others:
        return max(others, key=lambda each: each.made_ns).topic_id if others else None
    return known


def _assigned(before: tuple[int, ...], holders: Collection[int], seen: Collection[int]) -> tuple[int, ...]:
    """A replica where nobody assigned one says that the partition was moved since: then those who were looked
    at and hold nothing have none any more."""
    elsewhere = tuple(broker for broker in dict.fromkeys(holders) if broker not in before)
    if not elsewhere:
        return before
    return tuple(broker for broker in before if broker in holders or broker not in seen) + elsewhere


def _fill(partitions: dict[int, Assignment]) -> None:
    """Partitions that neither tree nor disk knows, between ones that they know, are where those are."""
    known = next((each for each in partitions.values() if each.replicas), None)
    for index, assignment in partitions.items():
        if not assignment.replicas:
            assert known is not None, "a topic is here for a replica or an assignment"
            partitions[index] = known


def _write_topic(nodes: dict[str, bytes], name: str, topic: _Topic, controller_epoch: int) -> int:
    """Put a topic into the nodes; how many of its partitions have replicas that are behind."""
    nodes[paths.topic_path(name)] = encode_topic(topic.node)
    if topic.is_found or topic.is_made_anew:
        layer = INTERNAL_CONFIGS if name in INTERNAL_TOPICS else KEPT
        nodes[paths.topic_config_path(name)] = encode_config(layer)
    behind = 0
    for index, assignment in topic.node.partitions.items():
        path = paths.state_path(name, index)
        data = nodes.pop(path, None)
        before = None if data is None or topic.is_made_anew else decode_state(data)
        held = [each for each in topic.holders.get(index, ()) if each.broker_id in assignment.replicas]
        if before is None and not held:
            nodes.pop(paths.partition_path(name, index), None)  # it was about to be created, and will be
            continue
        state = _state(before, held, assignment, controller_epoch)
        nodes[path] = encode_state(state)
        behind += len(state.isr) < len(assignment.replicas)
    return behind


def _state(
    before: PartitionState | None,
    held: Collection[Replica],
    assignment: Assignment,
    controller_epoch: int,
) -> PartitionState:
    """Nobody leads until a controller elects from the ISR."""
    epoch = max([0 if before is None else before.leader_epoch, *(each.leader_epoch for each in held)])
    if held:
        best = max((each.leader_epoch, each.end_offset) for each in held)
        isr = tuple(each.broker_id for each in held if (each.leader_epoch, each.end_offset) == best)
    else:
        isr = assignment.replicas
    return PartitionState(
        leader=NO_LEADER,
        leader_epoch=epoch + EPOCHS_AHEAD,
        isr=isr,
        controller_epoch=controller_epoch,
    )


def _raise_epoch(nodes: dict[str, bytes], path: str) -> int:
    """Epochs of controllers and of quota masters grow: points refuse leases of an earlier one."""
    data = nodes.get(path)
    raised = (0 if data is None else decode_controller_epoch(data)) + EPOCHS_AHEAD
    nodes[path] = encode_controller_epoch(raised)
    return raised


def _raise_producer_ids(nodes: dict[str, bytes]) -> None:
    last = decode_producer_id_block(nodes.get(paths.PRODUCER_ID_BLOCK, b"")) + PRODUCER_IDS_AHEAD
    nodes[paths.PRODUCER_ID_BLOCK] = encode_producer_id_block(-1, last, last)


def _with_parents(nodes: Mapping[str, bytes]) -> dict[str, bytes]:
    """A walk over a living tree may have met a child whose parent came later, or went."""
    whole = dict(nodes)
    for path in nodes:
        parent = path.rpartition("/")[0]
        while parent and parent not in whole:
            whole[parent] = b""
            parent = parent.rpartition("/")[0]
    return whole
