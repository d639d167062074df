"""What waits for one broker: commands in their order, merged while the broker is slow. Pure.

A later word about a partition replaces an earlier one of the same kind, as long as nothing of the other kind
came between; metadata is always merged into one request. So a broker that is away for long finds few
requests, not all that happened.
"""

from collections import deque
from typing import NamedTuple

import msgspec

from contracts.cluster import (
    Command,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)


class _Waiting(NamedTuple):
    number: int
    command: LeaderAndIsrRequest | StopReplicaRequest


class CommandQueue:
    """Commands to one life of one broker."""

    def __init__(self) -> None:
        self._commands: deque[_Waiting] = deque()
        self._metadata: UpdateMetadataRequest | None = None
        self._metadata_number = 0
        self._pushed = 0
        self._controller_epoch = -1

    def __len__(self) -> int:
        return len(self._commands) + (self._metadata is not None)

    def push(self, command: Command) -> None:
        """Add a command. A new controller's first drops all of an old one's: it says everything anew."""
        if command.controller_epoch > self._controller_epoch:
            self._commands.clear()
            self._metadata = None
            self._controller_epoch = command.controller_epoch
        self._pushed += 1
        if isinstance(command, UpdateMetadataRequest):
            self._metadata = command if self._metadata is None else merged_metadata(self._metadata, command)
            self._metadata_number = self._pushed
            return
        last = self._commands[-1] if self._commands else None
        if last is not None and type(last.command) is type(command):
            self._commands[-1] = _Waiting(last.number, _merged(last.command, command))
        else:
            self._commands.append(_Waiting(self._pushed, command))

    def pop(self) -> Command:
        """The next command to deliver."""
        if self._commands and (self._metadata is None or self._commands[0].number < self._metadata_number):
            return self._commands.popleft().command
        metadata = self._metadata
        assert metadata is not None, "nothing waits"
        self._metadata = None
        return metadata


def _merged(
    earlier: LeaderAndIsrRequest | StopReplicaRequest, later: LeaderAndIsrRequest | StopReplicaRequest
) -> LeaderAndIsrRequest | StopReplicaRequest:
    if isinstance(later, LeaderAndIsrRequest):
        assert isinstance(earlier, LeaderAndIsrRequest)
        return merged_leader_and_isr(earlier, later)
    assert isinstance(earlier, StopReplicaRequest)
    return merged_stop_replica(earlier, later)


def merged_leader_and_isr(earlier: LeaderAndIsrRequest, later: LeaderAndIsrRequest) -> LeaderAndIsrRequest:
    """One request that does what both would; a replica stays new until its broker has heard of it."""
    known = {(state.topic, state.partition): state for state in earlier.partition_states}
    states = {} if later.is_full else dict(known)
    for state in later.partition_states:
        key = (state.topic, state.partition)
        states[key] = _still_new(state, known.get(key))
    configs = later.topic_configs if later.is_full else earlier.topic_configs | later.topic_configs
    return msgspec.structs.replace(
        later,
        is_full=earlier.is_full or later.is_full,
        partition_states=tuple(states.values()),
        topic_configs=configs,
    )


def _still_new(
    state: LeaderAndIsrPartitionState, known: LeaderAndIsrPartitionState | None
) -> LeaderAndIsrPartitionState:
    if known is None or not known.is_new or known.topic_id != state.topic_id:
        return state
    return msgspec.structs.replace(state, is_new=True)


def merged_stop_replica(earlier: StopReplicaRequest, later: StopReplicaRequest) -> StopReplicaRequest:
    """One request that does what both would."""
    states = {(each.topic, each.topic_id, each.partition): each for each in earlier.partition_states}
    for each in later.partition_states:
        key = (each.topic, each.topic_id, each.partition)
        known = states.get(key)
        deletes = each.delete_partition or (known is not None and known.delete_partition)
        states[key] = msgspec.structs.replace(each, delete_partition=deletes)
    return msgspec.structs.replace(later, partition_states=tuple(states.values()))


def merged_metadata(earlier: UpdateMetadataRequest, later: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """One request that does what both would, in the order brokers apply it: deletions first."""
    if later.is_full:
        return later
    gone_names = {each.topic for each in later.deleted_topics}
    gone_ids = {each.topic_id for each in later.deleted_topics}
    topics = {each.topic: each for each in earlier.topic_states if each.topic_id not in gone_ids}
    topics |= {each.topic: each for each in later.topic_states}
    partitions = {
        (each.topic, each.partition): each
        for each in earlier.partition_states
        if each.topic not in gone_names
    }
    partitions |= {(each.topic, each.partition): each for each in later.partition_states}
    return msgspec.structs.replace(
        later,
        is_full=earlier.is_full,
        topic_states=tuple(topics.values()),
        partition_states=tuple(partitions.values()),
        deleted_topics=(*earlier.deleted_topics, *later.deleted_topics),
        broker_configs=earlier.broker_configs if later.broker_configs is None else later.broker_configs,
    )
