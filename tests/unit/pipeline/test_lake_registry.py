"""Records of a registry's serializers become columns; what a registry or a producer does wrong is told."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass

from contracts.registered_schemas import SchemaText
from pipeline.errors import PipelineError
from pipeline.lake.decode import registered, registry, values
from pipeline.lake.decode.ddl import columns_of, fields_ddl
from pipeline.lake.decode.registered import registry_reader, writer_of
from pipeline.lake.decode.registry import RegistryAt, TopicSchemas, registry_at
from pipeline.lake.decode.values import DecodedBatch, Fault, ValueDecoder
from runtime.protobuf_schemas import BadSchema, compiled, messages_of
from tests.pipeline.stand_in_registry import Says, StandIn, framed, schema, stand_in_registry

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def avro(name: str, *fields: dict[str, Any]) -> SchemaText:
    return SchemaText("avro", json.dumps({"type": "record", "name": name, "fields": list(fields)}))


def written(text: SchemaText, row: dict[str, Any], schema_id: int = 1) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text.text)), row)
    return framed(schema_id, out.getvalue())


def decoded(columns: pa.Schema, writers: dict[int, SchemaText], *given: bytes) -> DecodedBatch:
    by_id = {name: writer_of(text) for name, text in writers.items()}
    return ValueDecoder(columns, registry_reader(columns, by_id)).decode(given)


def rows(columns: pa.Schema, found: DecodedBatch) -> list[dict[str, Any]]:
    return [
        dict(zip(columns.names, row, strict=True))
        for row in zip(*(column.to_pylist() for column in found.columns), strict=True)
    ]


def columns(text: SchemaText) -> pa.Schema:
    return pa.schema(columns_of(writer_of(text).fields))


def test_avro_has_columns_for_its_types() -> None:
    place = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    given: dict[str, tuple[Any, Any, Any]] = {
        "i": ("int", 7, 7),
        "l": ("long", 2**62, 2**62),
        "f": ("float", 0.5, 0.5),
        "b": ("boolean", True, True),
        "s": ("string", "ü", "ü"),
        "y": ("bytes", b"\xff", b"\xff"),
        "e": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        "u": ({"type": "string", "logicalType": "uuid"}, "not checked", "not checked"),
        "d": (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            Decimal("1.50"),
            Decimal("1.50"),
        ),
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 1, 2), date(2026, 1, 2)),
        "at": ({"type": "long", "logicalType": "timestamp-millis"}, AT, AT),
        "us": (["null", {"type": "long", "logicalType": "timestamp-micros"}], AT, AT),
        "time": ({"type": "int", "logicalType": "time-millis"}, 5, 5),
        "none": (["null", "long"], None, None),
        "widened": (["int", "long"], 5, 5),
        "either": (["null", "string", "long", {"type": "array", "items": "long"}], [1], "[1]"),
        "places": ({"type": "array", "items": place}, [{"x": 1}], [{"x": 1}]),
        "named": ("P", {"x": 2}, {"x": 2}),
        "tags": ({"type": "map", "values": "long"}, {"k": 1}, [("k", 1)]),
    }
    text = avro("R", *({"name": name, "type": told} for name, (told, _, _) in given.items()))
    plain = avro("R", *({"name": n, "type": "int" if n == "time" else t} for n, (t, _, _) in given.items()))
    found = decoded(
        columns(text), {1: text}, written(plain, {name: row for name, (_, row, _) in given.items()})
    )
    assert found.faults == {}
    assert rows(columns(text), found) == [{name: expected for name, (_, _, expected) in given.items()}]
    assert "`i` bigint, `l` bigint, `f` double" in fields_ddl(columns(text))


V1 = avro("R", {"name": "id", "type": "int"}, {"name": "ms", "type": "float"})
V2 = avro(
    "R", {"name": "ms", "type": "double"}, {"name": "id", "type": "long"}, {"name": "who", "type": "string"}
)
V3 = avro("R", {"name": "id", "type": "string"})


def test_records_go_into_columns_by_what_wrote_them() -> None:
    table = columns(V2)
    found = decoded(
        table,
        {1: V1, 2: V2, 3: V3, 4: avro("R", {"name": "id", "type": "int"}, {"name": "more", "type": "int"})},
        written(V1, {"id": 1, "ms": 0.5}, 1),
        written(V2, {"id": 2**40, "ms": 2.5, "who": "b"}, 2),
        written(V3, {"id": "x"}, 3),
        written(
            avro("R", {"name": "id", "type": "int"}, {"name": "more", "type": "int"}), {"id": 4, "more": 1}, 4
        ),
        b'{"id": 1}',
        framed(9, b""),
        framed(2, b"\x00"),
        written(V2, {"id": 1, "ms": 0, "who": "c"}, 2) + b"tail",
    )
    assert rows(table, found) == [
        {"ms": 0.5, "id": 1, "who": None},
        {"ms": 2.5, "id": 2**40, "who": "b"},
        {"ms": None, "id": 4, "who": None},
    ]
    assert found.unknown == [None, None, ["more"]]
    assert {n: fault.error_class for n, fault in found.faults.items()} == {
        2: registered.INCOMPATIBLE_SCHEMA,
        4: values.BAD_FRAMING,
        5: registered.UNKNOWN_SCHEMA,
        6: values.MALFORMED,
        7: values.MALFORMED,
    }
    assert "schema 3: the field 'id' is bigint in the table and string" in found.faults[2].message


def test_values_beyond_their_columns_are_their_records_faults() -> None:
    text = avro(
        "R",
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    )
    raw = avro("R", {"name": "d", "type": "bytes"}, {"name": "at", "type": "long"})
    found = decoded(
        columns(text),
        {1: text},
        written(raw, {"d": b"\x7f\xff", "at": 0}),
        written(raw, {"d": b"", "at": 2**60}),
    )
    assert [each.error_class for each in found.faults.values()] == [values.OUT_OF_RANGE] * 2


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
package shop;
message Order {
  int32 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  google.protobuf.Int64Value count = 4;
  google.protobuf.Struct extra = 5;
  repeated Item items = 6;
  map<int32, string> names = 7;
  Kind kind = 8;
  uint64 big = 9;
  oneof choice { string a = 10; float b = 11; }
  Order parent = 12;
  google.protobuf.Any detail = 13;
  message Item { bytes sku = 1; }
  enum Kind { NEW = 0; OLD = 1; }
}
message Other { int32 x = 1; }
"""


def test_protobuf_has_columns_for_its_messages() -> None:
    text = SchemaText("protobuf", PROTO)
    pool, [order, other] = messages_of(compiled(text))
    message = GetMessageClass(order)(id=3, big=2**63, kind=5, b=0.5)
    message.at.FromDatetime(AT)
    message.count.value = 0
    message.extra["k"] = [1, None]
    message.items.add(sku=b"\xff")
    message.names[4] = "four"
    message.parent.id = 2
    message.detail.type_url = "x/unknown"
    table = columns(text)
    found = decoded(
        table,
        {1: text},
        framed(1, b"\x00" + message.SerializeToString()),
        framed(1, b"\x00"),
        framed(1, b"\x02\x02" + GetMessageClass(other)(x=1).SerializeToString()),
        framed(1, b"\x02\x08"),
        framed(1, b"\x00\xff"),
    )
    first, second = rows(table, found)
    assert first == {
        "id": 3,
        "note": None,
        "at": AT,
        "count": 0,
        "extra": '{"k":[1.0,null]}',
        "items": [{"sku": b"\xff"}],
        "names": [("4", "four")],
        "kind": "5",
        "big": Decimal(2**63),
        "a": None,
        "b": 0.5,
        "parent": '{"id":2}',
        "detail": {"type_url": "x/unknown", "value": b""},
    }
    assert (second["id"], second["note"], second["kind"], second["count"]) == (0, None, "NEW", None)
    assert [each.error_class for each in found.faults.values()] == [
        *(registered.INCOMPATIBLE_SCHEMA, values.MALFORMED, values.MALFORMED)
    ]
    named = SchemaText("protobuf", PROTO, message="shop.Other")
    found = decoded(columns(named), {1: named}, framed(1, b"\x02\x02\x08\x07"))
    assert rows(columns(named), found) == [{"x": 7}]
    assert pool is not None


def test_json_schemas_have_columns() -> None:
    text = SchemaText(
        "json",
        json.dumps(
            {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "integer"},
                    "at": {"type": ["string", "null"], "format": "date-time"},
                    "share": {"oneOf": [{"type": "null"}, {"type": "number"}]},
                    "who": {"$ref": "#/definitions/who"},
                    "place": {"$ref": "place.json"},
                    "any": {},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                },
                "definitions": {
                    "who": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "boss": {"$ref": "#/definitions/who"}},
                    }
                },
            }
        ),
        (("place.json", '{"type": "object", "properties": {"zip": {"type": "string"}}}'),),
    )
    row = {
        "id": 1,
        "at": "2026-01-02T03:04:05.678Z",
        "share": 1,
        "who": {"name": "a", "boss": {"name": "b"}},
        "place": {"zip": "1"},
        "any": [1, {"x": None}],
        "tags": ["t"],
        "counts": {"k": 1},
        "more": 1,
    }
    table = columns(text)
    given = [framed(1, json.dumps(each).encode()) for each in (row, {}, {"id": "1"}, [1])]
    found = decoded(table, {1: text}, *given)
    assert rows(table, found)[0] == {
        "id": 1,
        "at": AT,
        "share": 1.0,
        "who": {"name": "a", "boss": '{"name":"b"}'},
        "place": {"zip": "1"},
        "any": '[1,{"x":null}]',
        "tags": ["t"],
        "counts": [("k", 1)],
    }
    assert found.unknown == [["more"], None]
    assert [each.error_class for each in found.faults.values()] == [values.WRONG_TYPE] * 2


def record(fields: str) -> str:
    return f'{{"type": "record", "name": "R", "fields": [{fields}]}}'


def _deep(levels: int) -> str:
    """Twice as many fields at each level."""
    inner: Any = "int"
    for n in range(levels):
        inner = {
            "type": "record",
            "name": f"L{n}",
            "fields": [{"name": "a", "type": inner}, {"name": "b", "type": f"L{n - 1}" if n else "int"}],
        }
    return json.dumps(inner)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("avro", "", "JSONDecodeError"),
        ("avro", '"string"', "no record"),
        ("avro", '{"type": "record", "name": "R"}', "fields"),
        ("avro", '{"type": "record", "name": "R", "fields": []}', "no record"),
        (
            "avro",
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}',
            "itself",
        ),
        (
            "avro",
            record('{"name": "a", "type": {"type": "array", "items": "null"}}'),
            "no bytes",
        ),
        (
            "avro",
            '{"type": "record", "name": "R", "fields": [{"name": "_offset", "type": "int"}]}',
            "Kafka's",
        ),
        (
            "avro",
            record('{"name": "a", "type": "int"}, {"name": "A", "type": "int"}'),
            "only in case",
        ),
        ("avro", _deep(30), "more than 5000 fields"),
        ("avro", "[" * 100_000, "Recursion|nested"),
        ("protobuf", "no proto", "line 1"),
        ("protobuf", 'syntax = "proto3";', "no message"),
        ("protobuf", 'syntax = "proto3"; message A {}', "no message with fields"),
        ("protobuf", 'syntax = "proto3"; import "/etc/passwd"; message A {int32 x = 1;}', "passwd"),
        ("json", "[]", "no object"),
        ("json", '{"$ref": "http://example.com/x.json"}', "nothing is fetched"),
        ("json", '{"$ref": "#"}', "no object"),
        ("json", '{"$ref": "#/nowhere"}', "KeyError"),
    ],
)
def test_a_schema_that_makes_no_columns_says_why(kind: str, text: str, reason: str) -> None:
    with pytest.raises(BadSchema, match=reason):
        writer_of(SchemaText(kind, text))


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with stand_in_registry() as found:
        yield found


GOOD = schema({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}


def referring(name: str) -> Says:
    return schema(
        {"type": "record", "name": "R", "fields": []},
        references=[{"name": name, "subject": name, "version": 1}],
    )


@pytest.mark.parametrize(
    ("says", "error_class", "reason"),
    [
        (Says(b"{}", 404), registered.UNKNOWN_SCHEMA, "has not schema 7"),
        (schema("{}", "XML"), registered.UNKNOWN_SCHEMA, "a type that is not known"),
        (Says(b"x" * 2_000_000), registered.UNKNOWN_SCHEMA, "larger than"),
        (referring("gone"), registered.UNKNOWN_SCHEMA, "has not a schema that its schema refers to"),
        (referring("circle"), registered.UNUSABLE_SCHEMA, "cannot be used"),
        (schema("no schema"), registered.UNUSABLE_SCHEMA, "JSONDecodeError"),
        (schema(RECURSIVE), registered.UNUSABLE_SCHEMA, "holds itself"),
    ],
)
def test_what_a_registry_says_of_a_schema_makes_dead_letters(
    stand_in: StandIn, says: Says, error_class: str, reason: str
) -> None:
    stand_in.has(7, says)
    stand_in.has(8, GOOD)
    stand_in.says["/subjects/circle/versions/1"] = referring("circle")
    found = TopicSchemas(RegistryAt(stand_in.url), "t").writers([7, 8])
    fault = found[7]
    assert isinstance(fault, Fault) and fault.error_class == error_class and reason in fault.message
    assert not isinstance(found[8], Fault), "others go on"


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (Says(b"", 500), "answered 500"),
        (Says(b"", 401), "another user or password"),
        (Says(b"", 302, {"Location": "http://127.0.0.1:1/"}), "redirects"),
        (Says(b"<html>"), "answer is no schema 7"),
        (Says(b'{"schema": 5}'), "answer is no schema 7"),
        (Says(b"x" * 100, pause_s=0.1), "does not answer within"),
        (Says(b"x", headers={"X": "y" * 200_000}), "cannot be asked"),
    ],
)
def test_a_registry_that_does_not_say_stops_the_run(
    stand_in: StandIn, says: Says, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "ASK_S_MAX", 0.5)
    stand_in.has(7, says, "t-value")
    schemas = TopicSchemas(RegistryAt(stand_in.url), "t")
    with pytest.raises(PipelineError, match=sentence):
        schemas.writers([7])
    with pytest.raises(PipelineError, match="the columns of the table are not known"):
        schemas.newest()
    stand_in.has(7, GOOD)
    assert list(schemas.writers([7])) == [7], "it is asked again"


def test_nobody_answers_and_no_subject_is_there(stand_in: StandIn) -> None:
    with pytest.raises(PipelineError, match="has not a schema of subject t-value"):
        TopicSchemas(RegistryAt(stand_in.url), "t").newest()
    with pytest.raises(PipelineError, match="cannot be asked"):
        TopicSchemas(RegistryAt("http://127.0.0.1:1"), "t").newest()


def test_a_registry_is_asked_once_for_a_schema_and_for_so_many(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.has(0, GOOD)
    schemas = TopicSchemas(registry_at(stand_in.url, "basic.auth.user.info=u:p:w", {}), "t")
    schemas.writers([0])
    schemas.writers([0])
    assert stand_in.asked == [("/schemas/ids/0", "Basic dTpwOnc=")]
    monkeypatch.setattr(registry, "IDS_MAX", 3)
    assert list(schemas.writers(range(1, 30))) == [1, 2, 3]


def test_how_one_comes_in_is_no_argument(tmp_path: Path) -> None:
    known = registry_at("https://r.example.com", "", {"PORTICO_REGISTRY_AUTH": "u:p"})
    assert (known.user, known.password) == ("u", "p") and "p'" not in repr(known)
    assert registry_at("https://r.example.com", "# t\nbearer.auth.token = x=y", {}).token == "x=y"
    for url in ("r.example.com", "https://u:secret@r.example.com", "ftp://x", "https://"):
        with pytest.raises(PipelineError, match="registry's URL is like") as raised:
            registry_at(url, "", {})
        assert "secret" not in raised.value.sentence
    with pytest.raises(PipelineError, match=r"not 'sasl\.password'"):
        registry_at("https://x", "sasl.password=secret", {})
