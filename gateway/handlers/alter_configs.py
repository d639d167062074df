"""AlterConfigs 0-2 and IncrementalAlterConfigs 0-1: what a tenant may set is a table with bounds.

Others are INVALID_CONFIG naming the key; harmless ones that Kafka has are taken and change nothing; broker
configs are CLUSTER_AUTHORIZATION_FAILED, groups' GROUP_AUTHORIZATION_FAILED. Subscriptions to client metrics
are changed by the control plane, before the others go up. AlterConfigs replaces all of a
topic's configs, and a removed segment.bytes would fall back to the cluster's, so the instance's creation
defaults are put back in both.
Deliberately not done: checking the outcome of APPEND and SUBTRACT here; the backend validates the list.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from contracts.acls import Operation
from contracts.client_metrics import MetricsSubscription
from contracts.topic_policy import (
    LIST_KEYS,
    NOT_KEPT_KEYS,
    check,
    creation_defaults,
    is_settable,
    stored_value,
)
from gateway.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    READ_ONLY_BROKER,
    READ_ONLY_GROUP,
    TOPIC,
    UNKNOWN_TYPE,
)
from gateway.metric_subscriptions import changed, ordered, told
from gateway.session.call import Answer, Call, Forward, Later, Outcome
from gateway.session.deps import ChangesAccess
from gateway.topic_access import REFUSED_TEXT
from wire.api_table import ApiKey
from wire.build import with_entries
from wire.messages import AlterConfigsResponse, IncrementalAlterConfigsRequest
from wire.messages import IncrementalAlterConfigsRequestAlterableConfig as AlterableConfig
from wire.messages import IncrementalAlterConfigsRequestAlterConfigsResource as AlterConfigsResource

_DUPLICATE: Final[dict[str, object]] = {
    "error_code": ErrorCode.invalid_request,
    "error_message": "it is named twice",
}
_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3


def on_request(call: Call, request: IncrementalAlterConfigsRequest) -> Outcome | Later:
    """Refuse per resource, pass on the rest."""
    metrics = [one for one in request.resources if one.resource_type == CLIENT_METRICS]
    if not metrics:
        return _decided(call, request, [])
    if len({one.resource_name for one in metrics}) < len(metrics):
        faults = [_DUPLICATE | told(one.resource_name) for one in metrics]
        return _decided(call, request, faults)
    changes = [(one.resource_name, changed(call, one)) for one in metrics]
    refused = [told(name) | one for name, one in changes if isinstance(one, dict)]
    wanted = tuple(one for _, one in changes if not isinstance(one, dict))
    if not wanted or request.validate_only:
        return _decided(call, request, [*refused, *(told(one.name) for one in wanted)])
    return Later(partial(_with_subscriptions, call, request, wanted, refused))


async def _with_subscriptions(
    call: Call,
    request: IncrementalAlterConfigsRequest,
    wanted: tuple[MetricsSubscription, ...],
    refused: list[dict[str, object]],
    deps: ChangesAccess,
) -> Outcome:
    return _decided(call, request, [*refused, *await ordered(call, wanted, deps)])


def _decided(
    call: Call, request: IncrementalAlterConfigsRequest, answered: list[dict[str, object]]
) -> Outcome:
    accepted: list[AlterConfigsResource] = []
    refused = list(answered)
    for resource in request.resources:
        if resource.resource_type == CLIENT_METRICS:
            continue
        fault = _fault(call, resource)
        if fault is None:
            accepted.append(_with_defaults(call, resource))
        else:
            refused.append(
                {
                    "error_code": fault[0],
                    "error_message": fault[1],
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                }
            )
    if not accepted:
        return Answer(with_entries(call.response(), "responses", refused))
    call.exchange.notes = refused
    return Forward(replace(request, resources=tuple(accepted)))


def _fault(call: Call, resource: AlterConfigsResource) -> tuple[ErrorCode, str] | None:
    if resource.resource_type in (BROKER, BROKER_LOGGER):
        return ErrorCode.cluster_authorization_failed, READ_ONLY_BROKER
    if resource.resource_type == GROUP:
        return ErrorCode.group_authorization_failed, READ_ONLY_GROUP
    if resource.resource_type != TOPIC:
        return ErrorCode.invalid_request, UNKNOWN_TYPE
    if call.refuses_topic(resource.resource_name, Operation.ALTER_CONFIGS):
        return ErrorCode.topic_authorization_failed, REFUSED_TEXT
    for config in resource.configs:
        fault = _config_fault(call, config)
        if fault is not None:
            return ErrorCode.invalid_config, fault
    return None


def _config_fault(call: Call, config: AlterableConfig) -> str | None:
    operation = getattr(config, "config_operation", _SET)
    limits = call.spec.limits
    if operation == _DELETE:
        return None if is_settable(config.name) else check(config.name, None, limits)
    if operation in (_APPEND, _SUBTRACT) and is_settable(config.name) and config.name not in LIST_KEYS:
        return f"{config.name} is not a list: it cannot be appended to or subtracted from"
    if operation not in (_SET, _APPEND, _SUBTRACT):
        return f"{config.name}: operation {operation} is unknown"
    return check(config.name, config.value, limits)


def _as_stored(call: Call, config: AlterableConfig) -> AlterableConfig:
    if getattr(config, "config_operation", _SET) != _SET:
        return config
    return replace(
        config, value=config.value and stored_value(config.name, config.value, call.written_limits)
    )


def _with_defaults(call: Call, resource: AlterConfigsResource) -> AlterConfigsResource:
    kept = tuple(_as_stored(call, config) for config in resource.configs if config.name not in NOT_KEPT_KEYS)
    resource = replace(resource, configs=kept)
    defaults = creation_defaults(call.spec.capacity_bytes, call.written_limits)
    if call.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        configs = tuple(
            replace(config, config_operation=i8(_SET), value=defaults[config.name])
            if config.config_operation == _DELETE and config.name in defaults
            else config
            for config in resource.configs
        )
        return replace(resource, configs=configs)
    named = {config.name for config in resource.configs}
    added = [{"name": name, "value": value} for name, value in defaults.items() if name not in named]
    return with_entries(resource, "configs", added)


def on_response(call: Call, response: AlterConfigsResponse) -> AlterConfigsResponse:
    """Add the refused resources."""
    return with_entries(response, "responses", call.exchange.notes)
