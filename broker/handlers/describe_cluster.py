"""DescribeCluster (60), v0-2.

Behaviour: the brokers that are registered, and the controller. A broker that has not heard of a controller
yet lets the call wait. Another kind of endpoint (v1) than brokers is
UNSUPPORTED_ENDPOINT_TYPE. None of those that are registered is fenced (v2).
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.metadata.metadata_cache import MetadataCache
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response, response_shape
from wire.codec import duration

_BROKERS: Final = 1
_NOT_ASKED: Final = -(2**31)
_CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
"""Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite (KIP-430)."""


class _Deps(Protocol):
    config: BrokerConfig
    later: Later
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    deps.later.when_known(call, lambda: _answer(deps, call))


def _answer(deps: _Deps, call: Call) -> None:
    shape = response_shape(ApiKey.DESCRIBE_CLUSTER, call.api_version)
    metadata = deps.metadata
    asked = call.request.include_cluster_authorized_operations
    endpoint_type = getattr(call.request, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        # A controller is a broker here: there are no others to describe.
        error_code, text = ErrorCode.unsupported_endpoint_type, f"endpoint type {endpoint_type} is not served"
        call.reply(
            response(ApiKey.DESCRIBE_CLUSTER, call.api_version, error_code=error_code, error_message=text)
        )
        return
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=ErrorCode.none,
            error_message=None,
            endpoint_type=endpoint_type,
            cluster_id=deps.config.cluster_id,
            controller_id=metadata.live_controller_id,
            brokers=tuple(
                shape.nested(
                    "DescribeClusterBroker",
                    broker_id=each.broker_id,
                    host=each.host,
                    port=each.port,
                    rack=each.rack,
                    is_fenced=False,
                )
                for _, each in sorted(metadata.brokers.items())
            ),
            cluster_authorized_operations=_CLUSTER_OPERATIONS if asked else _NOT_ASKED,
        )
    )
