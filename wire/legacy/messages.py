"""Produce 0-2, Fetch 0-3 and ListOffsets 0 as message classes of kio's make, which has none of them.

kio follows Kafka 4, which dropped these versions (KIP-896). With the same conventions (`__version__`,
`kafka_type`), decoders, encoders, name edits and the rewrite work for them as for all others.
Source: ProduceRequest.json, FetchRequest.json, ListOffsetsRequest.json and their responses, Apache Kafka 2.8.
"""

from dataclasses import field, make_dataclass
from types import GenericAlias
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64
from kio.static.protocol import Payload

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2

LEGACY_VERSIONS: Final = {PRODUCE: range(3), FETCH: range(4), LIST_OFFSETS: range(1)}
"""What only this module knows of each API."""


class _Field(NamedTuple):
    """A number, string or records. `since` is the version that brought the field."""

    name: str
    value_type: Any
    kafka_type: str
    since: int = 0


class _List(NamedTuple):
    """A list of nested messages."""

    name: str
    element: str
    parts: "tuple[_Field | _List, ...]"
    since: int = 0


class _Message(NamedTuple):
    name: str
    parts: tuple[_Field | _List, ...]


_MESSAGES: Final = {
    (PRODUCE, False): _Message(
        "ProduceRequest",
        (
            _Field("acks", i16, "int16"),
            _Field("timeout", i32Timedelta, "timedelta_i32"),
            _List(
                "topic_data",
                "TopicProduceData",
                (
                    _Field("name", TopicName, "string"),
                    _List(
                        "partition_data",
                        "PartitionProduceData",
                        (_Field("index", i32, "int32"), _Field("records", Records | None, "records")),
                    ),
                ),
            ),
        ),
    ),
    (PRODUCE, True): _Message(
        "ProduceResponse",
        (
            _List(
                "responses",
                "TopicProduceResponse",
                (
                    _Field("name", TopicName, "string"),
                    _List(
                        "partition_responses",
                        "PartitionProduceResponse",
                        (
                            _Field("index", i32, "int32"),
                            _Field("error_code", ErrorCode, "error_code"),
                            _Field("base_offset", i64, "int64"),
                            _Field("log_append_time_ms", i64, "int64", since=2),
                        ),
                    ),
                ),
            ),
            _Field("throttle_time", i32Timedelta, "timedelta_i32", since=1),
        ),
    ),
    (FETCH, False): _Message(
        "FetchRequest",
        (
            _Field("replica_id", BrokerId, "int32"),
            _Field("max_wait", i32Timedelta, "timedelta_i32"),
            _Field("min_bytes", i32, "int32"),
            _Field("max_bytes", i32, "int32", since=3),
            _List(
                "topics",
                "FetchTopic",
                (
                    _Field("topic", TopicName, "string"),
                    _List(
                        "partitions",
                        "FetchPartition",
                        (
                            _Field("partition", i32, "int32"),
                            _Field("fetch_offset", i64, "int64"),
                            _Field("partition_max_bytes", i32, "int32"),
                        ),
                    ),
                ),
            ),
        ),
    ),
    (FETCH, True): _Message(
        "FetchResponse",
        (
            _Field("throttle_time", i32Timedelta, "timedelta_i32", since=1),
            _List(
                "responses",
                "FetchableTopicResponse",
                (
                    _Field("topic", TopicName, "string"),
                    _List(
                        "partitions",
                        "PartitionData",
                        (
                            _Field("partition_index", i32, "int32"),
                            _Field("error_code", ErrorCode, "error_code"),
                            _Field("high_watermark", i64, "int64"),
                            _Field("records", Records | None, "records"),
                        ),
                    ),
                ),
            ),
        ),
    ),
    (LIST_OFFSETS, False): _Message(
        "ListOffsetsRequest",
        (
            _Field("replica_id", BrokerId, "int32"),
            _List(
                "topics",
                "ListOffsetsTopic",
                (
                    _Field("name", TopicName, "string"),
                    _List(
                        "partitions",
                        "ListOffsetsPartition",
                        (
                            _Field("partition_index", i32, "int32"),
                            _Field("timestamp", i64, "int64"),
                            _Field("max_num_offsets", i32, "int32"),
                        ),
                    ),
                ),
            ),
        ),
    ),
    (LIST_OFFSETS, True): _Message(
        "ListOffsetsResponse",
        (
            _List(
                "topics",
                "ListOffsetsTopicResponse",
                (
                    _Field("name", TopicName, "string"),
                    _List(
                        "partitions",
                        "ListOffsetsPartitionResponse",
                        (
                            _Field("partition_index", i32, "int32"),
                            _Field("error_code", ErrorCode, "error_code"),
                            _Field("old_style_offsets", tuple[i64, ...], "int64"),
                        ),
                    ),
                ),
            ),
        ),
    ),
}


def is_legacy(api_key: int, api_version: int) -> bool:
    """Whether kio lacks this version and this module has it."""
    return api_version in LEGACY_VERSIONS.get(api_key, ())


def legacy_class(api_key: int, api_version: int, *, response: bool) -> type[Payload]:
    """The message class of one of `LEGACY_VERSIONS`. Callers cache it (`wire.codec.payload_class`)."""
    assert is_legacy(api_key, api_version)
    marks = {
        "__version__": i16(api_version),
        "__flexible__": False,
        "__api_key__": i16(api_key),
        "__header_schema__": ResponseHeader if response else RequestHeader,
        "__module__": __name__,
    }
    message = _MESSAGES[api_key, response]
    kind = EntityType.response if response else EntityType.request
    return _class(message.name, message.parts, kind, marks)


def _class(
    name: str, parts: tuple[_Field | _List, ...], kind: EntityType, marks: dict[str, Any]
) -> type[Any]:
    """One message class as kio would have generated it."""
    declared: list[tuple[str, Any, Any]] = []
    for part in parts:
        if part.since > marks["__version__"]:
            continue
        if isinstance(part, _List):
            element = _class(part.element, part.parts, EntityType.nested, marks)
            declared.append((part.name, GenericAlias(tuple, (element, ...)), field()))
        else:
            declared.append((part.name, part.value_type, field(metadata={"kafka_type": part.kafka_type})))
    namespace = {"__type__": kind, **marks}
    return make_dataclass(name, declared, namespace=namespace, frozen=True, slots=True, kw_only=True)
