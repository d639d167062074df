"""Decoding by schemas in processes: what is told, and that no schema and no record does harm."""

import asyncio
import base64
import io
import itertools
import json
import struct
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
import pytest_asyncio
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from contracts.registered_schemas import SchemaText
from tenants.decoding import decoder as decoders
from tenants.decoding.decoder import Decoder
from tenants.decoding.messages import Field, Told
from tenants.rules.decoding import schema_id_of

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "raw", "type": "bytes"},
    ],
}
AVRO = SchemaText("avro", json.dumps(ORDER))
PROTO = SchemaText(
    "protobuf",
    """syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    import "common/money.proto";
    message Order { message Line { string item = 1; } string id = 1; Line line = 2; common.Money paid = 3; }
    message Refund { string why = 1; }
    """,
    (
        (
            "common/money.proto",
            'syntax = "proto3"; package common; message Money { string currency = 1; int32 units = 2; }',
        ),
    ),
)
ENDLESS_AVRO = SchemaText("avro", '{"type": "array", "items": "null"}')
LIST_AVRO = SchemaText(
    "avro",
    '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}',
)


@pytest_asyncio.fixture
async def decoder() -> AsyncIterator[Decoder]:
    made = Decoder()
    yield made
    made.close()


def avro(document: dict[str, Any], schema: dict[str, Any] = ORDER) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), document)
    return written.getvalue()


def zigzag_long(value: int) -> bytes:
    left, said = (value << 1) ^ (value >> 63), b""
    while left > 0x7F:
        said += bytes([left & 0x7F | 0x80])
        left >>= 7
    return said + bytes([left])


def texts(told: list[Told]) -> list[Any]:
    return [None if one.text is None else json.loads(one.text) for one in told]


async def test_each_kind_is_told_as_json(decoder: Decoder) -> None:
    order = avro({"id": 7, "note": "ä", "paid": Decimal("12.50"), "raw": b"\x00\xff"})
    rules = SchemaText("json", '{"type": "object", "properties": {"id": {"type": "integer"}}}')
    proto = b"\x0a\x02o1\x12\x06\x0a\x04book\x1a\x07\x0a\x03EUR\x10\x05"
    told = await decoder.decode(
        "t1",
        "i1",
        {"a": AVRO, "p": PROTO, "j": rules},
        [
            Field("a", order),
            Field("p", proto),
            Field("p", b"\x02\x02" + b"\x0a\x04late", has_indexes=True),  # the second message
            Field("p", b"\x04\x00\x00" + b"\x0a\x04book", has_indexes=True),  # the first one's first
            Field("p", b"\x00" + proto, has_indexes=True),
            Field("j", b'{"id": 1}'),
            Field("j", b'{"id": "x"}'),
            Field("", b'{"plain": true}'),
        ],
    )
    shown = {"id": "o1", "line": {"item": "book"}, "paid": {"currency": "EUR", "units": 5}}
    assert texts(told) == [
        {"id": 7, "note": "ä", "paid": "12.50", "raw": "AP8="},
        shown,
        {"why": "late"},
        {"item": "book"},
        shown,
        {"id": 1},
        {"id": "x"},
        {"plain": True},
    ]
    assert [one.problem for one in told] == [""] * 6 + ["it does not fit its JSON schema", ""]


async def test_a_message_of_protobuf_is_chosen_by_name(decoder: Decoder) -> None:
    named = SchemaText("protobuf", PROTO.text, PROTO.references, "shop.Refund")
    [told] = await decoder.decode("t1", "i1", {"p": named}, [Field("p", b"\x0a\x04late")])
    assert texts([told]) == [{"why": "late"}]
    missing = SchemaText("protobuf", PROTO.text, PROTO.references, "shop.Nothing")
    assert await decoder.check("t1", "i1", missing) == "it has no message 'shop.Nothing'"


def serialized(folder: Path, text: str, *others: tuple[str, str]) -> str:
    """As Confluent's clients but Java's register a file."""
    for name, its in (("shop.proto", text), *others):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(its)
    included = Path(protoc.__file__).parent / "_proto"
    arguments = (f"-I{folder}", f"-I{included}", f"--descriptor_set_out={folder / 'out'}", "shop.proto")
    assert protoc.main(["protoc", *arguments]) == 0
    [made] = FileDescriptorSet.FromString((folder / "out").read_bytes()).file
    return registered(made)


def registered(made: FileDescriptorProto) -> str:
    return base64.b64encode(made.SerializeToString()).decode()


async def test_protobuf_is_read_as_it_is_registered_by_clients_that_have_no_text(
    decoder: Decoder, tmp_path: Path
) -> None:
    [(name, money)] = PROTO.references
    whole = serialized(tmp_path, PROTO.text, *PROTO.references)
    proto = b"\x0a\x02o1\x12\x06\x0a\x04book\x1a\x07\x0a\x03EUR\x10\x05"
    shown = {"id": "o1", "line": {"item": "book"}, "paid": {"currency": "EUR", "units": 5}}
    for reference in (money, serialized(tmp_path, money)):
        schema = SchemaText("protobuf", whole, ((name, reference),))
        fields = [Field("p", b"\x00" + proto, has_indexes=True), Field("p", b"\x02\x02\x0a\x04late", True)]
        told = await decoder.decode("t1", "i1", {"p": schema}, fields)
        assert texts(told) == [shown, {"why": "late"}]
    alone = SchemaText("protobuf", whole)
    assert "common/money.proto" in await decoder.check("t1", "i1", alone)


async def test_what_a_serialized_file_imports_is_no_way_out(decoder: Decoder) -> None:
    for path in ("../../etc/passwd", "/etc/passwd", 'x"; import "y.proto', "a\nb"):
        made = FileDescriptorProto(name="x.proto", dependency=[path])
        schema = SchemaText("protobuf", registered(made))
        assert await decoder.check("t1", "i1", schema) == "it refers to a file whose name is none"
    itself = FileDescriptorProto(name="x.proto", dependency=["portico_schema.proto"])
    assert await decoder.check("t1", "i1", SchemaText("protobuf", registered(itself)))


async def test_fields_are_masked_before_anything_is_told(decoder: Decoder) -> None:
    document = {"a": 1, "who": {"email": "ann@x", "name": "Ann"}, "all": [{"email": "b"}, [{"name": "n"}]]}
    plain = json.dumps(document).encode()
    told = await decoder.decode(
        "t1",
        "i1",
        {},
        [Field("", plain), Field("", b'"just a text"'), Field("", b"no json")],
        ["email", "who.name"],
    )
    assert texts(told) == [
        {"a": 1, "who": {"email": "***", "name": "***"}, "all": [{"email": "***"}, [{"name": "n"}]]},
        "***",
        None,
    ]


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (ENDLESS_AVRO, zigzag_long(2**61) + b"\x00"),  # as many nulls, each of no bytes
        (LIST_AVRO, b"\x02" * 500_000 + b"\x00"),  # half a million deep
        (SchemaText("avro", '"bytes"'), zigzag_long(2**60)),
        (SchemaText("avro", '{"type": "map", "values": "null"}'), (zigzag_long(2**40) + b"\x00") * 3),
        (SchemaText("protobuf", PROTO.text, PROTO.references), b"\x12\xff\xff\xff\xff\x07"),
    ],
    ids=["endless", "deep", "long", "map", "cut-off"],
)
async def test_hostile_records_cost_themselves(decoder: Decoder, schema: SchemaText, data: bytes) -> None:
    good = Field("good", avro({"id": 1, "note": None, "paid": Decimal(1), "raw": b""}))
    async with asyncio.timeout(60):
        told = await decoder.decode(
            "t1", "i1", {"good": AVRO, "bad": schema}, [good, Field("bad", data), good]
        )
    assert told[0].text is not None
    assert told[0] == told[2], "those before and behind it are decoded"
    assert told[1].text is None
    assert told[1].problem
    [other] = await decoder.decode("t2", "i2", {"good": AVRO}, [good])
    assert other == told[0]


async def test_many_that_end_processes_are_given_up(decoder: Decoder) -> None:
    field = Field("bad", zigzag_long(2**61) + b"\x00")
    told = await decoder.decode("t1", "i1", {"bad": ENDLESS_AVRO}, [field] * 10)
    assert [one.text for one in told] == [None] * 10
    assert [one.problem for one in told[3:]] == [decoders._OTHERS_TAKE_TOO_MUCH] * 7


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (SchemaText("avro", "[" * 50_000), "nested"),
        (SchemaText("avro", '{"type": "record", "name": "X", "fields": [{"name": "a", "type": "Y"}]}'), "Y"),
        (SchemaText("protobuf", 'syntax = "proto3"; import "/etc/passwd"; message A {}'), "/etc/passwd"),
        (SchemaText("protobuf", 'syntax = "proto3"; import "../../x.proto"; message A {}'), "x.proto"),
        (SchemaText("protobuf", 'syntax = "proto3"; message A {}', (("../../a", "x"),)), "name is none"),
        (SchemaText("protobuf", 'syntax = "proto3"; message A {}', (("/tmp/a", "x"),)), "name is none"),
        (SchemaText("protobuf", "message {"), "line 1"),
        (SchemaText("protobuf", 'syntax = "proto3";'), "no message"),
        (SchemaText("json", '{"$ref": "http://127.0.0.1:9/secret"}'), "nothing is fetched"),
        (SchemaText("json", '{"$ref": "file:///etc/passwd"}'), "nothing is fetched"),
        (SchemaText("json", '{"type": 7}'), ""),
        (SchemaText("json", "nothing"), ""),
    ],
)
async def test_what_is_no_schema_is_told_and_opens_nothing(
    decoder: Decoder, schema: SchemaText, why: str
) -> None:
    told = await decoder.check("t1", "i1", schema)
    assert told is not None
    assert why in told
    assert "root:" not in told, "what a file holds is told to nobody"


async def test_patterns_take_no_longer_than_their_text(decoder: Decoder) -> None:
    evil = SchemaText("json", '{"type": "string", "pattern": "^(a+)+$"}')
    async with asyncio.timeout(20):
        [told] = await decoder.decode("t1", "i1", {"j": evil}, [Field("j", b'"' + b"a" * 50_000 + b'!"')])
    assert told.problem == "it does not fit its JSON schema"


async def test_a_schema_that_takes_too_much_is_given_up(decoder: Decoder) -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"pattern": "(x{1,900}){1,900}"} for n in range(400)}}
    async with asyncio.timeout(60):
        assert await decoder.check("t1", "i1", SchemaText("json", json.dumps(wide))) is not None
    assert await decoder.check("t1", "i1", AVRO) is None


async def test_many_schemas_that_end_processes_are_given_up(decoder: Decoder) -> None:
    """A step ends in time, and the next one knows those that this one has tried."""
    wide = {"properties": {f"p{n}": {"pattern": rf"\w{{30}}{n}"} for n in range(60_000)}}
    bad = {f"b{n}": SchemaText("json", json.dumps(wide)) for n in range(decoders.DEATHS_MAX + 1)}
    fields = [*(Field(key, b"{}") for key in bad), Field("", b"{}")]
    too_much = decoders._NO_SCHEMA.format(decoders._SCHEMA_TAKES_TOO_MUCH)
    async with asyncio.timeout(60):
        told = await decoder.decode("t1", "i1", bad, fields)
        assert [one.problem for one in told] == [too_much] * 3 + [decoders._OTHERS_TAKE_TOO_MUCH] * 2
        told = await decoder.decode("t1", "i1", bad, fields)
    assert [one.problem for one in told] == [too_much] * 4 + [""]


async def test_processes_are_few_and_are_taken_in_turn(decoder: Decoder) -> None:
    await of_instances(decoder, decoders.PROCESSES_MAX + 3)
    assert 0 < len(running(decoder)) <= decoders.PROCESSES_MAX


async def test_processes_that_are_about_to_start_count(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, later = decoders._started, asyncio.Event()
    starts = itertools.count(1)

    async def started_by_turns() -> decoders._Process:
        """Half of the first are not there yet when the one after them is."""
        number = next(starts)
        if number > decoders.PROCESSES_MAX:
            later.set()
        elif number > decoders.PROCESSES_MAX // 2:
            await later.wait()
        return await started()

    monkeypatch.setattr(decoders, "_started", started_by_turns)
    async with asyncio.timeout(60):
        await of_instances(decoder, decoders.PROCESSES_MAX + 1)
    assert len(running(decoder)) == decoders.PROCESSES_MAX


async def of_instances(decoder: Decoder, count: int) -> None:
    field = Field("good", avro({"id": 1, "note": None, "paid": Decimal(1), "raw": b""}))
    decoding = (decoder.decode(f"t{n}", f"i{n}", {"good": AVRO}, [field]) for n in range(count))
    assert all(one[0].text is not None for one in await asyncio.gather(*decoding))


def running(decoder: Decoder) -> list[str]:
    return [name for name, seat in decoder._seats.items() if seat.process is not None]


async def test_who_gives_up_leaves_a_decoder_that_works(decoder: Decoder) -> None:
    field = Field("bad", zigzag_long(2**61) + b"\x00")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await decoder.decode("t1", "i1", {"bad": ENDLESS_AVRO}, [field])
    good = Field("good", avro({"id": 1, "note": None, "paid": Decimal(1), "raw": b""}))
    [told] = await decoder.decode("t1", "i1", {"good": AVRO}, [good])
    assert told.text is not None


def test_a_registrys_header_is_a_zero_and_four_bytes() -> None:
    assert schema_id_of(memoryview(b"\x00" + struct.pack(">I", 258) + b"x")) == 258
    assert schema_id_of(memoryview(b"\x00\x00\x00\x01")) is None
    assert schema_id_of(memoryview(b"{}abc")) is None
