"""DescribeTopicPartitions 0: topics with their partitions, up to a limit, and a cursor where to go on.

Beside the rewrite: "all topics" is asked for by the instance's names, so that a cursor never comes from
somebody else's; topics that a client may not use are refused where they are named, and left out of all.
"""

from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, cast

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from contracts.acls import Operation, ResourceType
from gateway.rules.acls import NOT_ASKED
from gateway.session.call import Answer, Call, Forward, Later, Outcome
from gateway.session.deps import ChangesPartitions
from gateway.topic_access import split
from wire.build import build, entry_class, with_entries
from wire.messages import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponseTopic,
)

_NAMES_MAX: Final = 2_000
"""Names that go up at once for all topics: a broker tells of no more partitions in one answer."""


class _Noted(NamedTuple):
    """What the reply is completed with."""

    refused: tuple[str, ...] = ()
    following: str | None = None
    """The first name that has not been asked for."""


def on_request(call: Call, request: DescribeTopicPartitionsRequest) -> Outcome | Later:
    """Take out what is refused; name all topics where none is named."""
    if not request.topics:
        return Later(partial(_of_instance, call, request))
    start = "" if request.cursor is None else request.cursor.topic_name
    kept, refused = split(request.topics, lambda one: call.refuses_topic(one.name, Operation.DESCRIBE))
    names = sorted({str(one.name) for one in refused if one.name >= start})
    call.exchange.notes = _Noted(tuple(names))
    if not kept:
        return Answer(_completed(call, cast(DescribeTopicPartitionsResponse, call.response())))
    return Forward(replace(request, topics=kept))


async def _of_instance(
    call: Call, request: DescribeTopicPartitionsRequest, deps: ChangesPartitions
) -> Outcome:
    if request.cursor is not None and request.cursor.partition_index < 0:
        return Answer(call.response())  # a right broker refuses each topic that is named, and none is
    start = "" if request.cursor is None else request.cursor.topic_name
    names = sorted(
        name
        for name in await deps.partition_counts()
        if name >= start and not call.refuses_topic(name, Operation.DESCRIBE)
    )
    if not names:
        return Answer(call.response())
    following = names[_NAMES_MAX] if len(names) > _NAMES_MAX else None
    call.exchange.notes = _Noted(following=following)
    return Forward(with_entries(request, "topics", [{"name": name} for name in names[:_NAMES_MAX]]))


def on_response(call: Call, response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
    """Remember whose ids these are, say what the client may do, and add what was left out."""
    call.instance.topic_ids.learn((topic.topic_id, topic.name) for topic in response.topics)
    return _completed(call, replace(response, topics=tuple(_told(call, topic) for topic in response.topics)))


def _told(call: Call, topic: DescribeTopicPartitionsResponseTopic) -> DescribeTopicPartitionsResponseTopic:
    rights = call.rights
    if rights is None or topic.topic_authorized_operations == NOT_ASKED:
        return topic
    return replace(topic, topic_authorized_operations=rights.told(ResourceType.TOPIC, topic.name or ""))


def _completed(call: Call, response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
    noted: _Noted = call.exchange.notes
    if noted.following is not None and response.next_cursor is None:
        cursor = {"topic_name": TopicName(noted.following), "partition_index": i32(0)}
        kind = cast(type[DescribeTopicPartitionsResponseCursor], entry_class(type(response), "next_cursor"))
        response = replace(response, next_cursor=build(kind, cursor))
    refusal = {"error_code": ErrorCode.topic_authorization_failed, "topic_authorized_operations": NOT_ASKED}
    return with_entries(response, "topics", [{"name": name, **refusal} for name in noted.refused])
