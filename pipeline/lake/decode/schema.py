"""Schemas of a topic's values: a small file with a version, and what may change between versions. Pure.

    {"version": 2, "format": "json", "fields": "user STRING NOT NULL, url STRING, at TIMESTAMP, ms BIGINT"}

`format` is `json` (the default), `confluent-json` (JSON behind a zero byte and a 4-byte schema id), `csv`
(one line of comma-separated values in the order of the fields, an empty one is null) or `text` (one string
field).
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from pipeline.errors import PipelineError
from pipeline.lake.decode.field_types import Field, FieldType, parse_fields, quoted

RESERVED_PREFIX: Final = "_"
_FILE_BYTES_MAX: Final = 1_000_000


class ValueFormat(StrEnum):
    """How values are written."""

    JSON = "json"
    CONFLUENT_JSON = "confluent-json"
    CSV = "csv"
    TEXT = "text"


class SchemaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schema as it is written down."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
    fields: str
    format: ValueFormat = ValueFormat.JSON


class RecordSchema(NamedTuple):
    """What values of a topic hold."""

    version: int
    format: ValueFormat
    fields: tuple[Field, ...]

    @property
    def id(self) -> str:
        """Version and content, such as `2-9f86d081884c`: dead letters name it."""
        digest = hashlib.sha256(f"{self.format} {self.ddl}".encode()).hexdigest()
        return f"{self.version}-{digest[:12]}"

    @property
    def ddl(self) -> str:
        """The fields, as they are read again."""
        return ", ".join(_column(each) for each in self.fields)

    def as_file(self) -> SchemaFile:
        """The schema as commits of the decoded table keep it."""
        return SchemaFile(self.version, self.ddl, self.format)


def _column(field: Field) -> str:
    return f"{quoted(field.name)} {_required_ddl(field.type)}{' NOT NULL' if field.required else ''}"


def _required_ddl(kind: FieldType) -> str:
    """A type with the requirements inside it, which a column's type does not have."""
    if kind.name == "struct":
        inner = ", ".join(
            f"{quoted(each.name)}: {_required_ddl(each.type)}{' NOT NULL' if each.required else ''}"
            for each in kind.fields
        )
        return f"struct<{inner}>"
    if kind.items is not None:
        return f"{kind.name}<{'string, ' if kind.name == 'map' else ''}{_required_ddl(kind.items)}>"
    return kind.ddl()


def read_schema(text: bytes, name: str) -> RecordSchema:
    """A schema file's content. Raises: PipelineError."""
    if len(text) > _FILE_BYTES_MAX:
        raise PipelineError(
            f"the schema file {name} has {len(text)} bytes; at most {_FILE_BYTES_MAX} are read"
        )
    try:
        written = msgspec.json.decode(text, type=SchemaFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PipelineError(
            f'the schema file {name} is not {{"version": 1, "fields": "name STRING, ..."}}: {error}'
        ) from error
    return schema_of(written)


def schema_of(written: SchemaFile) -> RecordSchema:
    """A schema as it is used. Raises: PipelineError."""
    fields = parse_fields(written.fields)
    for each in fields:
        if each.name.startswith(RESERVED_PREFIX):
            raise PipelineError(
                f"the field '{each.name}' begins with '_', as Kafka's own columns do: name it otherwise"
            )
        if written.format is ValueFormat.CSV and each.type.name in ("array", "map", "struct"):
            raise PipelineError(f"the field '{each.name}' is a {each.type.name}, which CSV cannot hold")
    if written.format is ValueFormat.TEXT and (len(fields) != 1 or fields[0].type.name != "string"):
        raise PipelineError("format text needs one field of type string")
    return RecordSchema(written.version, written.format, fields)


def check_change(old: RecordSchema, new: RecordSchema) -> None:
    """Whether records may be decoded with a schema after another was used. Raises: PipelineError.

    Fields may be added and left out; none may change its type, as the table's column keeps it.
    """
    if new.version < old.version:
        raise PipelineError(
            f"the table was decoded with schema version {old.version}; version {new.version} is older"
        )
    if new.version == old.version:
        if new.id != old.id:
            raise PipelineError(
                f"schema version {new.version} was used with other fields before: give the changed schema "
                f"version {new.version + 1}"
            )
        return
    check_columns(old.fields, new.fields)


def check_columns(old: tuple[Field, ...], new: tuple[Field, ...], inside: str = "") -> None:
    """Fields of the same name keep their types, also inside structs. Raises: PipelineError."""
    before = {each.name.lower(): each for each in old}
    for each in new:
        if (known := before.get(each.name.lower())) is None:
            continue
        if known.name != each.name:
            raise PipelineError(
                f"the field '{inside}{known.name}' is now written '{each.name}': keep the name"
            )
        _check_type(known.type, each.type, f"{inside}{each.name}")


def _check_type(old: FieldType, new: FieldType, path: str) -> None:
    if old.name == new.name == "struct":
        check_columns(old.fields, new.fields, f"{path}.")
    elif old.name == new.name and old.items is not None and new.items is not None:
        _check_type(old.items, new.items, path)
    elif old != new:
        raise PipelineError(
            f"the field '{path}' is {old.ddl()} in the table and {new.ddl()} in the new schema: a type "
            "cannot change; add a field of another name for it"
        )
