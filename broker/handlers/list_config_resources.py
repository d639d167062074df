"""ListConfigResources (74), v0-1.

Behaviour: what DescribeConfigs may be asked about, by type: topics (for a tenant's connection its
instance's) and brokers. Types that no Kafka lists are UNSUPPORTED_VERSION, as in Kafka.
Deliberately not done: groups, which have no configs of their own; loggers; client metrics, all that v0 lists.
Versions: v0 client metrics (KIP-714); v1 types (KIP-1142).
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.configs.resources import BROKER, LISTED_TYPES, TOPIC
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

_TYPES_FROM: Final = 1


class _Deps(Protocol):
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.LIST_CONFIG_RESOURCES, call.api_version)
    found: list[tuple[int, str]] = []
    asked = frozenset(getattr(call.request, "resource_types", ())) or LISTED_TYPES
    error_code = ErrorCode.none if asked <= LISTED_TYPES else ErrorCode.unsupported_version
    if call.api_version >= _TYPES_FROM and error_code is ErrorCode.none:
        if TOPIC in asked:
            topics = (
                deps.metadata if call.instance_id is None else deps.metadata.of_instance(call.instance_id)
            )
            found += [(TOPIC, topic.name) for topic in topics]
        if BROKER in asked:
            found += [(BROKER, str(broker_id)) for broker_id in sorted(deps.metadata.brokers)]

    def entry(kind: int, name: str) -> Entity:
        return shape.nested("ConfigResource", resource_name=name, resource_type=kind)

    resources = tuple(entry(kind, name) for kind, name in found)
    call.reply(shape.make(throttle_time=duration(0), error_code=error_code, config_resources=resources))
