"""Schemas of a registry as columns, and documents of the records that were written by them.

Columns are wide from the beginning: every integer is a `bigint`, every float a `double`, so that a schema
which widens one changes no table. What has no type of its own, such as a union of several types, is a string
that holds JSON. Values are read by the schema that wrote them, and go into columns by their names.

A schema may be anybody's. Where it refers to itself Avro's reader would use up the stack, and items of no
bytes would fill the memory from a record of ten: these are refused, as are those that are very large when
written out.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from contracts.registered_schemas import SchemaKind, SchemaText
from pipeline.errors import PipelineError
from pipeline.lake.decode.ddl import JSON_TEXT, TIMESTAMP, array_of, check_names
from pipeline.lake.decode.schema import check_columns, missing_fields
from pipeline.lake.decode.values import (
    MALFORMED,
    OUT_OF_RANGE,
    Document,
    Fault,
    FaultError,
    Read,
    fitted,
    header_of,
    json_reader,
)
from pipeline.schema.decoded import KAFKA_COLUMNS
from runtime.protobuf_schemas import (
    REASON_CHARACTERS_MAX,
    BadSchema,
    Undecodable,
    compiled,
    indexed,
    messages_of,
)

UNKNOWN_SCHEMA: Final = "unknown_schema"
UNUSABLE_SCHEMA: Final = "unusable_schema"
INCOMPATIBLE_SCHEMA: Final = "incompatible_schema"
IDS_MAX: Final = 500
"""Schemas of one step that decoding asks a registry for: those that most records name."""
NODES_MAX: Final = 5_000
"""Fields of a registry's schema, each counted wherever it is used."""
_PRECISION_MAX: Final = 38


class Writer(NamedTuple):
    """A schema that records are read by; it travels to tasks."""

    kind: SchemaKind
    compiled: Any
    """Avro's as its library has parsed it, Protobuf's files compiled."""
    fields: pa.Schema
    message: str = ""
    """Of Protobuf: the full name of the one that the fields are of."""


def writer_of(schema: SchemaText) -> Writer:
    """Raises: BadSchema."""
    try:
        writer = _WRITERS[SchemaKind(schema.kind)](schema)
        check_names(list(writer.fields))
    except BadSchema:
        raise
    except PipelineError as error:
        raise BadSchema(error.sentence) from error
    except RecursionError as error:
        raise BadSchema("it is nested too deeply") from error
    except Exception as error:
        raise BadSchema(f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]) from error
    if taken := set(writer.fields.names) & set(KAFKA_COLUMNS.names):
        raise BadSchema(f"its field '{min(taken)}' has the name of one of Kafka's own columns")
    return writer


def registry_reader(columns: pa.Schema, writers: Mapping[int, Writer | Fault]) -> Read:
    """Of values behind a zero byte and the id of one of the schemas."""
    readers = {name: _reader(name, columns, writer) for name, writer in writers.items()}

    def read(value: bytes) -> tuple[Document, list[str] | None]:
        at = header_of(value)
        name = int.from_bytes(value[1:at])
        found = readers.get(name)
        if found is None:
            raise FaultError(
                UNKNOWN_SCHEMA, f"schema {name} was not asked for: others are named by more records"
            )
        if isinstance(found, Fault):
            raise FaultError(*found)
        return found(value[at:])

    return read


def _reader(name: int, columns: pa.Schema, writer: Writer | Fault) -> Read | Fault:
    if isinstance(writer, Fault):
        return writer
    try:
        check_columns(columns, writer.fields)
    except PipelineError as error:
        return Fault(INCOMPATIBLE_SCHEMA, f"schema {name}: {error.sentence}")
    read = fitted(_READERS[writer.kind](writer), writer.fields)
    missing = missing_fields(columns, writer.fields)

    def told(value: bytes) -> tuple[Document, list[str] | None]:
        document, unknown = read(value)
        return document, [*missing, *(unknown or ())] or None

    return told if missing else read


class _Walk:
    """How much of a schema was seen. Raises: BadSchema where it is too much."""

    def __init__(self) -> None:
        self._nodes = 0

    def step(self) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise BadSchema(f"written out it has more than {NODES_MAX} fields")


def _struct(fields: Sequence[pa.Field]) -> pa.DataType:
    check_names(list(fields))
    return pa.struct(fields) if fields else JSON_TEXT


def _fields_of(kind: pa.DataType, what: str) -> pa.Schema:
    if not pa.types.is_struct(kind):
        raise BadSchema(f"it is no {what} with fields, which would be columns")
    return pa.schema(list(kind))


_AVRO: Final = {
    "null": JSON_TEXT,
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_AVRO_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
}


def _avro(schema: SchemaText) -> Writer:
    named: dict[str, Any] = {}
    for _name, text in schema.references:
        fastavro.parse_schema(json.loads(text), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    kind = _AvroTypes(named).of(parsed, ())
    return Writer(SchemaKind.AVRO, parsed, _fields_of(kind, "record"))


class _AvroTypes(_Walk):
    def __init__(self, named: Mapping[str, Any]) -> None:
        super().__init__()
        self._named = named

    def of(self, told: Any, above: tuple[str, ...]) -> pa.DataType:
        """Logical types that columns do not have are taken off: the library then reads what is below."""
        self.step()
        if isinstance(told, list):
            kinds = {self.of(each, above) for each in told if each != "null"}
            return kinds.pop() if len(kinds) == 1 else JSON_TEXT
        if isinstance(told, str):
            return _AVRO[told] if told in _AVRO else self.of(self._named[told], above)
        base = told["type"]
        if isinstance(base, dict | list):
            return self.of(base, above)
        if base in ("record", "error"):
            if told["name"] in above:
                raise BadSchema(f"its record {told['name']} holds itself, which columns cannot")
            inside = (*above, told["name"])
            return _struct([pa.field(each["name"], self.of(each["type"], inside)) for each in told["fields"]])
        if base == "array":
            if self._is_nothing(told["items"]):
                raise BadSchema("it has an array whose items take no bytes")
            return array_of(self.of(told["items"], above))
        if base == "map":
            return pa.map_(pa.string(), self.of(told["values"], above))
        if base not in _AVRO:
            return self.of(self._named[base], above)
        return self._logical(told, base)

    def _logical(self, told: dict[str, Any], base: str) -> pa.DataType:
        logical = told.get("logicalType")
        precision, scale = told.get("precision"), told.get("scale", 0)
        if logical == "decimal" and base in ("bytes", "fixed") and isinstance(precision, int):
            if 0 <= scale <= precision <= _PRECISION_MAX:
                return pa.decimal128(precision, scale)
        elif found := _AVRO_LOGICAL.get((base, str(logical))):
            return found
        told.pop("logicalType", None)
        return _AVRO[base]

    def _is_nothing(self, told: Any) -> bool:
        self.step()
        if isinstance(told, str):
            return told == "null" or (told not in _AVRO and self._is_nothing(self._named[told]))
        if isinstance(told, list):
            return False
        if told["type"] in ("record", "error"):
            return all(self._is_nothing(each["type"]) for each in told["fields"])
        return bool(told["type"] == "null" or (told["type"] == "fixed" and told["size"] == 0))


def _avro_reader(writer: Writer) -> Read:
    def read(value: bytes) -> tuple[Document, None]:
        source = io.BytesIO(value)
        try:
            document = fastavro.schemaless_reader(source, writer.compiled, None)
        except OverflowError as error:
            raise FaultError(OUT_OF_RANGE, str(error)) from error
        except Exception as error:
            raise FaultError(MALFORMED, "it is not what its Avro schema says") from error
        if left := len(value) - source.tell():
            raise FaultError(MALFORMED, f"its Avro schema ends {left} bytes before it does")
        assert isinstance(document, dict), "the schema is a record's"
        return document, None

    return read


_PROTOBUF: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int64(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
_GOOGLE: Final = "google.protobuf."
Convert = Callable[[Any], Any]


def _protobuf(schema: SchemaText) -> Writer:
    files = compiled(schema)
    pool, messages = messages_of(files)
    try:
        chosen = pool.FindMessageTypeByName(schema.message) if schema.message else messages[0]
    except KeyError as error:
        raise BadSchema(f"it has no message '{schema.message}'") from error
    kind, _ = _ProtobufTypes().message(chosen, ())
    fields = _fields_of(kind, "message")
    return Writer(SchemaKind.PROTOBUF, files.SerializeToString(), fields, chosen.full_name)


class _ProtobufTypes(_Walk):
    """Each type with what makes its values of the library's."""

    def message(self, descriptor: Descriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
        name = descriptor.full_name
        if name == f"{_GOOGLE}Timestamp":
            return TIMESTAMP, lambda message: message.ToDatetime(tzinfo=UTC)
        if (
            name.startswith(_GOOGLE)
            and name.endswith("Value")
            and list(descriptor.fields_by_name) == ["value"]
        ):
            kind, convert = self._one(descriptor.fields_by_name["value"], above)
            return kind, lambda message: convert(message.value)
        is_json = name.startswith(_GOOGLE) and name != f"{_GOOGLE}Any"  # whose type nobody may know
        if is_json or name in above or not descriptor.fields:
            return JSON_TEXT, _as_json
        made = [(each, *self._field(each, (*above, name))) for each in descriptor.fields]
        getters = [(each.name, each.has_presence, convert) for each, _, convert in made]

        def document(message: Any) -> Document:
            return {
                name: None if has_presence and not message.HasField(name) else convert(getattr(message, name))
                for name, has_presence, convert in getters
            }

        return _struct([pa.field(each.name, kind) for each, kind, _ in made]), document

    def _field(self, field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
        inside = field.message_type
        if inside is not None and inside.GetOptions().map_entry:
            kind, convert = self._one(inside.fields_by_name["value"], above)
            return pa.map_(pa.string(), kind), lambda values: {
                str(key).lower() if isinstance(key, bool) else str(key): convert(values[key])
                for key in values
            }
        kind, convert = self._one(field, above)
        if field.is_repeated:
            return array_of(kind), lambda values: [convert(each) for each in values]
        return kind, convert

    def _one(self, field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
        self.step()
        if field.message_type is not None:
            return self.message(field.message_type, above)
        if field.enum_type is not None:
            names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
            return pa.string(), lambda number: names.get(number, str(number))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return pa.binary(), _same
        kind = _PROTOBUF[field.cpp_type]
        return kind, Decimal if pa.types.is_decimal(kind) else _same


def _same(value: object) -> object:
    return value


def _as_json(message: Any) -> object:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _protobuf_reader(writer: Writer) -> Read:
    pool, messages = messages_of(descriptor_pb2.FileDescriptorSet.FromString(writer.compiled))
    chosen = pool.FindMessageTypeByName(writer.message)
    _, convert = _ProtobufTypes().message(chosen, ())
    message_class = message_factory.GetMessageClass(chosen)

    def read(value: bytes) -> tuple[Document, None]:
        try:
            named, at = indexed(messages, value)
            if named.full_name != writer.message:
                raise FaultError(
                    INCOMPATIBLE_SCHEMA, f"it is a {named.full_name}, and the table of {writer.message}"
                )
            message = message_class()
            message.ParseFromString(value[at:])
            return convert(message), None
        except OverflowError as error:
            raise FaultError(OUT_OF_RANGE, str(error)) from error
        except (DecodeError, Undecodable, json_format.Error, ValueError, TypeError, RecursionError) as error:
            raise FaultError(MALFORMED, "it is not what its Protobuf schema says") from error

    return read


_JSON: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_JSON_FORMATS: Final = {"date-time": TIMESTAMP, "date": pa.date32()}


def _json(schema: SchemaText) -> Writer:
    documents = {name: json.loads(text) for name, text in schema.references}
    documents[""] = json.loads(schema.text)
    kind = _JsonTypes(documents).of(documents[""], "", ())
    return Writer(SchemaKind.JSON, None, _fields_of(kind, "object"))


class _JsonTypes(_Walk):
    def __init__(self, documents: Mapping[str, Any]) -> None:
        super().__init__()
        self._documents = documents

    def of(self, told: Any, document: str, above: tuple[str, ...]) -> pa.DataType:
        """`document`: which one `#` is."""
        self.step()
        if not isinstance(told, dict):
            return JSON_TEXT
        if isinstance(reference := told.get("$ref"), str):
            return self._referred(reference, document, above)
        if isinstance(choices := told.get("oneOf") or told.get("anyOf"), list):
            left = [each for each in choices if each != {"type": "null"}]
            return self.of(left[0], document, above) if len(left) == 1 else JSON_TEXT
        named = told.get("type")
        names = [each for each in (named if isinstance(named, list) else [named]) if each != "null"]
        if len(names) != 1:
            return JSON_TEXT
        match names[0]:
            case "object":
                return self._object(told, document, above)
            case "array":
                items = told.get("items")
                return array_of(self.of(items, document, above)) if isinstance(items, dict) else JSON_TEXT
            case "string":
                return _JSON_FORMATS.get(str(told.get("format")), pa.string())
        return _JSON.get(str(names[0]), JSON_TEXT)

    def _object(self, told: dict[str, Any], document: str, above: tuple[str, ...]) -> pa.DataType:
        if isinstance(properties := told.get("properties"), dict):
            return _struct(
                [pa.field(name, self.of(each, document, above)) for name, each in properties.items()]
            )
        if isinstance(others := told.get("additionalProperties"), dict):
            return pa.map_(pa.string(), self.of(others, document, above))
        return JSON_TEXT

    def _referred(self, reference: str, document: str, above: tuple[str, ...]) -> pa.DataType:
        name, _, pointer = reference.partition("#")
        at = document if not name else next((n for n in self._documents if n and name.endswith(n)), None)
        if at is None:
            raise BadSchema(f"{reference[:100]} did not come with the schema, and nothing is fetched")
        found = self._documents[at]
        for part in pointer.split("/")[1:]:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        place = f"{at}#{pointer}"
        return JSON_TEXT if place in above else self.of(found, at, (*above, place))


_WRITERS: Final = {SchemaKind.AVRO: _avro, SchemaKind.PROTOBUF: _protobuf, SchemaKind.JSON: _json}
_READERS: Final[Mapping[SchemaKind, Callable[[Writer], Read]]] = {
    SchemaKind.AVRO: _avro_reader,
    SchemaKind.PROTOBUF: _protobuf_reader,
    SchemaKind.JSON: lambda writer: json_reader(writer.fields),
}
