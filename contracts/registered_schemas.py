"""Schemas as a registry tells them, or as somebody has written one."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

SchemaName: TypeAlias = int | str
"""What a registry knows a schema by: its id, or its GUID as text."""


class SchemaKind(StrEnum):
    """What a schema is written in."""

    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON = "json"


class SchemaText(msgspec.Struct, frozen=True, array_like=True):
    """A schema as it is written, with what it refers to."""

    kind: str
    """A `SchemaKind`."""
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """(name, text): each before those that refer to it."""
    message: str = ""
    """Of Protobuf: which message; empty: the first, or what the data says."""
