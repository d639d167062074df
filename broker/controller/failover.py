"""Taking over: the twelve steps of seed 001 (controller failover), in order.

A controller that dies anywhere in them has a successor that does them all again; each write is then the same,
or is not needed any more.
"""

from broker.controller.announcements import announce
from broker.controller.brokers import expel_unclean, read_brokers
from broker.controller.configs import load_broker_configs, on_config_changes
from broker.controller.context import ControllerContext
from broker.controller.deletion import on_deletions_marked
from broker.controller.effects import Cause, Connect, Steps, Watch, WatchKind, children, note
from broker.controller.internal_topics import create_internal_topics
from broker.controller.leadership import settle
from broker.controller.leftovers import load_leftovers, tell_leftovers
from broker.controller.notifications import on_isr_changes, on_log_dir_events
from broker.controller.preferred_node import on_preferred_election_node
from broker.controller.reassignment import resume_reassignments
from broker.controller.topics import load_topics
from broker.metadata.znode_paths import (
    BROKER_IDS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
)


def take_over(context: ControllerContext) -> Steps[None]:
    """Step 1, the controller epoch, was written with the office. Raises: Deposed."""
    yield Watch(WatchKind.DATA, REASSIGN_PARTITIONS)  # 2
    yield Watch(WatchKind.DATA, PREFERRED_REPLICA_ELECTION)  # 3
    yield Watch(WatchKind.CHILDREN, TOPICS)  # 4
    if context.config.delete_topic_enable:
        yield Watch(WatchKind.CHILDREN, DELETE_TOPICS)  # 5
    yield Watch(WatchKind.CHILDREN, BROKER_IDS)  # 6
    for path in (ISR_CHANGES, LOG_DIR_EVENTS, CONFIG_CHANGES):
        yield Watch(WatchKind.CHILDREN, path)
    yield from _initialise(context)  # 7
    yield from expel_unclean(context)  # 8: the state machines
    yield from settle(context, [name for name, _ in context.every_partition()])
    context.is_active = True  # 9
    yield note(Cause.TOOK_OVER, controller_epoch=context.controller_epoch, topics=len(context.topics))
    context.pending.full_metadata |= context.brokers.keys()
    context.pending.full_leader_and_isr |= context.brokers.keys()
    yield from tell_leftovers(context, context.brokers)
    yield from announce(context)  # 10
    # 11: the first automatic election is due once the brokers have rested
    yield from resume_reassignments(context)
    yield from on_preferred_election_node(context)
    yield from on_deletions_marked(context)  # 12
    for take_in in (on_isr_changes, on_log_dir_events, on_config_changes, create_internal_topics):
        yield from take_in(context)


def _initialise(context: ControllerContext) -> Steps[None]:
    """The controller's context: brokers, configs, topics, and every partition's leader and ISR."""
    context.brokers = yield from read_brokers()
    context.brokers_changed_ms = context.now_ms
    yield Connect(context.live_brokers())
    yield from load_broker_configs(context)
    yield from load_topics(context, (yield from children(TOPICS)))
    yield from load_leftovers(context)
