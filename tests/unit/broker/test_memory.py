"""Receive buffers: the budget holds, everyone gets a turn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.net.rules.memory import SMALL_BYTES, Lack, ReceiveMemory, capacity_for

MIB = 1024 * 1024


def test_capacities() -> None:
    assert capacity_for(0) == 4096
    assert capacity_for(4097) == 8192
    assert capacity_for(2 * MIB) == 2 * MIB
    assert capacity_for(2 * MIB + 1) == 3 * MIB


def test_growing_keeps_what_was_received() -> None:
    memory = ReceiveMemory(8 * MIB)
    buffer = memory.take(5, "")
    buffer[:5] = b"hello"
    larger = memory.grow(buffer, 5, 100_000, "a", "")
    assert isinstance(larger, bytearray)
    assert bytes(larger[:5]) == b"hello"
    assert memory.used_bytes == len(larger)
    memory.give_back(larger, "a", "")
    assert memory.used_bytes == 0


def test_a_peer_holds_memory_for_what_it_sent() -> None:
    memory = ReceiveMemory(256 * MIB)
    assert len(memory.take(10, "", 0)) == 4096
    assert len(memory.take(10, "", 1_000_000)) == MIB, "one that is known to send large frames starts there"
    assert len(memory.take(10, "", 100 * MIB)) <= 2 * MIB


def test_small_buffers_have_a_reserve() -> None:
    memory = ReceiveMemory(8 * MIB)
    large = memory.take(8 * MIB, "")
    small = memory.take(10, "")
    assert isinstance(memory.grow(small, 10, SMALL_BYTES, "a", ""), bytearray)
    assert not memory.is_exhausted("")
    another = memory.take(2 * MIB, "")
    assert memory.is_exhausted("")
    memory.give_back(another, "x", "")
    memory.give_back(large, "y", "")
    assert not memory.is_exhausted("")


def test_one_of_those_that_wait_may_overdraw() -> None:
    memory = ReceiveMemory(4 * MIB)
    resumed: list[str] = []
    first, second = memory.take(2 * MIB, ""), memory.take(2 * MIB, "")
    assert memory.grow(first, 2 * MIB, 3 * MIB, "first", "") is Lack.BUDGET
    memory.wait("first", lambda: resumed.append("first"), Lack.BUDGET, "", holds_memory=True)
    assert memory.grow(second, 2 * MIB, 3 * MIB, "second", "") is Lack.BUDGET
    memory.wait("second", lambda: resumed.append("second"), Lack.BUDGET, "", holds_memory=True)
    assert resumed == ["first"]
    larger = memory.grow(first, 2 * MIB, 3 * MIB, "first", "")
    assert isinstance(larger, bytearray), "else both would wait for ever"
    memory.give_back(larger, "first", "")
    assert resumed == ["first", "second"]
    assert isinstance(memory.grow(second, 2 * MIB, 3 * MIB, "second", ""), bytearray)


def test_one_that_leaves_gives_its_turn_on() -> None:
    memory = ReceiveMemory(MIB)
    resumed: list[str] = []
    memory.wait("gone", lambda: resumed.append("gone"), Lack.BUDGET, "", holds_memory=True)
    memory.wait("next", lambda: resumed.append("next"), Lack.BUDGET, "", holds_memory=True)
    memory.forget("gone", "")
    assert resumed == ["gone", "next"]
    memory.forget("next", "")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 5 * MIB), st.booleans()), max_size=30))
def test_used_is_the_sum_of_what_is_out(steps: list[tuple[int, bool]]) -> None:
    memory = ReceiveMemory(16 * MIB)
    out: list[bytearray] = []
    for size, gives_back in steps:
        if gives_back and out:
            memory.give_back(out.pop(), object(), "")
        else:
            out.append(memory.take(size, ""))
            assert len(out[-1]) >= size
        assert memory.used_bytes == sum(map(len, out))


def test_an_instance_has_a_share() -> None:
    memory = ReceiveMemory(16 * MIB, 4 * MIB)
    resumed: list[str] = []
    first, second = memory.take(2 * MIB, "greedy"), memory.take(2 * MIB, "greedy")
    assert memory.is_short("greedy") and not memory.is_short("polite") and not memory.is_short("")
    assert memory.grow(first, 2 * MIB, 3 * MIB, "first", "greedy") is Lack.SHARE
    memory.wait("first", lambda: resumed.append("first"), Lack.SHARE, "greedy", holds_memory=True)
    assert memory.grow(second, 2 * MIB, 3 * MIB, "second", "greedy") is Lack.SHARE
    memory.wait("second", lambda: resumed.append("second"), Lack.SHARE, "greedy", holds_memory=True)
    assert resumed == ["first"], "one goes beyond, else both would wait for ever"
    assert not memory.waits_for_budget, "nobody else holds too much"
    polite = memory.take(2 * MIB, "polite")
    assert isinstance(memory.grow(polite, 2 * MIB, 4 * MIB, "polite", "polite"), bytearray)
    larger = memory.grow(first, 2 * MIB, 3 * MIB, "first", "greedy")
    assert isinstance(larger, bytearray)
    assert memory.held_by("greedy") == 5 * MIB
    memory.give_back(larger, "first", "greedy")
    assert resumed == ["first", "second"]
    assert isinstance(memory.grow(second, 2 * MIB, 3 * MIB, "second", "greedy"), bytearray)


def test_small_buffers_of_an_instance_end_too() -> None:
    memory = ReceiveMemory(16 * MIB, 4 * MIB)
    while not memory.is_exhausted("greedy"):
        memory.take(SMALL_BYTES, "greedy")
    assert memory.held_by("greedy") == 6 * MIB, "its share and an eighth of the budget"
    assert memory.lack is Lack.SHARE
    assert not memory.is_exhausted("polite") and not memory.is_exhausted("")


def test_who_holds_most_is_known() -> None:
    memory = ReceiveMemory(16 * MIB, 6 * MIB)
    memory.take(5 * MIB, "")
    assert memory.largest_share is None, "what is the deployment's own is not given up"
    memory.take(2 * MIB, "a")
    buffer = memory.take(3 * MIB, "b")
    assert memory.largest_share == "b"
    memory.wait("c", lambda: None, Lack.BUDGET, "c", holds_memory=False)
    assert memory.waits_for_budget
    memory.move(buffer, "b", "d")
    assert (memory.held_by("b"), memory.largest_share) == (0, "d")
    memory.give_back(buffer, "x", "d")
    assert memory.largest_share == "a" and not memory.waits_for_budget
