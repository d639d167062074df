"""The consumer protocol's assignment, and bytes that are none."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tenants.backend.assignment import assigned_partitions


def _encode(topics: dict[str, list[int]], tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    out = struct.pack(">hi", 0, len(topics))
    for name, partitions in topics.items():
        raw = name.encode()
        out += struct.pack(">h", len(raw)) + raw + struct.pack(">i", len(partitions))
        out += b"".join(struct.pack(">i", each) for each in partitions)
    return out + tail


@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 99)), max_size=4))
def test_what_a_member_was_assigned(topics: dict[str, list[int]]) -> None:
    expected = {name: sorted(partitions) for name, partitions in topics.items()}
    assert assigned_partitions("iabcdefghijk", _encode(topics)) == expected


def test_a_scoped_name_loses_its_scope() -> None:
    assert assigned_partitions("iabcdefghijk", _encode({"iabcdefghijk.t": [1]})) == {"t": [1]}


@given(st.binary(max_size=60))
def test_any_bytes_are_survived(data: bytes) -> None:
    assigned_partitions("iabcdefghijk", data)


def test_bytes_cut_short_are_no_assignment() -> None:
    whole = _encode({"topic": [1, 2, 3]}, b"")
    assert all(assigned_partitions("i", whole[:size]) == {} for size in range(6, len(whole)))
