"""DescribeConfigs 1-4: topics and groups go up; brokers have a short read-only list, answered here, as are
subscriptions to client metrics; the brokers' loggers are CLUSTER_AUTHORIZATION_FAILED, other types
INVALID_REQUEST. A topic's keys that tenants may not set are shown as read-only, and a value that the limits
of the instance bound is shown as it applies; the synonyms tell what was set. A resource named twice is
answered once, as clients keep one answer per resource: an answer about a broker is many times its question.
What tools ask about all topics at once is asked and answered in portions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from contracts.acls import Operation, ResourceType
from contracts.specs import Engine
from contracts.topic_policy import ALLOWED_KEYS, applied
from gateway.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    UNKNOWN_TYPE,
    broker_configs,
)
from gateway.metric_subscriptions import described as subscription_described
from gateway.rules.topic_rules import replication_factor
from gateway.session.call import Answer, Call, Encoded, Forward, Later, Outcome
from gateway.session.deps import AnswersInPortions, Deps
from gateway.topic_access import split
from wire.api_table import ApiKey
from wire.build import build, entry_class, with_entries
from wire.codec import encode, listing_body
from wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from wire.request_bounds import pieces

_PORTION: Final = 50
"""Topics and groups asked for at once."""
_TOPIC_CONFIG: Final = 1
_STATIC_BROKER_CONFIG: Final = 4
_REFUSALS: Final = {
    TOPIC: ErrorCode.topic_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
    BROKER_LOGGER: ErrorCode.cluster_authorization_failed,
}
"""What is said of resources that do not go up."""
_REFUSALS_WITHOUT_GROUPS: Final = {what: code for what, code in _REFUSALS.items() if what != GROUP}
"""The same where the brokers do not know configs of groups: the type is unknown."""
_DESCRIBE_CONFIGS: Final = int(ApiKey.DESCRIBE_CONFIGS)
_LOWEST_IN_KAFKA_4: Final = 1
"""Of its versions: KIP-896 took 0 away in Apache Kafka 4.0, where groups came."""
_Entries: TypeAlias = list[dict[str, object]]


def on_request(call: Call, request: DescribeConfigsRequest) -> Outcome | Later:
    """Answer for everything that is no topic or group; ask for many in portions."""
    if call.cluster.spec.engine is Engine.BUILTIN or all(
        one.resource_type != GROUP for one in request.resources
    ):
        return _decided(call, request, groups_go_up=True)
    return Later(partial(_as_versions_tell, call, request))


async def _as_versions_tell(call: Call, request: DescribeConfigsRequest, deps: Deps) -> Outcome:
    """An Apache Kafka below 4.0 refuses the whole request for one group."""
    served = (await deps.versions()).apis.get(_DESCRIBE_CONFIGS)
    groups_go_up = served is not None and served.lowest >= _LOWEST_IN_KAFKA_4
    outcome = _decided(call, request, groups_go_up=groups_go_up)
    return await outcome.work(deps) if isinstance(outcome, Later) else outcome


def _decided(call: Call, request: DescribeConfigsRequest, *, groups_go_up: bool) -> Outcome | Later:
    refusals = _REFUSALS if groups_go_up else _REFUSALS_WITHOUT_GROUPS
    once = {(one.resource_type, one.resource_name): one for one in request.resources}
    if len(once) > _PORTION:
        return Later(partial(_in_portions, call, request, tuple(once.values()), refusals))
    forwarded, local = _shared_out(call, once.values(), refusals)
    if not forwarded:
        return Answer(with_entries(call.response(), "results", local))
    call.exchange.notes = local
    return Forward(replace(request, resources=forwarded))


def _shared_out(
    call: Call, resources: Iterable[DescribeConfigsResource], refusals: Mapping[int, ErrorCode]
) -> tuple[tuple[DescribeConfigsResource, ...], _Entries]:
    """(what goes up, answers to the others)."""
    forwarded, ours = split(
        resources, lambda one: one.resource_type not in refusals or not _goes_up(call, one)
    )
    of_broker = broker_configs(call.spec, replication_factor(len(call.cluster.spec.brokers)))
    return forwarded, [_described(call, one, of_broker, refusals) for one in ours]


async def _in_portions(
    call: Call,
    request: DescribeConfigsRequest,
    resources: Sequence[DescribeConfigsResource],
    refusals: Mapping[int, ErrorCode],
    deps: AnswersInPortions,
) -> Encoded:
    """The answer about a topic is fifty times its question: neither the broker's loop nor ours is held by
    more than a portion of it, and of those before it only the bytes are kept, for one request at a time."""
    empty = call.response()
    kind = entry_class(type(empty), "results")
    answers: list[bytes] = []
    async with deps.in_portions(len(resources)):
        for portion in pieces(resources, _PORTION):
            forwarded, local = _shared_out(call, portion, refusals)
            if forwarded:
                asked = await deps.ask_any(replace(request, resources=forwarded))
                answers += map(encode, _as_shown(call, asked))
            else:
                await deps.pause(0)
            answers += (encode(build(kind, one)) for one in local)
    return Encoded(listing_body(empty, answers))


def _goes_up(call: Call, resource: DescribeConfigsResource) -> bool:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        return not call.refuses_topic(name, Operation.DESCRIBE_CONFIGS)
    if resource.resource_type != GROUP or name == "":
        return False
    return not call.refuses(ResourceType.GROUP, name, Operation.DESCRIBE_CONFIGS)


def _described(
    call: Call,
    resource: DescribeConfigsResource,
    of_broker: dict[str, str],
    refusals: Mapping[int, ErrorCode],
) -> dict[str, object]:
    known = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    if resource.resource_type == BROKER:
        return _broker_described(call, resource, known, of_broker)
    if GROUP in refusals and resource.resource_type == GROUP and resource.resource_name == "":
        message = "Group name must not be empty"
        return {**known, "error_code": ErrorCode.invalid_request, "error_message": message}
    if resource.resource_type == CLIENT_METRICS:
        return subscription_described(call, resource, known)
    refusal = refusals.get(resource.resource_type)
    if refusal is None:
        return {**known, "error_code": ErrorCode.invalid_request, "error_message": UNKNOWN_TYPE}
    return {**known, "error_code": refusal}


def _broker_described(
    call: Call, resource: DescribeConfigsResource, known: dict[str, object], of_broker: dict[str, str]
) -> dict[str, object]:
    if call.refuses_of_cluster(Operation.DESCRIBE_CONFIGS):
        return {**known, "error_code": ErrorCode.cluster_authorization_failed}
    if resource.resource_name and not _is_node(call, resource.resource_name):
        message = f"there is no broker {resource.resource_name[:20]}"
        return {**known, "error_code": ErrorCode.invalid_request, "error_message": message}
    keys = frozenset(resource.configuration_keys or ())
    return {
        **known,
        "configs": [
            {"name": name, "value": value, "read_only": True, "config_source": _STATIC_BROKER_CONFIG}
            for name, value in of_broker.items()
            if not keys or name in keys
        ],
    }


def _is_node(call: Call, name: str) -> bool:
    return name in map(str, call.instance.views[call.conversation.entrance].brokers)


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
