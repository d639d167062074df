"""What the console asks a decoding process, and its answers: MessagePack behind a length of four bytes."""

import struct
from typing import Final, TypeAlias

import msgspec

from contracts.registered_schemas import SchemaText

LENGTH: Final = struct.Struct(">I")


class Field(msgspec.Struct, frozen=True, array_like=True):
    """A key or value."""

    schema: str
    """The schema's key; empty: it is JSON without one."""
    data: bytes
    """As the schema has it, without what a registry's serializers put in front."""
    has_indexes: bool = False
    """Of Protobuf: whether the place of the message within its file comes first."""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """Fields to decode, each answered for itself; no fields: whether the schemas are any."""

    schemas: dict[str, SchemaText]
    """Those that this process has not been sent."""
    fields: tuple[Field, ...]
    masked: tuple[str, ...]
    """Fields that are not told (`tenants.rules.decoding.FieldMask`)."""


class Told(msgspec.Struct, frozen=True, array_like=True):
    """One field as JSON, or why it is not."""

    text: bytes | None
    problem: str = ""
    """With a text: it is decoded, and does not fit its schema."""


class Ready(msgspec.Struct, frozen=True, array_like=True):
    """Of the schemas that came with a job, those that are none, with the reason."""

    problems: dict[str, str]


Message: TypeAlias = Job | Told | Ready


def framed(message: Message) -> bytes:
    """The bytes on the socket."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body
