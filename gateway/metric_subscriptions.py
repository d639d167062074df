"""Subscriptions to client metrics as Kafka's tools see and change them: config resources of the instance,
of type CLIENT_METRICS, which the control plane keeps.

As in Kafka: whoever may describe or alter configs of the cluster may, one that nobody made has the defaults,
and one without any config is gone.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from contracts.access_orders import AccessOrder
from contracts.acls import Operation
from contracts.client_metrics import (
    DEFAULTS,
    INTERVAL_MS,
    MATCHED_BY,
    MetricsSubscription,
    SubscriptionFault,
    subscription,
)
from gateway.config_resources import CLIENT_METRICS
from gateway.session.call import Call
from gateway.session.deps import ChangesAccess
from wire.api_table import ApiKey
from wire.messages import DescribeConfigsResource
from wire.messages import IncrementalAlterConfigsRequestAlterableConfig as AlterableConfig
from wire.messages import IncrementalAlterConfigsRequestAlterConfigsResource as AlterConfigsResource
from wire.patterns import compiled_pattern

_Entry: TypeAlias = dict[str, object]
_DEFAULT_CONFIG: Final = 5
_CLIENT_METRICS_CONFIG: Final = 7
_INT, _LIST = 3, 7
"""Types of a config's value."""
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def described(call: Call, resource: DescribeConfigsResource, known: _Entry) -> _Entry:
    """What DescribeConfigs says of one subscription."""
    if call.refuses_of_cluster(Operation.DESCRIBE_CONFIGS):
        return {**known, "error_code": ErrorCode.cluster_authorization_failed}
    if not resource.resource_name:
        message = "Client metrics subscription name must not be empty"
        return {**known, "error_code": ErrorCode.invalid_request, "error_message": message}
    present = _present(call).get(resource.resource_name)
    own = {} if present is None else present.configs
    keys = frozenset(resource.configuration_keys or ())
    return {
        **known,
        "configs": [
            {
                "name": name,
                "value": own.get(name, default),
                "config_source": _CLIENT_METRICS_CONFIG if name in own else _DEFAULT_CONFIG,
                "config_type": _INT if name == INTERVAL_MS else _LIST,
            }
            for name, default in DEFAULTS.items()
            if not keys or name in keys
        ],
    }


def _present(call: Call) -> dict[str, MetricsSubscription]:
    return {one.name: one for one in call.spec.metric_subscriptions}


def changed(call: Call, resource: AlterConfigsResource) -> MetricsSubscription | _Entry:
    """What a subscription is to be; or why not, as an answer says it."""
    if call.refuses_of_cluster(Operation.ALTER_CONFIGS):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    present = _present(call).get(resource.resource_name)
    is_incremental = call.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS
    configs = {} if present is None or not is_incremental else present.configs
    try:
        for config in resource.configs:
            _apply(configs, config)
        made = subscription(resource.resource_name, configs)
    except SubscriptionFault as fault:
        return {"error_code": ErrorCode.invalid_config, "error_message": str(fault)}
    if any(compiled_pattern(pattern) is None for pattern in made.matches.values()):
        message = f"Illegal client matching pattern: patterns of {', '.join(MATCHED_BY)} are RE2's"
        return {"error_code": ErrorCode.invalid_config, "error_message": message}
    return made


def _apply(configs: dict[str, str], config: AlterableConfig) -> None:
    """Raises: SubscriptionFault."""
    name, value = config.name, config.value or ""
    operation = getattr(config, "config_operation", _SET)
    if name not in DEFAULTS:
        raise SubscriptionFault(f"Unknown client metrics configuration: {name[:100]}")
    if operation == _DELETE:
        configs.pop(name, None)
    elif operation == _SET:
        configs[name] = value
    elif operation in (_APPEND, _SUBTRACT) and name != INTERVAL_MS:
        before = configs.get(name, "").split(",")
        configs[name] = ",".join(
            [*before, value] if operation == _APPEND else _without(before, value.split(","))
        )
    else:
        raise SubscriptionFault(f"{name}: operation {operation} is unknown, or for lists only")


def _without(items: Iterable[str], gone: Iterable[str]) -> list[str]:
    left_out = {each.strip() for each in gone}
    return [each for each in items if each.strip() not in left_out]


async def ordered(call: Call, wanted: tuple[MetricsSubscription, ...], deps: ChangesAccess) -> list[_Entry]:
    """Have them changed, all or none; what an answer says of each."""
    order = AccessOrder(
        instance_id=call.spec.instance_id,
        principal=call.conversation.principal,
        address=call.conversation.address,
        subscriptions=wanted,
    )
    answer = await deps.change_access(order)
    error: _Entry = {}
    if answer.refusal:
        code = ErrorCode.request_timed_out if answer.is_passing else ErrorCode.policy_violation
        error = {"error_code": code, "error_message": answer.refusal}
    return [told(one.name) | error for one in wanted]


def told(name: str) -> _Entry:
    """What an answer says of a subscription that was changed."""
    return {"resource_type": CLIENT_METRICS, "resource_name": name}
