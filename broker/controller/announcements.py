"""Telling brokers: what a handler collected becomes one request per kind and broker.

A broker hears first how to play its replicas, then the metadata, then what to stop: a leader knows that it is
one before its clients do.
"""

from collections.abc import Iterable

from broker.controller.api import PartitionName
from broker.controller.context import ControllerContext, PartitionRecord, PendingCommands
from broker.controller.effects import Send, Steps
from broker.metadata.znodes import PartitionState
from contracts.cluster import (
    NO_LEADER,
    DeletedTopic,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LiveBroker,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


def announce(context: ControllerContext) -> Steps[None]:
    """Send what is pending."""
    pending, context.pending = context.pending, PendingCommands()
    live = context.live_brokers()
    full_states = _metadata_states(context, _all_names(context)) if pending.full_metadata else ()
    states = _metadata_states(context, pending.metadata)
    has_news = bool(
        states
        or pending.metadata_topics
        or pending.deleted_topics
        or pending.brokers_changed
        or pending.broker_configs_changed
    )
    for broker in live:
        broker_id = broker.broker_id
        if broker_id in pending.full_leader_and_isr or broker_id in pending.leader_and_isr:
            yield Send(broker_id, _leader_and_isr(context, pending, broker, live))
        if broker_id in pending.full_metadata:
            yield Send(broker_id, _full_metadata(context, broker, live, full_states))
        elif has_news:
            yield Send(broker_id, _metadata(context, pending, broker, live, states))
        if broker_id in pending.stop_replica:
            yield Send(
                broker_id,
                StopReplicaRequest(
                    controller_id=context.broker_id,
                    controller_epoch=context.controller_epoch,
                    broker_epoch=broker.broker_epoch,
                    number=context.stop_number,
                    partition_states=tuple(pending.stop_replica[broker_id].values()),
                ),
            )
    if pending.stop_replica:
        context.stop_number += 1


def _all_names(context: ControllerContext) -> list[PartitionName]:
    return [name for name, _ in context.every_partition()]


def _leader_and_isr(
    context: ControllerContext, pending: PendingCommands, broker: LiveBroker, live: tuple[LiveBroker, ...]
) -> LeaderAndIsrRequest:
    told = pending.leader_and_isr.get(broker.broker_id, {})
    is_full = broker.broker_id in pending.full_leader_and_isr
    names = (name for name, _ in context.every_partition()) if is_full else told
    states = [
        _leader_and_isr_state(context, name, record, told.get(name, False))
        for name in names
        if (record := context.partition(name)) is not None
        and record.state is not None
        and broker.broker_id in context.active_replicas(name, record)
    ]
    topics = dict.fromkeys(state.topic for state in states)
    return LeaderAndIsrRequest(
        controller_id=context.broker_id,
        controller_epoch=context.controller_epoch,
        broker_epoch=broker.broker_epoch,
        is_full=is_full,
        partition_states=tuple(states),
        topic_configs={topic: configs for topic in topics if (configs := context.topics[topic].configs)},
        live_brokers=live,
    )


def _leader_and_isr_state(
    context: ControllerContext, name: PartitionName, record: PartitionRecord, is_new: bool
) -> LeaderAndIsrPartitionState:
    state = record.state
    assert state is not None, "only partitions with a state are told of"
    is_taken_over = name in context.removals
    return LeaderAndIsrPartitionState(
        topic=name[0],
        topic_id=context.topics[name[0]].topic_id,
        partition=name[1],
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=record.version,
        replicas=context.active_replicas(name, record),
        adding_replicas=() if is_taken_over else record.assignment.adding_replicas,
        removing_replicas=() if is_taken_over else record.assignment.removing_replicas,
        is_new=is_new,
    )


def _metadata_states(
    context: ControllerContext, names: Iterable[PartitionName]
) -> tuple[UpdateMetadataPartitionState, ...]:
    return tuple(
        _metadata_state(context, name, record)
        for name in names
        if (record := context.partition(name)) is not None
    )


def _metadata_state(
    context: ControllerContext, name: PartitionName, record: PartitionRecord
) -> UpdateMetadataPartitionState:
    state = record.state or PartitionState(
        leader=NO_LEADER, leader_epoch=-1, isr=(), controller_epoch=context.controller_epoch
    )
    return UpdateMetadataPartitionState(
        topic=name[0],
        partition=name[1],
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=record.version,
        replicas=record.assignment.replicas,
        adding_replicas=record.assignment.adding_replicas,
        removing_replicas=record.assignment.removing_replicas,
        offline_replicas=context.offline_replicas(name, record),
    )


def _topic_states(context: ControllerContext, names: Iterable[str]) -> tuple[UpdateMetadataTopicState, ...]:
    return tuple(
        UpdateMetadataTopicState(topic=name, topic_id=topic.topic_id, configs=topic.configs)
        for name in names
        if (topic := context.topics.get(name)) is not None
    )


def _full_metadata(
    context: ControllerContext,
    broker: LiveBroker,
    live: tuple[LiveBroker, ...],
    states: tuple[UpdateMetadataPartitionState, ...],
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=context.broker_id,
        controller_epoch=context.controller_epoch,
        broker_epoch=broker.broker_epoch,
        is_full=True,
        topic_states=_topic_states(context, context.topics),
        partition_states=states,
        live_brokers=live,
        broker_configs=dict(context.broker_configs),
    )


def _metadata(
    context: ControllerContext,
    pending: PendingCommands,
    broker: LiveBroker,
    live: tuple[LiveBroker, ...],
    states: tuple[UpdateMetadataPartitionState, ...],
) -> UpdateMetadataRequest:
    deleted = tuple(
        DeletedTopic(topic=name, topic_id=topic_id) for topic_id, name in pending.deleted_topics.items()
    )
    return UpdateMetadataRequest(
        controller_id=context.broker_id,
        controller_epoch=context.controller_epoch,
        broker_epoch=broker.broker_epoch,
        topic_states=_topic_states(context, pending.metadata_topics),
        partition_states=states,
        deleted_topics=deleted,
        live_brokers=live,
        broker_configs=dict(context.broker_configs) if pending.broker_configs_changed else None,
    )
