"""DescribeConfigs 1-4: topics go up; brokers have a short read-only list, answered here; other types are
INVALID_REQUEST. A topic's keys that tenants may not set are shown as read-only, and a value that the limits
of the instance bound is shown as it applies; the synonyms tell what was set. A resource named twice is
answered once, as clients keep one answer per resource: an answer about a broker is many times its question.
"""

from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from contracts.topic_policy import ALLOWED_KEYS, applied
from gateway.config_resources import BROKER, TOPIC, UNKNOWN_TYPE, broker_configs
from gateway.rules.topic_rules import replication_factor
from gateway.session.call import Answer, Call, Forward, Later, Outcome
from gateway.session.deps import AsksBrokers
from gateway.topic_access import split
from wire.build import with_entries
from wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

_PORTION: Final = 50
"""Topics asked for at once."""
_TOPIC_CONFIG: Final = 1
_STATIC_BROKER_CONFIG: Final = 4
_Entries: TypeAlias = list[dict[str, object]]


def on_request(call: Call, request: DescribeConfigsRequest) -> Outcome | Later:
    """Answer for everything that is no topic; ask for many topics in portions."""
    once = {(one.resource_type, one.resource_name): one for one in request.resources}
    forwarded, ours = split(once.values(), lambda one: not _goes_up(call, one))
    of_broker = broker_configs(call.spec, replication_factor(len(call.cluster.spec.brokers)))
    local = [_described(call, one, of_broker) for one in ours]
    if not forwarded:
        return Answer(with_entries(call.response(), "results", local))
    if len(forwarded) > _PORTION:
        return Later(partial(_in_portions, call, request, forwarded, local))
    call.exchange.notes = local
    return Forward(replace(request, resources=forwarded))


async def _in_portions(
    call: Call,
    request: DescribeConfigsRequest,
    topics: tuple[DescribeConfigsResource, ...],
    local: _Entries,
    deps: AsksBrokers,
) -> Answer:
    """The answer about a topic is fifty times its question: neither the broker's loop nor ours is held by
    more than a portion of it."""
    results: list[DescribeConfigsResult] = []
    for start in range(0, len(topics), _PORTION):
        portion = replace(request, resources=topics[start : start + _PORTION])
        results += _as_shown(call, await deps.ask_any(portion))
    return Answer(with_entries(call.response(results=results), "results", local))


def _goes_up(call: Call, resource: DescribeConfigsResource) -> bool:
    return resource.resource_type == TOPIC and not call.refuses_topic(resource.resource_name)


def _described(call: Call, resource: DescribeConfigsResource, of_broker: dict[str, str]) -> dict[str, object]:
    known = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    if resource.resource_type == TOPIC:
        return {**known, "error_code": ErrorCode.topic_authorization_failed}
    if resource.resource_type != BROKER:
        return {**known, "error_code": ErrorCode.invalid_request, "error_message": UNKNOWN_TYPE}
    if resource.resource_name and not _is_node(call, resource.resource_name):
        message = f"there is no broker {resource.resource_name[:20]}"
        return {**known, "error_code": ErrorCode.invalid_request, "error_message": message}
    keys = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
    return {
        **known,
        "configs": [
            {"name": name, "value": value, "read_only": True, "config_source": _STATIC_BROKER_CONFIG}
            for name, value in of_broker.items()
            if keys is None or name in keys
        ],
    }


def _is_node(call: Call, name: str) -> bool:
    return name in map(str, call.instance.views[call.conversation.security_protocol].brokers)


def _shown(call: Call, config: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    if config.name not in ALLOWED_KEYS:
        return replace(config, read_only=True)
    value = applied(config.name, config.value, call.spec.limits, is_own=config.config_source == _TOPIC_CONFIG)
    return config if value == config.value else replace(config, value=value)


def on_response(call: Call, response: DescribeConfigsResponse) -> DescribeConfigsResponse:
    """Mark what cannot be set, add what was answered here."""
    results = _as_shown(call, response)
    return with_entries(replace(response, results=results), "results", call.exchange.notes)


def _as_shown(call: Call, response: DescribeConfigsResponse) -> tuple[DescribeConfigsResult, ...]:
    return tuple(
        replace(result, configs=tuple(_shown(call, config) for config in result.configs))
        for result in response.results
    )
