"""Metadata 0-13: addresses become vip:vport, listings the instance's own, the cluster id the instance's id.

All that follows from the schema. Here: topics are created on request only where the instance allows it, and
by us, never by the backend; topics that a client may not use; version 0's "no topics means all". An id (12)
outranks the name beside it; one that is another instance's is as unknown as one that is nobody's, for its
entry has a name that is not ours. What is told of ids is remembered for requests that have nothing else.
A null name without an id, or in 10-11, is INVALID_REQUEST, as in Kafka.
"""

from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.create_topics.v5.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.protocol import Payload

from contracts.acls import Operation, ResourceType
from contracts.names import topic_name_fault
from contracts.specs import Engine
from contracts.topic_policy import creation_defaults
from gateway.mutation_quota import MutationQuota
from gateway.rules.acls import NOT_ASKED
from gateway.session.call import Call, Forward, ForwardBody, Later
from gateway.session.deps import ChangesPartitions
from gateway.topic_access import split
from wire.build import build, with_entries
from wire.codec import encode
from wire.messages import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.rewrite import rewrite_request

_OPERATIONS_FROM: Final = 8
_PORTION: Final = 100
"""Topics created by one request of ours: far below what a broker takes."""
_NO_NAME: Final = "/"
"""What no topic can be called."""
_IDS_FROM: Final = 10
_BY_ID_FROM: Final = 12


class _Noted(NamedTuple):
    """What the reply is completed with."""

    refused: list[MetadataRequestTopic]
    topic_ids: list[UUID]
    """Asked for, each of which has its answer."""


def on_request(call: Call, request: MetadataRequest) -> Forward | Later:
    """Take out what is answered here; create what is missing and wanted."""
    may_create = getattr(request, "allow_auto_topic_creation", True)
    if hasattr(request, "allow_auto_topic_creation"):
        request = replace(request, allow_auto_topic_creation=False)
    if request.topics is None or (call.api_version == 0 and not request.topics):
        if call.cluster.spec.engine is Engine.APACHE:
            return Later(partial(_of_instance, call, request))
        return Forward(request)
    topics = request.topics
    by_id: list[UUID] = []
    if call.api_version >= _BY_ID_FROM:
        by_id = list(dict.fromkeys(each.topic_id for each in topics if each.topic_id is not None))
        topics = tuple(replace(each, name=None) if each.topic_id else each for each in topics)
    topics, refused = split(topics, partial(_is_refused, call))
    if refused or by_id:
        call.exchange.notes = _Noted(refused, by_id)
        if refused and not topics and call.api_version == 0:
            # An empty list would mean all of them: ask for a name that nothing can have.
            topics = (replace(refused[0], name=TopicName(_NO_NAME)),)
        request = replace(request, topics=topics)
    if may_create and call.spec.auto_create_topics and topics:
        names = {str(topic.name) for topic in topics if topic.name and _may_be_made(call, topic.name)}
        return Later(partial(_created, call, request, names))
    return Forward(request)


def _is_refused(call: Call, topic: MetadataRequestTopic) -> bool:
    if topic.name is None:
        return call.api_version < _BY_ID_FROM or topic.topic_id is None
    return call.refuses_topic(topic.name, Operation.DESCRIBE)


def _may_be_made(call: Call, name: str) -> bool:
    return topic_name_fault(name) is None and not call.refuses_creation(name)


async def _of_instance(call: Call, request: MetadataRequest, deps: ChangesPartitions) -> ForwardBody:
    """All topics, by their names: a broker that knows no instances would list everybody's. The same names
    make the same request."""
    names = sorted(await deps.partition_counts()) or ([_NO_NAME] if call.api_version == 0 else [])
    kept, bare = call.instance.kept_listings, replace(request, topics=())
    key = call.api_version, bare, tuple(names)
    body = kept.get(key)
    if body is None:
        named = with_entries(bare, "topics", [{"name": name} for name in names])
        body = encode(rewrite_request(named, call.instance.scope))
        kept.keep(key, body, 2 * len(body))
    return ForwardBody(body)


async def _created(call: Call, request: MetadataRequest, names: set[str], deps: ChangesPartitions) -> Forward:
    """Create those of the legal names that are missing; what fails shows as a missing topic.

    Our own controller holds the instance to its limit, so nothing is counted here: a count looks at all
    topics, and clients send requests like this all the time. What the instance has no rate for now is made
    when they ask again.
    """
    async with deps.changing_partitions():
        missing = names - (await deps.partitions_of(names)).keys()
        room = call.spec.limits.partitions_max
        quota = MutationQuota(call)
        is_made = missing and not quota.is_spent
        if is_made and call.cluster.spec.engine is Engine.APACHE:  # its controller knows no limit
            room -= sum((await deps.partition_counts()).values())
        each = call.spec.limits.partitions_default
        wanted = sorted(missing)[: max(0, room) // each]
        for start in range(0, len(wanted), _PORTION):
            portion = [name for name in wanted[start : start + _PORTION] if quota.admits(name, each)]
            if portion:
                created = await deps.ask_controller(_creation(call, portion))
                quota.settle((topic.name, topic.error_code) for topic in created.topics)
    return Forward(request)


def _creation(call: Call, names: list[str]) -> Payload:
    defaults = creation_defaults(call.spec.capacity_bytes, call.written_limits)
    configs = [{"name": name, "value": value} for name, value in defaults.items()]
    topics = [
        {
            "name": name,
            "num_partitions": call.spec.limits.partitions_default,
            "replication_factor": -1,
            "configs": configs,
        }
        for name in names
    ]
    return build(CreateTopicsRequest, {"topics": topics})


def on_response(call: Call, response: MetadataResponse) -> MetadataResponse:
    """Show refused topics as such, none of them in a listing of all, and what the client may do."""
    response = _with_operations(call, response)
    topics = response.topics
    refused, by_id = call.exchange.notes or ((), ())
    if call.api_version >= _IDS_FROM:
        call.instance.topic_ids.learn((topic.topic_id, topic.name) for topic in topics)
    if call.instance.tells_clients_apart:
        topics = tuple(
            topic for topic in topics if not call.refuses_topic(topic.name or "", Operation.DESCRIBE)
        )
    if refused or call.api_version == 0:
        topics = tuple(topic for topic in topics if topic.name != _NO_NAME)
    told = {topic.topic_id for topic in topics} if by_id else ()
    unknown = [_unknown(call, topic_id) for topic_id in by_id if topic_id not in told]
    if not refused and not unknown and len(topics) == len(response.topics):
        return response
    entries = [*map(_refused, refused), *unknown]
    return with_entries(replace(response, topics=topics), "topics", entries)


def _unknown(call: Call, topic_id: UUID) -> dict[str, object]:
    """Another instance's, or one of a topic that the client may not use."""
    name = call.instance.topic_ids.name(topic_id)
    is_refused = name is not None and call.refuses_topic(name, Operation.DESCRIBE)
    error_code = ErrorCode.topic_authorization_failed if is_refused else ErrorCode.unknown_topic_id
    return {"name": None, "topic_id": topic_id, "error_code": error_code}


def _with_operations(call: Call, response: MetadataResponse) -> MetadataResponse:
    rights = call.rights
    if rights is None or call.api_version < _OPERATIONS_FROM:
        return response
    topics = tuple(
        topic
        if topic.topic_authorized_operations == NOT_ASKED
        else replace(topic, topic_authorized_operations=rights.told(ResourceType.TOPIC, topic.name or ""))
        for topic in response.topics
    )
    response = replace(response, topics=topics)
    if getattr(response, "cluster_authorized_operations", NOT_ASKED) == NOT_ASKED:
        return response
    return replace(response, cluster_authorized_operations=rights.told_of_cluster())


def _refused(topic: MetadataRequestTopic) -> dict[str, object]:
    if topic.name is None:
        return {"name": "", "error_code": ErrorCode.invalid_request}
    return {"name": topic.name, "error_code": ErrorCode.topic_authorization_failed}
