"""Receive buffers: the budget holds, everyone gets a turn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.memory import SMALL_BYTES, ReceiveMemory, capacity_for

MIB = 1024 * 1024


def test_capacities() -> None:
    assert capacity_for(0) == 4096
    assert capacity_for(4097) == 8192
    assert capacity_for(2 * MIB) == 2 * MIB
    assert capacity_for(2 * MIB + 1) == 3 * MIB


def test_growing_keeps_what_was_received() -> None:
    memory = ReceiveMemory(8 * MIB)
    buffer = memory.take(5)
    buffer[:5] = b"hello"
    larger = memory.grow(buffer, 5, 100_000, "a")
    assert larger is not None
    assert bytes(larger[:5]) == b"hello"
    assert memory.used_bytes == len(larger)
    memory.give_back(larger, "a")
    assert memory.used_bytes == 0


def test_a_peer_holds_memory_for_what_it_sent() -> None:
    memory = ReceiveMemory(256 * MIB)
    assert len(memory.take(10, 0)) == 4096
    assert len(memory.take(10, 1_000_000)) == MIB, "one that is known to send large frames starts there"
    assert len(memory.take(10, 100 * MIB)) <= 2 * MIB


def test_small_buffers_have_a_reserve() -> None:
    memory = ReceiveMemory(8 * MIB)
    large = memory.take(8 * MIB)
    small = memory.take(10)
    assert memory.grow(small, 10, SMALL_BYTES, "a") is not None
    assert not memory.is_exhausted
    another = memory.take(2 * MIB)
    assert memory.is_exhausted
    memory.give_back(another, "x")
    memory.give_back(large, "y")
    assert not memory.is_exhausted


def test_one_of_those_that_wait_may_overdraw() -> None:
    memory = ReceiveMemory(4 * MIB)
    resumed: list[str] = []
    first, second = memory.take(2 * MIB), memory.take(2 * MIB)
    assert memory.grow(first, 2 * MIB, 3 * MIB, "first") is None
    memory.wait("first", lambda: resumed.append("first"), holds_memory=True)
    assert memory.grow(second, 2 * MIB, 3 * MIB, "second") is None
    memory.wait("second", lambda: resumed.append("second"), holds_memory=True)
    assert resumed == ["first"]
    larger = memory.grow(first, 2 * MIB, 3 * MIB, "first")
    assert larger is not None, "else both would wait for ever"
    memory.give_back(larger, "first")
    assert resumed == ["first", "second"]
    assert memory.grow(second, 2 * MIB, 3 * MIB, "second") is not None


def test_one_that_leaves_gives_its_turn_on() -> None:
    memory = ReceiveMemory(MIB)
    resumed: list[str] = []
    memory.wait("gone", lambda: resumed.append("gone"), holds_memory=True)
    memory.wait("next", lambda: resumed.append("next"), holds_memory=True)
    memory.forget("gone")
    assert resumed == ["gone", "next"]
    memory.forget("next")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 5 * MIB), st.booleans()), max_size=30))
def test_used_is_the_sum_of_what_is_out(steps: list[tuple[int, bool]]) -> None:
    memory = ReceiveMemory(16 * MIB)
    out: list[bytearray] = []
    for size, gives_back in steps:
        if gives_back and out:
            memory.give_back(out.pop(), object())
        else:
            out.append(memory.take(size))
            assert len(out[-1]) >= size
        assert memory.used_bytes == sum(map(len, out))
