"""Metadata 0-11: addresses become vip:vport, listings the instance's own, the cluster id the instance's id.

All that follows from the schema. Here: topics are created on request only where the instance allows it, and
by us, never by the backend; topics with address lists; version 0's "no topics means all".
Deliberately not done: topics by id (12); a null name in 10-11 is INVALID_REQUEST, as in Kafka.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from kio.schema.create_topics.v5.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.protocol import Payload

from contracts.names import topic_name_fault
from contracts.specs import Engine
from contracts.topic_policy import creation_defaults
from gateway.session.call import Call, Forward, Later
from gateway.session.deps import ChangesPartitions
from gateway.topic_access import split
from wire.build import build, with_entries
from wire.messages import MetadataRequest, MetadataRequestTopic, MetadataResponse

_AUTO_PARTITIONS: Final = 1
_PORTION: Final = 100
"""Topics created by one request of ours: far below what a broker takes."""
_NO_NAME: Final = "/"
"""What no topic can be called."""


def on_request(call: Call, request: MetadataRequest) -> Forward | Later:
    """Take out what is answered here; create what is missing and wanted."""
    may_create = getattr(request, "allow_auto_topic_creation", True)
    if hasattr(request, "allow_auto_topic_creation"):
        request = replace(request, allow_auto_topic_creation=False)
    if request.topics is None or (call.api_version == 0 and not request.topics):
        if call.cluster.spec.engine is Engine.APACHE:
            return Later(partial(_of_instance, call, request))
        return Forward(request)
    topics, refused = split(
        request.topics, lambda topic: topic.name is None or call.refuses_topic(topic.name)
    )
    if refused:
        call.exchange.notes = refused
        if not topics and call.api_version == 0:
            # An empty list would mean all of them: ask for a name that nothing can have.
            topics = (replace(refused[0], name=TopicName(_NO_NAME)),)
        request = replace(request, topics=topics)
    if may_create and call.spec.auto_create_topics and topics:
        names = {str(topic.name) for topic in topics if topic.name and topic_name_fault(topic.name) is None}
        return Later(partial(_created, call, request, names))
    return Forward(request)


async def _of_instance(call: Call, request: MetadataRequest, deps: ChangesPartitions) -> Forward:
    """All topics, by their names: a broker that knows no instances would list everybody's."""
    names = sorted(await deps.partition_counts()) or ([_NO_NAME] if call.api_version == 0 else [])
    return Forward(with_entries(replace(request, topics=()), "topics", [{"name": name} for name in names]))


async def _created(call: Call, request: MetadataRequest, names: set[str], deps: ChangesPartitions) -> Forward:
    """Create those of the legal names that are missing; what fails shows as a missing topic.

    Our own controller holds the instance to its limit, so nothing is counted here: a count looks at all
    topics, and clients send requests like this all the time.
    """
    async with deps.changing_partitions():
        missing = await deps.missing_topics(names)
        room = call.spec.limits.partitions_max
        if missing and call.cluster.spec.engine is Engine.APACHE:  # its controller knows no limit
            room -= sum((await deps.partition_counts()).values())
        wanted = sorted(missing)[: max(0, room) // _AUTO_PARTITIONS]
        for start in range(0, len(wanted), _PORTION):
            await deps.ask_controller(_creation(call, wanted[start : start + _PORTION]))
    return Forward(request)


def _creation(call: Call, names: list[str]) -> Payload:
    defaults = creation_defaults(call.spec.capacity_bytes, call.written_limits)
    configs = [{"name": name, "value": value} for name, value in defaults.items()]
    topics = [
        {
            "name": name,
            "num_partitions": _AUTO_PARTITIONS,
            "replication_factor": -1,
            "configs": configs,
        }
        for name in names
    ]
    return build(CreateTopicsRequest, {"topics": topics})


def on_response(call: Call, response: MetadataResponse) -> MetadataResponse:
    """Show refused topics as such, and none of them in a listing of all."""
    topics = response.topics
    refused = call.exchange.notes or ()
    if call.instance.topic_whitelists:
        topics = tuple(topic for topic in topics if not call.refuses_topic(topic.name or ""))
    if refused or call.api_version == 0:
        topics = tuple(topic for topic in topics if topic.name != _NO_NAME)
    if not refused and len(topics) == len(response.topics):
        return response
    return with_entries(replace(response, topics=topics), "topics", map(_refused, refused))


def _refused(topic: MetadataRequestTopic) -> dict[str, object]:
    if topic.name is None:
        return {"name": "", "error_code": ErrorCode.invalid_request}
    return {"name": topic.name, "error_code": ErrorCode.topic_authorization_failed}
