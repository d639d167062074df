"""The small pieces of mapping: scopes, error texts, patterns, subscriptions, frame sizes."""

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.messages import FOREIGN, OWN
from wire.edits import frame_size
from wire.faults import FrameTooLarge, MalformedFrame, NegativeFrameSize, NotMappable
from wire.patterns import physical_pattern, tenant_pattern
from wire.subscription import physical_subscription, tenant_subscription
from wire.texts import NEUTRAL, tenant_text


@given(name=st.text(max_size=50))
def test_names_go_up_and_down(name: str) -> None:
    assert OWN.tenant(OWN.physical(name)) == name
    assert FOREIGN.tenant(OWN.physical(name)) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", ""),
        ("plain", "plain"),
        ("Topic 'iabcdefghijk.orders' already exists.", "Topic 'orders' already exists."),
        ("instance iabcdefghijk is full", "instance iabcdefghijk is full"),
        ("Topic 'izyxwvutsrqp.orders' exists", NEUTRAL),
        ("iabcdefghijk.a and izyxwvutsrqp.b", NEUTRAL),
        ("topic i00000000000.usage", NEUTRAL),
        ("iabcdefghijk.izyxwvutsrqp.x", NEUTRAL),
    ],
)
def test_error_texts(text: str, seen: str) -> None:
    assert tenant_text(text, OWN) == seen


ANCHORED = ["orders", "a.*|b", "(a|b)+", r"a\.b", "[a-z]{2,3}", ".*", "^orders$", "^a.*$|^b$"]
ANCHORED += [r"[^$|(]+", "[]^$]|zz"]


@pytest.mark.parametrize("pattern", ANCHORED)
def test_patterns_are_anchored(pattern: str) -> None:
    up = physical_pattern(pattern, OWN)
    assert physical_pattern(tenant_pattern(up, OWN), OWN) == up
    for text in ("orders", "ab", "b", "a.b", "zz"):
        assert bool(re.fullmatch(up, OWN.prefix + text)) == bool(re.fullmatch(pattern, text))
        assert re.fullmatch(up, FOREIGN.prefix + text) is None
        assert re.fullmatch(up, text) is None


ESCAPING = [")|(.*", "a)|.*(b", "(", "(?i)a", "(?x)#", r"\Qa\E", r"a\1", "[", "(?P<n>a)"]
ESCAPING += ["a" * 2_001, "(a{900}){900}", "a||)(|b", "[[:alpha:](]|a)|(.*[[:alpha:])]"]
"""The last one is whole to Python, which ends the class at the first bracket, and closes our group to RE2."""


@pytest.mark.parametrize("pattern", ESCAPING)
def test_patterns_that_might_escape_are_refused(pattern: str) -> None:
    with pytest.raises(NotMappable):
        physical_pattern(pattern, OWN)


def test_an_empty_pattern_stays_empty() -> None:
    assert physical_pattern("", OWN) == ""


Owned = list[tuple[str, list[int]]]


def test_a_pattern_that_is_not_ours_is_hidden() -> None:
    assert tenant_pattern(physical_pattern("a", FOREIGN), OWN) == ""


def subscription(version: int, topics: list[str], owned: Owned, user_data: bytes | None) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack(">h", len(value.encode())) + value.encode()

    out = struct.pack(">hi", version, len(topics)) + b"".join(map(text, topics))
    out += struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    if version >= 1:
        out += struct.pack(">i", len(owned))
        for topic, partitions in owned:
            out += text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    if version >= 2:
        out += struct.pack(">i", 7)
    if version >= 3:
        out += text("rack")
    return out + (b"later" if version > 3 else b"")


NAMES = st.text("ab.é", max_size=4)


@given(
    version=st.integers(0, 5),
    topics=st.lists(NAMES, max_size=4),
    owned=st.lists(st.tuples(NAMES, st.lists(st.integers(0, 9), max_size=3)), max_size=3),
    user_data=st.none() | st.binary(max_size=9),
)
def test_subscriptions(version: int, topics: list[str], owned: Owned, user_data: bytes | None) -> None:
    plain = subscription(version, topics, owned, user_data)
    up = physical_subscription(plain, OWN)
    assert up == subscription(
        version,
        [OWN.prefix + topic for topic in topics],
        [(OWN.prefix + topic, partitions) for topic, partitions in owned],
        user_data,
    )
    assert tenant_subscription(up, OWN) == plain
    if topics:
        assert tenant_subscription(up, FOREIGN) == up


@given(data=st.binary(max_size=40))
def test_bytes_that_are_no_subscription_pass(data: bytes) -> None:
    up = physical_subscription(data, OWN)
    assert up == data or tenant_subscription(up, OWN) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, 9) + b"short",
        subscription(1, ["a"], [("a", [1])], None)[:-1],
    ],
)
def test_broken_subscriptions_pass_unchanged(data: bytes) -> None:
    assert physical_subscription(data, OWN) == data


def test_frame_sizes() -> None:
    def size(value: int) -> int:
        return frame_size(struct.pack(">xi", value), 1, bytes_min=10, bytes_max=100)

    assert (size(10), size(100)) == (10, 100)
    with pytest.raises(NegativeFrameSize):
        size(-1)
    with pytest.raises(FrameTooLarge):
        size(101)
    with pytest.raises(MalformedFrame):
        size(9)
