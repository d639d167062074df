"""The cluster's own topics (__consumer_offsets, __transaction_state): created by the controller.

They come with their replication factor as soon as so many brokers live, not before, whoever asks (KIP-115): a
cluster that is just starting would get topics with one replica, and keep them so. Until then FindCoordinator
says how many are missing.
"""

from broker.controller.api import NewTopic
from broker.controller.context import ControllerContext
from broker.controller.effects import Cause, Steps, note
from broker.controller.placement import Placement, Refused
from broker.controller.topics import create_topics


def create_internal_topics(context: ControllerContext) -> Steps[None]:
    """Create those that are missing, if there are brokers enough. Raises: Deposed."""
    factor = context.config.internal_replication_factor
    if len(context.brokers) < factor:
        return
    topics = []
    for each in context.config.internal_topics:
        if each.name in context.topics or each.name in context.deletions:
            continue
        asked = NewTopic(each.name, context.draw_id(), configs=each.configs)
        try:
            topics.append((asked, Placement(context).by_default(each.name, each.partitions, factor)))
        except Refused as refusal:
            yield note(Cause.INTERNAL_TOPIC_REFUSED, topic=each.name, reason=str(refusal))
    yield from create_topics(context, topics)
