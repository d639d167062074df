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
import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.lake.decode.ddl import ddl_of, fields_ddl, items_of, parse_fields

RESERVED_PREFIX: Final = "_"
_FILE_BYTES_MAX: Final = 1_000_000


class ValueFormat(StrEnum):
    """How values are written."""

    JSON = "json"
    CONFLUENT_JSON = "confluent-json"
    CSV = "csv"
    TEXT = "text"
    REGISTRY = "registry"
    """Behind a zero byte and the id of a schema, which a registry has; no file says so."""


class IncompatibleError(PipelineError):
    """A field has another type, or another spelling, than the table's column of its name."""


class SchemaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schema as it is written down, and as commits of the decoded table keep it."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
    fields: str
    format: ValueFormat = ValueFormat.JSON


class RecordSchema(NamedTuple):
    """What values of a topic hold."""

    version: int
    format: ValueFormat
    fields: pa.Schema

    @property
    def id(self) -> str:
        """Version and content, such as `2-9f86d081884c`: dead letters name it."""
        digest = hashlib.sha256(f"{self.format} {fields_ddl(self.fields)}".encode()).hexdigest()
        return f"{self.version}-{digest[:12]}"

    def as_file(self) -> SchemaFile:
        """As it is read again."""
        return SchemaFile(self.version, fields_ddl(self.fields), self.format)


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
    if written.format is ValueFormat.REGISTRY:
        raise PipelineError(f"the schema file {name} is not needed: --registry says where schemas are")
    return schema_of(written)


def schema_of(written: SchemaFile) -> RecordSchema:
    """A schema as it is used. Raises: PipelineError."""
    fields = parse_fields(written.fields)
    for each in fields:
        if each.name.startswith(RESERVED_PREFIX) and written.format is not ValueFormat.REGISTRY:
            raise PipelineError(
                f"the field '{each.name}' begins with '_', as Kafka's own columns do: name it otherwise"
            )
        if written.format is ValueFormat.CSV and pa.types.is_nested(each.type):
            kind = ddl_of(each.type).partition("<")[0]
            raise PipelineError(f"the field '{each.name}' is a {kind}, which CSV cannot hold")
    if written.format is ValueFormat.TEXT and fields.types != [pa.string()]:
        raise PipelineError("format text needs one field of type string")
    return RecordSchema(written.version, written.format, fields)


def check_change(old: RecordSchema, new: RecordSchema) -> None:
    """Whether records may be decoded with a schema after another was used. Raises: PipelineError.

    Fields may be added and left out; none may change its type, as the table's column keeps it. Who counts a
    registry's versions is the registry.
    """
    if ValueFormat.REGISTRY not in (old.format, new.format):
        if new.version < old.version:
            raise PipelineError(
                f"the table was decoded with schema version {old.version}; version {new.version} is older"
            )
        if new.version == old.version and new.id != old.id:
            raise PipelineError(
                f"schema version {new.version} was used with other fields before: give the changed schema "
                f"version {new.version + 1}"
            )
    check_columns(old.fields, new.fields)


def check_columns(old: pa.Schema | pa.StructType, new: pa.Schema | pa.StructType, inside: str = "") -> None:
    """Fields of the same name keep their types, also inside structs. Raises: IncompatibleError."""
    before = {each.name.lower(): each for each in old}
    for each in new:
        if (known := before.get(each.name.lower())) is None:
            continue
        if known.name != each.name:
            raise IncompatibleError(
                f"the field '{inside}{known.name}' is now written '{each.name}': keep the name"
            )
        _check_type(known.type, each.type, f"{inside}{each.name}")


def _check_type(old: pa.DataType, new: pa.DataType, path: str) -> None:
    before, now = items_of(old), items_of(new)
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        check_columns(old, new, f"{path}.")
    elif before is not None and now is not None and old.id == new.id:
        _check_type(before, now, path)
    elif ddl_of(old) != ddl_of(new):
        raise IncompatibleError(
            f"the field '{path}' is {ddl_of(old)} in the table and {ddl_of(new)} in the new schema: a type "
            "cannot change; add a field of another name for it"
        )


def missing_fields(table: pa.StructType | pa.Schema, fields: pa.StructType | pa.Schema) -> list[str]:
    """Paths of fields that a table has no columns for."""
    known = {each.name: each.type for each in table}
    missing = [each.name for each in fields if each.name not in known]
    for each in fields:
        if pa.types.is_struct(each.type) and each.name in known:
            missing += [f"{each.name}.{inner}" for inner in missing_fields(known[each.name], each.type)]
    return missing
