"""Protobuf schemas of registries, compiled, and which message of theirs a record holds.

Nothing is fetched or opened by what a schema says: what it refers to comes with it.
"""

import base64
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from contracts.registered_schemas import SchemaText

_FILE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*\Z")
_MAIN: Final = "portico_schema.proto"
REASON_CHARACTERS_MAX: Final = 300
_INDEXES_MAX: Final = 32


class BadSchema(Exception):  # noqa: N818 - states what is so
    """It is none, or needs what did not come with it; the text says why."""


class Undecodable(Exception):  # noqa: N818 - states what is so
    """Bytes that are not what the schema says; the text says nothing of them."""


def messages_of(
    files: descriptor_pb2.FileDescriptorSet,
) -> tuple[descriptor_pool.DescriptorPool, list[Descriptor]]:
    """What `compiled` has made, and the messages of the schema itself in their order. Raises: BadSchema."""
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.AddSerializedFile(one.SerializeToString())
    main = pool.FindFileByName(_MAIN)
    # By name they come in any order: what is first is what the file has first.
    order = next(one for one in files.file if one.name == _MAIN).message_type
    messages = [main.message_types_by_name[one.name] for one in order]
    if not messages:
        raise BadSchema("it has no message")
    return pool, messages


def indexed(messages: list[Descriptor], data: bytes) -> tuple[Descriptor, int]:
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


def compiled(schema: SchemaText) -> descriptor_pb2.FileDescriptorSet:
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
    from grpc_tools import protoc  # who only reads records by a compiled schema has no need of it

    included = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory(prefix="portico-proto-") as folder:
        root = Path(folder)
        for name, text in texts:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = root / "portico.descriptors"
        said = root / "portico.said"
        arguments = [f"-I{root}", f"-I{included}", "--include_imports", f"--descriptor_set_out={out}", _MAIN]
        with said.open("wb") as errors:
            status = _with_stderr(errors.fileno(), lambda: protoc.main(["protoc", *arguments]))
        if status != 0:
            lines = said.read_text(errors="replace").replace(f"{root}/", "").splitlines()
            told = next((one for one in lines if one.startswith(f"{_MAIN}:")), "it cannot be compiled")
            raise BadSchema(told.replace(f"{_MAIN}:", "line ")[:REASON_CHARACTERS_MAX])
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
