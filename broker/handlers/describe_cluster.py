"""DescribeCluster (60), v0.

Behaviour: this broker, which is also the controller.
Deliberately not done: endpoint types (v1), fenced brokers (v2).
"""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_NOT_ASKED: Final = -(2**31)
_CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
"""Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite (KIP-430)."""


def handle(broker: "Broker", call: "Call") -> None:
    """Answer the cluster's one broker."""
    shape = response_shape(ApiKey.DESCRIBE_CLUSTER, call.api_version)
    node_id, host, port = broker.node
    asked = call.request.include_cluster_authorized_operations
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=ErrorCode.none,
            error_message=None,
            cluster_id=broker.config.cluster_id,
            controller_id=node_id,
            brokers=(
                shape.nested("DescribeClusterBroker", broker_id=node_id, host=host, port=port, rack=None),
            ),
            cluster_authorized_operations=_CLUSTER_OPERATIONS if asked else _NOT_ASKED,
        )
    )
