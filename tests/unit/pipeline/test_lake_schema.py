"""Schema files: what they may say, and how they may change."""

from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.lake.decode.ddl import array_of, columns_of, fields_ddl, parse_fields
from pipeline.lake.decode.schema import RecordSchema, check_change, read_schema, schema_of

_NAMES = st.text("abcXYZ09-_.$ü`", min_size=1, max_size=6).filter(lambda name: not name.startswith("_"))
_PLAIN = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC")),
]


def field_types(depth: int = 2) -> st.SearchStrategy[pa.DataType]:
    plain = st.sampled_from(_PLAIN)
    decimals = st.tuples(st.integers(1, 38), st.integers(0, 38)).map(
        lambda each: pa.decimal128(max(each), min(each))
    )
    if depth == 0:
        return st.one_of(plain, decimals)
    inner = field_types(depth - 1)
    maps = inner.map(lambda each: pa.map_(pa.string(), each))
    return st.one_of(plain, decimals, inner.map(array_of), maps, fields(depth - 1).map(pa.struct))


def fields(depth: int = 2) -> st.SearchStrategy[pa.Schema]:
    one = st.builds(pa.field, _NAMES, field_types(depth), nullable=st.booleans())
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda each: each.name.lower()).map(pa.schema)


def schema(text: str, version: int = 1) -> RecordSchema:
    return read_schema(msgspec.json.encode({"version": version, "fields": text}), "events.json")


@settings(deadline=None)
@given(fields())
def test_a_schema_is_read_as_it_is_written(found: pa.Schema) -> None:
    assert parse_fields(fields_ddl(found)) == found


@settings(deadline=None)
@given(fields())
def test_columns_are_the_fields_without_requirements(found: pa.Schema) -> None:
    columns = pa.schema(columns_of(found))
    assert fields_ddl(columns) == fields_ddl(found).replace(" NOT NULL", "")
    made = pa.schema(Schema.from_arrow(columns))
    assert parse_fields(fields_ddl(made)) == columns, "Delta keeps them"


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_schema_or_a_sentence(text: str) -> None:
    with suppress(PipelineError):
        assert parse_fields(text)


def test_types_have_their_other_names() -> None:
    found = parse_fields("a integer, b long NOT NULL, `c d` short".replace("`c d`", "c"))
    assert found.types == [pa.int32(), pa.int64(), pa.int16()]
    assert [each.nullable for each in found] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ends where a field name"),
        ("a", "ends where a type"),
        ("a strng", "'strng' is no type"),
        ("a int b int", "'b' is not expected"),
        ("a array<int", "'>'"),
        ("a map<int, int>", "keys of a map are strings"),
        ("a decimal(39, 2)", "at most 38 digits"),
        ("a int, A string", "differ only in case"),
        ("a int, a string", "is there twice"),
        ("`a b` int", "cannot be a column"),
        ("_offset bigint", "begins with '_'"),
        ("a " + "array<" * 40 + "int" + ">" * 40, "nested more than"),
    ],
)
def test_what_is_no_schema_is_said_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(PipelineError, match=reason.replace("(", r"\(")):
        schema(text)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a string",
        b"[]",
        b'{"fields": "a int"}',
        b'{"version": 0, "fields": "a int"}',
        b"\xff",
        b"[" * 10_000,
    ],
)
def test_a_file_that_is_none_is_said_in_a_sentence(content: bytes) -> None:
    with pytest.raises(PipelineError, match="schema file events"):
        read_schema(content, "events.json")


def test_csv_holds_no_structures_and_text_has_one_field() -> None:
    with pytest.raises(PipelineError, match="CSV cannot hold"):
        read_schema(b'{"version": 1, "format": "csv", "fields": "a array<int>"}', "x")
    with pytest.raises(PipelineError, match="one field of type string"):
        read_schema(b'{"version": 1, "format": "text", "fields": "a int"}', "x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a int", "a int, b string"),
        ("a int, b string", "a int"),
        ("a int", "a int NOT NULL"),
        ("a struct<b: int>", "a struct<b: int, c: array<struct<d: int>>>"),
        ("a array<struct<b: int>>", "a array<struct<b: int, c: int>>"),
    ],
)
def test_fields_may_come_and_go(old: str, new: str) -> None:
    check_change(schema(old), schema(new, 2))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("a int", "a bigint", "is int in the table and bigint"),
        ("a decimal(5,2)", "a decimal(6,2)", "cannot change"),
        ("a struct<b: int>", "a struct<b: string>", "'a.b'"),
        ("a array<int>", "a map<string, int>", "cannot change"),
        ("a array<struct<b: int>>", "a array<struct<b: date>>", "'a.b'"),
        ("a int", "A int", "keep the name"),
    ],
)
def test_types_may_not_change(old: str, new: str, reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        check_change(schema(old), schema(new, 2))


def test_a_version_is_used_for_one_schema() -> None:
    check_change(schema("a int", 2), schema("a  INTEGER", 2))
    with pytest.raises(PipelineError, match="give the changed schema version 3"):
        check_change(schema("a int", 2), schema("a int, b int", 2))
    with pytest.raises(PipelineError, match="version 1 is older"):
        check_change(schema("a int", 2), schema("a int", 1))


def test_new_columns_are_merged_into_a_table(tmp_path: Path) -> None:
    """Also inside structs of structs, lists and maps; what the schema leaves out stays."""
    old = parse_fields(
        "a struct<b: int>, l array<struct<x: int>>, m map<string, struct<y: int>>, o int, p int"
    )
    new = parse_fields(
        "a struct<b: int, c: int>, l array<struct<x: int, z: date>>, "
        "m map<string, struct<y: int, w: int>>, n int, o int"
    )
    table = DeltaTable.create(tmp_path, Schema.from_arrow(old))
    table.alter.add_columns(Schema.from_arrow(new).fields)
    found = pa.schema(table.schema())
    assert fields_ddl(found) == fields_ddl(
        pa.schema([*list(new)[:3], old.field("o"), old.field("p"), new.field("n")])
    )


def test_a_schema_survives_being_kept_with_its_table() -> None:
    found = schema("`a-b` struct<`x.y`: int NOT NULL> NOT NULL, c decimal(4,2)", 7)
    assert (
        schema_of(msgspec.json.decode(msgspec.json.encode(found.as_file()), type=type(found.as_file())))
        == found
    )
