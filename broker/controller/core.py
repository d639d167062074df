"""The controller's core: events in, tree writes and broker commands out. Pure.

`handle` is a generator (see `effects`). Events are handled one after the other, each to its end; only
`Resigned` may cut one short, by closing its generator.
"""

from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from broker.controller import events
from broker.controller.announcements import announce
from broker.controller.brokers import on_brokers_changed
from broker.controller.configs import on_config_changes
from broker.controller.context import ControllerContext, Deposed, LimitsOf, no_limits
from broker.controller.controller_config import ControllerConfig
from broker.controller.deletion import on_delete_topics, on_deletions_marked, on_replicas_stopped
from broker.controller.effects import Answer, Cause, Resign, Steps, note
from broker.controller.failover import take_over
from broker.controller.internal_topics import create_internal_topics
from broker.controller.leadership import balance_leaders, on_elect_leaders
from broker.controller.leftovers import on_leftovers_deleted
from broker.controller.notifications import (
    on_isr_changes,
    on_log_dir_events,
    on_replicas_told,
    on_states_changed,
)
from broker.controller.preferred_node import on_preferred_election_node
from broker.controller.reassignment import (
    list_reassignments,
    on_alter_reassignments,
    on_reassignment_node,
    on_replicas_removed,
)
from broker.controller.shutdown import on_controlled_shutdown
from broker.controller.topics import on_create_partitions, on_create_topics, on_topics_changed
from broker.metadata.znode_paths import (
    BROKER_IDS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    partition_of_state_path,
)
from contracts.cluster import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)

_CHANGE_HANDLERS: Final[dict[str, Callable[[ControllerContext], Steps[None]]]] = {
    BROKER_IDS: on_brokers_changed,
    TOPICS: on_topics_changed,
    DELETE_TOPICS: on_deletions_marked,
    ISR_CHANGES: on_isr_changes,
    LOG_DIR_EVENTS: on_log_dir_events,
    CONFIG_CHANGES: on_config_changes,
    REASSIGN_PARTITIONS: on_reassignment_node,
    PREFERRED_REPLICA_ELECTION: on_preferred_election_node,
}


class ControllerCore:
    """One broker's controller: idle until elected, and again when it is none any more."""

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        draw: Callable[[int], int],
        draw_id: Callable[[], UUID],
        limits_of: LimitsOf = no_limits,
    ) -> None:
        self._new_term = partial(ControllerContext, broker_id, config, draw, draw_id, limits_of)
        self._context: ControllerContext | None = None

    @property
    def context(self) -> ControllerContext | None:
        """What the controller knows; None: it is none. For reading."""
        return self._context

    @property
    def is_active(self) -> bool:
        """Whether it has taken over."""
        return self._context is not None and self._context.is_active

    def handle(self, event: events.Event, now_ms: int) -> Steps[None]:
        """The effects of an event. Calls of the API are for an active controller only."""
        if isinstance(event, events.Resigned):
            self._context = None
            return
        if isinstance(event, events.Elected):
            self._context = self._new_term()
            self._context.controller_epoch = event.controller_epoch
            self._context.epoch_version = event.epoch_version
        context = self._context
        if context is None:
            return
        context.now_ms = now_ms
        try:
            yield from _dispatch(context, event)
            yield from announce(context)
        except Deposed:
            self._context = None
            yield note(Cause.DEPOSED, controller_epoch=context.controller_epoch)
            yield Resign()
            return
        answers, context.answers = context.answers, []
        yield from answers


def _dispatch(context: ControllerContext, event: events.Event) -> Steps[None]:
    match event:
        case events.Elected():
            yield from take_over(context)
        case events.Changed():
            yield from _on_changed(context, event.path)
        case events.Answered():
            yield from _on_answered(context, event)
        case events.Tick():
            yield from _on_tick(context)
        case events.DeleteTopics():
            yield from on_delete_topics(context, event)
        case _:
            context.answers.append((yield from _on_call(context, event)))


def _on_call(context: ControllerContext, call: events.Event) -> Steps[Answer]:
    match call:
        case events.CreateTopics():
            return (yield from on_create_topics(context, call))
        case events.CreatePartitions():
            return (yield from on_create_partitions(context, call))
        case events.ElectLeaders():
            return (yield from on_elect_leaders(context, call))
        case events.AlterReassignments():
            return (yield from on_alter_reassignments(context, call))
        case events.ListReassignments():
            return list_reassignments(context, call)
        case events.ControlledShutdown():
            return (yield from on_controlled_shutdown(context, call))
        case _:
            raise AssertionError(f"not a call: {call}")


def _on_changed(context: ControllerContext, path: str) -> Steps[None]:
    handler = _CHANGE_HANDLERS.get(path)
    if handler is not None:
        yield from handler(context)
        return
    name = partition_of_state_path(path)
    if name is not None and name in context.reassigning:
        yield from on_states_changed(context, [name])


def _on_answered(context: ControllerContext, event: events.Answered) -> Steps[None]:
    """Answers to commands of this term and this life of the broker; others come too late to mean anything."""
    broker = context.brokers.get(event.broker_id)
    request, response = event.request, event.response
    if (
        broker is None
        or broker.live.broker_epoch != request.broker_epoch
        or request.controller_epoch != context.controller_epoch
    ):
        return
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        yield from on_replicas_told(context, event.broker_id, request, response)
    elif isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
        if response.error_code:
            return
        deleted, failed = context.stops_answered(event.broker_id, request, response)
        yield from on_replicas_stopped(context, event.broker_id, deleted, failed)
        yield from on_replicas_removed(context, event.broker_id, deleted, failed)
        yield from on_leftovers_deleted(context, event.broker_id, deleted)


def _on_tick(context: ControllerContext) -> Steps[None]:
    yield from create_internal_topics(context)
    config = context.config
    balance_at_ms = max(context.next_balance_ms, context.brokers_changed_ms + config.leaders_rest_ms)
    if config.auto_leader_rebalance_enable and context.now_ms >= balance_at_ms:
        context.next_balance_ms = context.now_ms + config.leader_imbalance_check_interval_seconds * 1000
        yield from balance_leaders(context)
