"""Values of records: what parses is what a reference says, and all else is a fault of its record alone."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.lake.decode import values
from pipeline.lake.decode.schema import RecordSchema, read_schema
from pipeline.lake.decode.values import DecodedBatch, Fault, decoder_of


def schema(fields: str, form: str = "json") -> RecordSchema:
    return read_schema(msgspec.json.encode({"version": 1, "format": form, "fields": fields}), "x")


def decode(fields: str, *given_values: bytes | None, form: str = "json") -> DecodedBatch:
    return decoder_of(schema(fields, form)).decode(given_values)


def rows(found: DecodedBatch) -> list[list[Any]]:
    return [list(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]


def classes(found: DecodedBatch) -> dict[int, str]:
    return {index: fault.error_class for index, fault in found.faults.items()}


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_RECORDS = st.dictionaries(st.sampled_from(["id", "name", "score", "ok", "tags", "more"]), _JSON, max_size=6)
_FIELDS = "id int NOT NULL, name string, score double, ok boolean, tags array<string>"


def reference(value: Any) -> list[Any] | None:
    """What a plain reading of the schema makes of a record; None for a fault."""
    if not isinstance(value, dict):
        return None
    checks = {
        "id": lambda each: type(each) is int and -(2**31) <= each < 2**31,
        "name": lambda each: each is None or isinstance(each, str),
        "score": lambda each: each is None or (type(each) in (int, float) and abs(each) < 2**1023),
        "ok": lambda each: each is None or isinstance(each, bool),
        "tags": lambda each: (
            each is None or (isinstance(each, list) and all(t is None or isinstance(t, str) for t in each))
        ),
    }
    row = [value.get(name) for name in checks]
    return row if all(check(each) for check, each in zip(checks.values(), row, strict=True)) else None


@settings(deadline=None)
@given(st.lists(_RECORDS | _JSON, max_size=5))
def test_json_is_decoded_as_a_reference_does(records: list[Any]) -> None:
    found = decode(_FIELDS, *(json.dumps(each).encode() for each in records))
    expected = [reference(each) for each in records]
    assert found.good == [index for index, row in enumerate(expected) if row is not None]
    assert rows(found) == [row for row in expected if row is not None]
    assert sorted([*found.good, *found.faults]) == list(range(len(records)))
    for index, strange in zip(found.good, found.unknown, strict=True):
        assert (strange or []) == [
            name for name in records[index] if name not in _FIELDS.replace(",", "").split()
        ]


@settings(deadline=None)
@given(
    st.lists(st.none() | st.binary(max_size=40), max_size=6),
    st.sampled_from(["json", "confluent-json", "csv"]),
)
@example([b'{"a":' * 100_000], "json")
@example([b'{"a":1,"b":' + b"[" * 100_000 + b"]" * 100_000 + b"}"], "json")
@example([b'{"s":"\\ud800"}', b'{"s":"\xff"}', b'{"\xff":1}'], "json")
def test_no_bytes_break_more_than_their_record(given_values: list[bytes | None], form: str) -> None:
    found = decode("a bigint, s string", *given_values, form=form)
    assert sorted([*found.good, *found.faults]) == list(range(len(given_values)))
    for column in found.columns:
        column.validate(full=True)
        assert len(column) == len(found.good)
    for fault in found.faults.values():
        fault.message.encode("utf-8", "replace")
        assert len(fault.message) <= 500


def test_faults_have_classes() -> None:
    found = decode(
        "id int NOT NULL, s struct<x: int NOT NULL>",
        None,
        b"",
        b"nope",
        b'{"id": 1} trailing',
        b"{}",
        b'{"id": null}',
        b'{"id": "1"}',
        b'{"id": 4294967296}',
        b'{"id": 1, "s": {}}',
        b"[]",
        b'{"id": 1}, {"id": 2}',
    )
    assert found.good == []
    assert list(classes(found).values()) == [
        *(values.NULL_VALUE, values.MALFORMED, values.MALFORMED, values.MALFORMED, values.MISSING_FIELD),
        *(values.WRONG_TYPE, values.WRONG_TYPE, values.OUT_OF_RANGE, values.MISSING_FIELD, values.WRONG_TYPE),
        values.MALFORMED,
    ]
    assert found.faults[6] == Fault("wrong_type", "Expected `int`, got `str` - at `$.id`")


def test_times_are_instants() -> None:
    found = decode(
        "t timestamp, d date",
        b'{"t": 1000, "d": "2026-02-28"}',
        b'{"t": "2026-01-01T00:00:00+02:00"}',
        b'{"t": "2026-01-01T00:00:00.000001"}',
        b'{"t": "0001-01-01T00:00:00+10:00"}',
        b'{"t": 253402300800000}',
        b'{"t": "yesterday"}',
        b'{"d": "2026-02-30"}',
        b'{"t": true}',
    )
    assert rows(found) == [
        [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), date(2026, 2, 28)],
        [datetime(2025, 12, 31, 22, tzinfo=UTC), None],
        [datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None],
    ]
    assert list(classes(found).values()) == [
        *(values.OUT_OF_RANGE, values.OUT_OF_RANGE, values.WRONG_TYPE, values.WRONG_TYPE, values.WRONG_TYPE)
    ]


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=None).map(lambda each: each.normalize()))
@example(Decimal("1E+400"))
@example(Decimal("-0"))
@example(Decimal("99.99"))
@example(Decimal("9.999"))
def test_decimals_are_exact_or_refused(number: Decimal) -> None:
    found = decode("d decimal(4,2)", json.dumps({"d": str(number)}).encode())
    fits = abs(number) < 100 and number == round(number, 2)
    assert bool(found.good) == fits
    if fits:
        assert rows(found) == [[number]]


def test_what_is_no_number_is_no_decimal() -> None:
    found = decode("d decimal(4,2)", b'{"d": "NaN"}', b'{"d": "-Infinity"}')
    assert list(classes(found).values()) == [values.OUT_OF_RANGE, values.OUT_OF_RANGE]


def test_structures_keep_their_nulls() -> None:
    found = decode(
        "a array<struct<x: int, t: array<timestamp>>>, m map<string, decimal(3,1)>, b binary",
        b'{"a": [null, {}, {"x": 1, "t": [0, null]}], "m": {"k": null, "l": 1.5}, "b": "AAE="}',
        b'{"a": [], "m": {}}',
        b"{}",
    )
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    assert rows(found) == [
        [
            [None, {"x": None, "t": None}, {"x": 1, "t": [zero, None]}],
            [("k", None), ("l", Decimal("1.5"))],
            b"\x00\x01",
        ],
        [[], [], None],
        [None, None, None],
    ]


def test_unknown_fields_are_told_by_their_paths() -> None:
    found = decode("a int, s struct<x: int>", b'{"a": 1, "b": 2, "s": {"x": 1, "y": {"z": 1}}}', b'{"a": 1}')
    assert found.unknown == [["b", "s.y"], None]
    many = json.dumps({f"f{n}": n for n in range(1000)}).encode()
    assert len(decode("a int", many).unknown[0] or []) == 20


def test_other_formats() -> None:
    framed = decode(
        "a int", b"\x00\x00\x00\x00\x07" + b'{"a": 5}', b'{"a": 5}', b"\x00\x00", form="confluent-json"
    )
    assert rows(framed) == [[5]] and classes(framed) == {1: values.BAD_FRAMING, 2: values.BAD_FRAMING}
    lines = decode(
        "a int NOT NULL, s string, d decimal(5,2), ok boolean",
        b'1,"x, y",1.50,true',
        b"2,,,",
        b",x,,",
        b"1,2",
        b"1,,,\n2,,,",
        b'1,"x',
        b"x,,,",
        form="csv",
    )
    assert rows(lines) == [[1, "x, y", Decimal("1.50"), True], [2, None, None, None]]
    assert list(classes(lines).values()) == [
        *(values.MISSING_FIELD, values.WRONG_COLUMNS, values.MALFORMED, values.MALFORMED, values.WRONG_TYPE)
    ]
    text = decode("line string", b"any", b"\xff", form="text")
    assert rows(text) == [["any"]] and classes(text) == {1: values.MALFORMED}


@pytest.mark.parametrize(
    ("value", "fits"), [(b"127", True), (b"128", False), (b"-128", True), (b"-129", False)]
)
def test_integers_have_their_width(value: bytes, fits: bool) -> None:
    assert bool(decode("a tinyint", b'{"a": ' + value + b"}").good) == fits
