"""Topics with a list of addresses of their own: clients outside it get TOPIC_AUTHORIZATION_FAILED.

A topic without a list inherits the instance's, which was checked at accept; one with a list needs both.
Requests go up without the refused topics, and replies get the refused ones added.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from gateway.session.call import Call
from wire.build import build, entry_class, known_to, names_of

Entry = TypeVar("Entry")
REFUSED_TEXT: Final = "your address is not on the topic's list"
_UNKNOWN: Final = -1
_REFUSED: Final = {
    "error_code": ErrorCode.topic_authorization_failed,
    "offset": _UNKNOWN,
    "end_offset": _UNKNOWN,
    "low_watermark": _UNKNOWN,
    "committed_offset": _UNKNOWN,
    "metadata": "",
}
"""A partition's answer, whatever the API; fields it does not have are left out."""


def topic_name(topic: Any) -> str:
    """The name in an entry of a request's or response's topics."""
    return str(topic.name if hasattr(topic, "name") else topic.topic)


def split(
    entries: Iterable[Entry], is_refused: Callable[[Entry], bool]
) -> tuple[tuple[Entry, ...], list[Entry]]:
    """(kept, refused), told apart in one pass: entries looked up among each other would cost their square."""
    kept: list[Entry] = []
    refused: list[Entry] = []
    for entry in entries:
        (refused if is_refused(entry) else kept).append(entry)
    return tuple(kept), refused


def without_refused(call: Call, request: Any) -> Any:
    """The request without the topics this client may not use; they are noted for `with_refused`."""
    if not call.instance.topic_whitelists or not request.topics:
        return request
    kept, refused = split(request.topics, lambda topic: call.refuses_topic(topic_name(topic)))
    if not refused:
        return request
    call.exchange.notes = refused
    return replace(request, topics=kept)


def with_refused(call: Call, response: Any) -> Any:
    """The response with an answer for each topic that was left out, and nothing of those it may not show."""
    topics = response.topics
    if call.instance.topic_whitelists:
        topics = tuple(topic for topic in topics if not call.refuses_topic(topic_name(topic)))
    if call.exchange.notes:
        topics += refused_topics(type(response), call.exchange.notes)
    return response if topics is response.topics else replace(response, topics=topics)


def refused_topics(
    response_class: type[Payload], asked: Iterable[Entity], known: Mapping[str, object] = _REFUSED
) -> tuple[Entity, ...]:
    """Entries for a response's `topics` that answer every partition asked for with the same thing."""
    topic_class = entry_class(response_class, "topics")
    partition_class = entry_class(topic_class, "partitions")
    known = known_to(partition_class, known)
    name_field = "name" if "name" in names_of(topic_class) else "topic"
    index_field = "partition_index" if "partition_index" in names_of(partition_class) else "partition"
    return tuple(
        build(
            topic_class,
            {
                name_field: topic_name(topic),
                "partitions": [{index_field: index, **known} for index in _indexes(topic)],
            },
        )
        for topic in asked
    )


def _indexes(topic: Any) -> Iterator[int]:
    """The partitions in an entry of a request's topics."""
    for partition in topic.partition_indexes if hasattr(topic, "partition_indexes") else topic.partitions:
        if isinstance(partition, int):
            yield partition
        else:
            yield partition.partition_index if hasattr(partition, "partition_index") else partition.partition
