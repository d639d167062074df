"""The cluster's own topics (__consumer_offsets, __transaction_state): created by the controller.

They get the wanted replication factor as soon as so many brokers live. A client that needs one before gets it
with as many replicas as there are brokers, once these have been the same ones for a while: a cluster that
is just starting would otherwise get topics with one replica.
"""

from broker.controller.api import NewTopic
from broker.controller.context import ControllerContext
from broker.controller.effects import Cause, Steps, note
from broker.controller.placement import Placement, Refused
from broker.controller.topics import create_topics


def create_internal_topics(context: ControllerContext) -> Steps[None]:
    """Create those that are missing, if it is time. Raises: Deposed."""
    if not context.brokers:
        return
    wanted = context.config.internal_replication_factor
    is_still = context.now_ms - context.brokers_changed_ms >= context.config.internal_topics_patience_ms
    topics = []
    for each in context.config.internal_topics:
        if each.name in context.topics or each.name in context.deletions:
            context.needed_internal_topics.discard(each.name)
        elif len(context.brokers) >= wanted or (is_still and each.name in context.needed_internal_topics):
            factor = min(wanted, len(context.brokers))
            asked = NewTopic(each.name, context.draw_id(), configs=each.configs)
            try:
                topics.append((asked, Placement(context).by_default(each.name, each.partitions, factor)))
            except Refused as refusal:
                yield note(Cause.INTERNAL_TOPIC_REFUSED, topic=each.name, reason=str(refusal))
    yield from create_topics(context, topics)
