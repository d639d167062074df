"""ListConfigResources 0-1: what the client may ask DescribeConfigs about, told here: topics of the instance,
its brokers and its subscriptions to client metrics, whatever else the cluster behind has.

Groups have no configs of their own, loggers are the operator's. Version 0 lists client metrics alone.
"""

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from contracts.acls import Operation
from gateway.config_resources import BROKER, CLIENT_METRICS, LISTED_TYPES, TOPIC
from gateway.session.call import Answer, Call, Later
from gateway.session.deps import ChangesPartitions
from wire.messages import ListConfigResourcesRequest

_TYPES_FROM: Final = 1


def on_request(call: Call, request: ListConfigResourcesRequest) -> Answer | Later:
    """Answer at once, unless topics have to be asked for."""
    if call.refuses_of_cluster(Operation.DESCRIBE_CONFIGS):
        return call.answer(error_code=ErrorCode.cluster_authorization_failed)
    if call.api_version < _TYPES_FROM:
        return call.answer(config_resources=_subscriptions(call))
    asked = frozenset(request.resource_types) or LISTED_TYPES
    if not asked <= LISTED_TYPES:
        return call.answer(error_code=ErrorCode.unsupported_version)
    told = _brokers(call) if BROKER in asked else []
    if CLIENT_METRICS in asked:
        told += _subscriptions(call)
    if TOPIC in asked:
        return Later(partial(_with_topics, call, told))
    return call.answer(config_resources=told)


def _subscriptions(call: Call) -> list[dict[str, object]]:
    names = [one.name for one in call.spec.metric_subscriptions]
    return [{"resource_type": CLIENT_METRICS, "resource_name": name} for name in names]


def _brokers(call: Call) -> list[dict[str, object]]:
    node_ids = sorted(call.instance.views[call.conversation.entrance].brokers)
    return [{"resource_type": BROKER, "resource_name": str(node_id)} for node_id in node_ids]


async def _with_topics(call: Call, others: list[dict[str, object]], deps: ChangesPartitions) -> Answer:
    names = sorted(await deps.partition_counts())
    topics = [
        {"resource_type": TOPIC, "resource_name": name}
        for name in names
        if not call.refuses_topic(name, Operation.DESCRIBE_CONFIGS)
    ]
    return call.answer(config_resources=[*topics, *others])
