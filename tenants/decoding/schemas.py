"""Schemas as their libraries read them, and what is decoded by them. Imported by the decoding process alone.

Nothing is fetched or opened by what a schema says: what it refers to comes with it. Of what records hold
nothing is in a problem's words, for fields of them may be masked.
"""

import io
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import fastavro
import jsonschema_rs
import msgspec
from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from contracts.registered_schemas import SchemaKind, SchemaText
from runtime.protobuf_schemas import (
    REASON_CHARACTERS_MAX,
    BadSchema,
    Undecodable,
    compiled,
    indexed,
    messages_of,
)

_REGEX_BYTES_MAX: Final = 1_000_000

Decoded: TypeAlias = tuple[Any, str]
"""A document, and how it does not fit its schema; empty: it fits."""
Decode: TypeAlias = Callable[[bytes, bool], Decoded]


def decoder_of(schema: SchemaText) -> Decode:
    """Raises: BadSchema."""
    made = {
        SchemaKind.AVRO: _avro,
        SchemaKind.PROTOBUF: _protobuf,
        SchemaKind.JSON: _json,
    }[SchemaKind(schema.kind)]
    try:
        return made(schema)
    except BadSchema:
        raise
    except RecursionError as error:
        raise BadSchema("it is nested too deeply") from error
    except Exception as error:
        raise BadSchema(f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]) from error


def _avro(schema: SchemaText) -> Decode:
    named: dict[str, Any] = {}
    for _name, text in schema.references:
        fastavro.parse_schema(json.loads(text), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)

    def decode(data: bytes, _has_indexes: bool) -> Decoded:
        source = io.BytesIO(data)
        try:
            document = fastavro.schemaless_reader(source, parsed, None)
        except RecursionError as error:
            raise Undecodable("it is nested too deeply") from error
        except Exception as error:
            raise Undecodable("it is not what its Avro schema says") from error
        if source.tell() != len(data):
            raise Undecodable(f"its Avro schema ends {len(data) - source.tell()} bytes before it does")
        return document, ""

    return decode


def _json(schema: SchemaText) -> Decode:
    texts = dict(schema.references)

    def retrieve(uri: str) -> Any:
        name = next((one for one in texts if uri == one or uri.endswith(f"/{one}")), None)
        if name is None:
            raise ValueError(f"{uri} did not come with the schema, and nothing is fetched")
        return json.loads(texts[name])

    validator = jsonschema_rs.validator_for(
        json.loads(schema.text),
        validate_formats=False,
        retriever=retrieve,
        pattern_options=jsonschema_rs.RegexOptions(
            size_limit=_REGEX_BYTES_MAX, dfa_size_limit=_REGEX_BYTES_MAX
        ),
    )

    def decode(data: bytes, _has_indexes: bool) -> Decoded:
        document = json_of(data)
        try:
            is_valid = validator.is_valid(document)
        except Exception as error:
            raise Undecodable("it cannot be compared with its JSON schema") from error
        return document, "" if is_valid else "it does not fit its JSON schema"

    return decode


def json_of(data: bytes) -> Any:
    """A document. Raises: Undecodable."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Undecodable("it is no JSON") from error


def _protobuf(schema: SchemaText) -> Decode:
    pool, messages = messages_of(compiled(schema))
    named = None
    if schema.message:
        try:
            named = pool.FindMessageTypeByName(schema.message)
        except KeyError as error:
            raise BadSchema(f"it has no message '{schema.message}'") from error

    def decode(data: bytes, has_indexes: bool) -> Decoded:
        chosen, at = (messages[0], 0) if not has_indexes else indexed(messages, data)
        if named is not None:
            chosen = named
        message = message_factory.GetMessageClass(chosen)()
        try:
            message.ParseFromString(data[at:])
            document = json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=pool
            )
        except (DecodeError, json_format.Error, ValueError, TypeError, RecursionError) as error:
            raise Undecodable("it is not what its Protobuf schema says") from error
        return document, ""

    return decode
