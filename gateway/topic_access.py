"""Topics that a client may not use, by their own list of addresses or by ACLs: TOPIC_AUTHORIZATION_FAILED.
Topics that are named by ids which are not the instance's own: UNKNOWN_TOPIC_ID.

A topic without a list inherits the instance's, which was checked at accept; one with a list needs both.
Requests go up without the refused topics, and replies get the refused ones added.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from contracts.acls import Operation
from gateway.session.call import Call
from wire.build import build, entry_class, known_to, names_of

Entry = TypeVar("Entry")
Refused: TypeAlias = tuple[Entity, ErrorCode]
"""An entry of a request's topics, and why."""
REFUSED_TEXT: Final = "the topic's list of addresses, or its ACLs, do not allow you this"
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


def topic_fault(call: Call, topic: Any, operation: Operation) -> ErrorCode | None:
    """Why this entry of a request's or response's topics is nothing for this client; None: it may go by."""
    if hasattr(topic, "topic_id"):
        name = call.instance.topic_ids.name(topic.topic_id)
        if name is None:
            return ErrorCode.unknown_topic_id
    else:
        name = str(topic.name if hasattr(topic, "name") else topic.topic)
    return ErrorCode.topic_authorization_failed if call.refuses_topic(name, operation) else None


def split(
    entries: Iterable[Entry], is_refused: Callable[[Entry], bool]
) -> tuple[tuple[Entry, ...], list[Entry]]:
    """(kept, refused), told apart in one pass: entries looked up among each other would cost their square."""
    kept: list[Entry] = []
    refused: list[Entry] = []
    for entry in entries:
        (refused if is_refused(entry) else kept).append(entry)
    return tuple(kept), refused


def without_refused(call: Call, request: Any, operation: Operation) -> tuple[Any, list[Refused]]:
    """A request, or a group of one, without the topics this client may not use, and these."""
    topics = request.topics
    if not topics or not (call.instance.tells_clients_apart or hasattr(topics[0], "topic_id")):
        return request, []
    kept = []
    refused = []
    for topic in topics:
        fault = topic_fault(call, topic, operation)
        if fault is None:
            kept.append(topic)
        else:
            refused.append((topic, fault))
    return (replace(request, topics=tuple(kept)), refused) if refused else (request, refused)


def with_refused(call: Call, response: Any, operation: Operation, refused: Sequence[Refused]) -> Any:
    """A response, or a group of one, with an answer for each topic that was left out, and nothing of those it
    may not show."""
    topics = response.topics
    if call.instance.tells_clients_apart:
        denied = ErrorCode.topic_authorization_failed
        topics = tuple(topic for topic in topics if topic_fault(call, topic, operation) is not denied)
    if refused:
        kind: type[Entity] = type(response)
        shape = _shape(kind)
        known = {
            fault: known_to(shape.partition, _REFUSED | {"error_code": fault})
            for fault in {fault for _, fault in refused}
        }
        topics += tuple(_answer(shape, topic, known[fault]) for topic, fault in refused)
    return response if topics is response.topics else replace(response, topics=topics)


def refused_topics(
    response_class: type[Entity], asked: Iterable[Entity], known: Mapping[str, object]
) -> tuple[Entity, ...]:
    """Entries for a response's `topics` that answer every partition asked for with the same thing."""
    shape = _shape(response_class)
    known = known_to(shape.partition, known)
    return tuple(_answer(shape, topic, known) for topic in asked)


class _Shape(NamedTuple):
    """How the topics of a response, or of a group of one, are made."""

    topic: type[Entity]
    name_field: str
    partition: type[Entity]
    index_field: str


@lru_cache(maxsize=256)
def _shape(response_class: type[Entity]) -> _Shape:
    topic = entry_class(response_class, "topics")
    partition = entry_class(topic, "partitions")
    return _Shape(
        topic,
        next(name for name in ("topic_id", "name", "topic") if name in names_of(topic)),
        partition,
        "partition_index" if "partition_index" in names_of(partition) else "partition",
    )


def _answer(shape: _Shape, topic: Entity, known: Mapping[str, object]) -> Entity:
    name = getattr(topic, shape.name_field, None) or getattr(topic, "topic", None)
    partitions = [{shape.index_field: index, **known} for index in _indexes(topic)]
    return build(shape.topic, {shape.name_field: name, "partitions": partitions})


def _indexes(topic: Any) -> Iterator[int]:
    """The partitions in an entry of a request's topics."""
    for partition in topic.partition_indexes if hasattr(topic, "partition_indexes") else topic.partitions:
        if isinstance(partition, int):
            yield partition
        else:
            yield partition.partition_index if hasattr(partition, "partition_index") else partition.partition
