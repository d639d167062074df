"""Schemas as their libraries read them, and what is decoded by them. Imported by the decoding process alone.

Nothing is fetched or opened by what a schema says: what it refers to comes with it. Of what records hold
nothing is in a problem's words, for fields of them may be masked.
"""

import base64
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import fastavro
import jsonschema_rs
import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from tenants.decoding.messages import SchemaText
from tenants.rules.decoding import SchemaKind

_FILE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*\Z")
_INCLUDED: Final = str(Path(protoc.__file__).parent / "_proto")
_MAIN: Final = "portico_schema.proto"
_REGEX_BYTES_MAX: Final = 1_000_000
_REASON_CHARACTERS_MAX: Final = 300
_INDEXES_MAX: Final = 32

Decoded: TypeAlias = tuple[Any, str]
"""A document, and how it does not fit its schema; empty: it fits."""
Decode: TypeAlias = Callable[[bytes, bool], Decoded]


class BadSchema(Exception):  # noqa: N818 - states what is so
    """It is none, or needs what did not come with it; the text says why."""


class Undecodable(Exception):  # noqa: N818 - states what is so
    """Bytes that are not what the schema says; the text says nothing of them."""


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
        raise BadSchema(f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS_MAX]) from error


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
    pool = descriptor_pool.DescriptorPool()
    files = _compiled(schema)
    for one in files.file:
        pool.AddSerializedFile(one.SerializeToString())
    main = pool.FindFileByName(_MAIN)
    # By name they come in any order: what is first is what the file has first.
    order = next(one for one in files.file if one.name == _MAIN).message_type
    messages = [main.message_types_by_name[one.name] for one in order]
    if not messages:
        raise BadSchema("it has no message")
    named = None
    if schema.message:
        try:
            named = pool.FindMessageTypeByName(schema.message)
        except KeyError as error:
            raise BadSchema(f"it has no message '{schema.message}'") from error

    def decode(data: bytes, has_indexes: bool) -> Decoded:
        chosen, at = (messages[0], 0) if not has_indexes else _indexed(messages, data)
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


def _indexed(messages: list[Descriptor], data: bytes) -> tuple[Descriptor, int]:
    """The message that the data names by its place in the file, and where it begins.

    Source: Confluent's wire format: zigzag varints, how many and each; one 0 stands for the first message.
    """
    count, at = _varint(data, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise Undecodable("it names no message of its Protobuf schema")
    places = []
    for _ in range(count):
        place, at = _varint(data, at)
        places.append(place)
    found: Descriptor | None = None
    for place in places or [0]:
        among = messages if found is None else list(found.nested_types)
        if not 0 <= place < len(among):
            raise Undecodable("it names no message of its Protobuf schema")
        found = among[place]
    assert found is not None, "there is one place at least"
    return found, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Undecodable("it names no message of its Protobuf schema")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at


def _compiled(schema: SchemaText) -> descriptor_pb2.FileDescriptorSet:
    """Of all files, each behind what it imports. Raises: BadSchema."""
    texts, made = [], []
    for name, text in (*schema.references, (_MAIN, schema.text)):
        if not _FILE.match(name):
            raise BadSchema("it refers to a file whose name is none")
        serialized = _serialized(text)
        if serialized is None:
            texts.append((name, text))
        else:
            serialized.name = name
            made.append(serialized)
    if all(name != _MAIN for name, _ in texts):
        names = {one.name for one in made}
        imported = dict.fromkeys(each for one in made for each in one.dependency if each not in names)
        if not all(map(_FILE.match, imported)):
            raise BadSchema("it refers to a file whose name is none")
        texts.append((_MAIN, "".join(f'import "{each}";\n' for each in imported)))
        files = _by_protoc(texts)
        del files.file[-1]  # what stood for it comes last
    else:
        files = _by_protoc(texts)
    files.file.extend(made)
    return files


def _serialized(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """What Confluent's clients but Java's register; some registries tell it as it came. None: it is text."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None


def _by_protoc(texts: Sequence[tuple[str, str]]) -> descriptor_pb2.FileDescriptorSet:
    """By Google's own compiler, which sees one directory. Raises: BadSchema."""
    with tempfile.TemporaryDirectory(prefix="portico-proto-") as folder:
        root = Path(folder)
        for name, text in texts:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = root / "portico.descriptors"
        said = root / "portico.said"
        arguments = [f"-I{root}", f"-I{_INCLUDED}", "--include_imports", f"--descriptor_set_out={out}", _MAIN]
        with said.open("wb") as errors:
            status = _with_stderr(errors.fileno(), lambda: protoc.main(["protoc", *arguments]))
        if status != 0:
            lines = said.read_text(errors="replace").replace(f"{root}/", "").splitlines()
            told = next((one for one in lines if one.startswith(f"{_MAIN}:")), "it cannot be compiled")
            raise BadSchema(told.replace(f"{_MAIN}:", "line ")[:_REASON_CHARACTERS_MAX])
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def _with_stderr(descriptor: int, run: Callable[[], int]) -> int:
    """protoc is no Python: it writes its errors to the process's own."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        return run()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
