"""Which messages are wanted, how their bytes are shown, and what a filter may not ask."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.rules.message_filter import WALKED_BYTES_MAX, BadExpression, Filter, JsonCondition
from tenants.rules.message_scan import Piece
from tenants.rules.message_text import Encoding, Text, text_of
from wire.record_views import RecordView

VALUE = json.dumps({"a": {"b": [1, 2, {"c": 5}]}, "kind": "x", "n": 17}).encode()


def record(value: bytes | None = VALUE, key: bytes | None = b"k", **headers: bytes | None) -> RecordView:
    return RecordView(
        offset=0,
        timestamp_ms=0,
        key=None if key is None else memoryview(key),
        value=None if value is None else memoryview(value),
        headers=tuple(
            (memoryview(name.encode()), None if one is None else memoryview(one))
            for name, one in headers.items()
        ),
        header_count=len(headers),
        size_bytes=0,
    )


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("$.a.b[2].c", True),
        ("$.missing", False),
        ("$", True),
        ("$..c", True),
        ("@.n > 16", True),
        ("@.n > 17", False),
        ('@.kind == "x" && @.a', True),
        ('@["n"] == 17 || @.nothing', True),
        ("count(@.a.*) == 1 && length(@.kind) == 1", True),
        ("@ == 3", False),
    ],
)
def test_json(expression: str, *, holds: bool) -> None:
    assert JsonCondition(expression).holds(memoryview(VALUE)) is holds


@pytest.mark.parametrize(
    "expression",
    [
        "",
        " ",
        "$.a\n",
        "$..a..b",
        "@..a && @..b",
        " || ".join(["count(@..*) < 1"] * 2),
        "@..a.b.c.d.e.f",
        "count(@.*) < 1 || count(@[1:]) < 1 || @.a.*.*.*",
        "@[1,2]",
        "@[?@.a]",
        "@.n == $.n",
        'match(@.kind, "(a+)+$")',
        'search(@.kind, "a")',
        "@.a =~ /x/",
        "@.a], $[?@.b",
        "@.a, ?@.b",
        "$.a | $.b",
        "@.n == 1e999",
        "true",
        " && ".join(["@.a"] * 9),
        "$" + ".a" * 200,
    ],
)
def test_what_may_not_be_asked(expression: str) -> None:
    with pytest.raises(BadExpression):
        JsonCondition(expression)


@given(st.text(alphabet="@$.[]()'\"?*!&|=<>,:abn019e-+ \n\x00ü", max_size=40))
def test_any_expression_is_refused_or_answers(expression: str) -> None:
    try:
        condition = JsonCondition(expression)
    except BadExpression:
        return
    assert condition.holds(memoryview(VALUE)) in (True, False)


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"[" * 100_000, b"[" * 900 + b"]" * 900, b"1" * 300_000, b'"[1]"']
)
def test_values_that_are_no_json_or_too_deep_match_nothing(value: bytes) -> None:
    assert not JsonCondition("$..a").holds(memoryview(value))
    assert not JsonCondition("@..a").holds(memoryview(value))


@pytest.mark.parametrize("expression", ["$..a", "$[*]", "@[0:]", "count(@..*) > 1"])
def test_large_values_are_not_walked_over(expression: str) -> None:
    """13 ms of CPU time for each 16 KiB: a value of 256 KiB, a hundred times in a topic, is seconds."""
    value = json.dumps([{"a": 0}] * 1000).encode()
    assert JsonCondition(expression).holds(memoryview(value))
    large = value + b" " * WALKED_BYTES_MAX
    assert not JsonCondition(expression).holds(memoryview(large))
    assert JsonCondition("$[0].a").holds(memoryview(large))


def test_text_key_and_headers() -> None:
    one = record(key=b"order-17", source=b"web", empty=None)
    assert Filter(text=b"kind").holds(one) and Filter(text=b"der-1").holds(one)
    assert not Filter(text=b"order-18").holds(one)
    assert Filter(key=b"order-17").holds(one) and not Filter(key=b"order").holds(one)
    assert Filter(header=(b"source", None)).holds(one) and Filter(header=(b"source", b"web")).holds(one)
    assert Filter(header=(b"empty", None)).holds(one) and not Filter(header=(b"empty", b"")).holds(one)
    both = Filter(text=b"kind", key=b"order-17", header=(b"source", b"app"))
    assert not both.holds(one)
    nothing = record(value=None, key=None)
    assert Filter().holds(nothing) and not Filter(key=b"").holds(nothing)
    assert not Filter(condition=JsonCondition("$")).holds(nothing)


@pytest.mark.parametrize(
    ("data", "size_bytes", "shown"),
    [
        (b'{"a": 1}', 8, ("json", '{"a": 1}')),
        (b'{"a": 1', 7, ("text", '{"a": 1')),
        (b'{"a": 1', 8, ("text", '{"a": 1')),
        (b"17", 2, ("text", "17")),
        ("ü".encode(), 2, ("text", "ü")),
        ("aü".encode()[:2], 3, ("text", "a")),
        ("aü".encode()[:2], 2, ("hex", "61c3")),
        (b"\x00a", 2, ("hex", "0061")),
        (b"\xff\xfe", 2, ("hex", "fffe")),
        ("\x9b31m".encode(), 5, ("hex", "c29b33316d")),
        (b"", 0, ("text", "")),
        (b"[" * 5000, 5000, ("text", "[" * 5000)),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes, size_bytes: int, shown: tuple[str, str]) -> None:
    told = text_of(Piece(data, size_bytes), Encoding.AUTO)
    assert (told.shown, told.text) == shown


def test_bytes_are_shown_as_asked() -> None:
    piece = Piece(b"{\xff", 2)
    assert text_of(piece, Encoding.HEX) == Text("hex", "7bff")  # type: ignore[arg-type]
    assert text_of(piece, Encoding.TEXT).text == "{\ufffd"
