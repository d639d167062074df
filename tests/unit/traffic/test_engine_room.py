"""A broker's room for one instance: in order, never more than it holds, nobody left behind."""

from hypothesis import given
from hypothesis import strategies as st

from traffic.engine_room import AT_ONCE_US, EngineRoom
from wire.api_table import ApiKey


def test_what_was_never_answered_takes_all_and_then_what_it_came_to() -> None:
    room = EngineRoom()
    assert room.cost_us(ApiKey.METADATA) == AT_ONCE_US
    room.answered(ApiKey.METADATA, 150)
    assert (room.cost_us(ApiKey.METADATA), room.cost_us(ApiKey.LIST_OFFSETS)) == (150, AT_ONCE_US)
    assert room.cost_us(ApiKey.JOIN_GROUP) == 0, "it may rest there as long as its group rebalances"


def test_one_that_is_larger_than_the_room_goes_alone() -> None:
    room, came = EngineRoom(), list[str]()
    assert room.enter(5 * AT_ONCE_US)
    assert not room.enter(1)
    room.wait(1, lambda: came.append("small"))
    room.leave(5 * AT_ONCE_US)
    assert came == ["small"] and room.under_way_us == 1


def test_who_gives_up_lets_those_behind_him_in() -> None:
    room, came = EngineRoom(), list[str]()
    assert room.enter(AT_ONCE_US - 10)
    large = room.wait(AT_ONCE_US, lambda: came.append("large"))
    room.wait(10, lambda: came.append("small"))
    assert not room.enter(1), "nobody passes those who wait"
    room.give_up(large)
    assert came == ["small"]


@given(st.lists(st.tuples(st.sampled_from(["ask", "answer", "give up"]), st.integers(1, AT_ONCE_US + 500))))
def test_the_room_is_never_exceeded_and_everybody_comes_in_order(steps: list[tuple[str, int]]) -> None:
    room = EngineRoom()
    under_way, waiting, came, expected = list[int](), list[object](), list[int](), list[int]()

    def comes(number: int, cost_us: int) -> None:
        came.append(number)
        under_way.append(cost_us)
        waiting.pop(0)

    entries = dict[int, object]()
    for number, (step, cost_us) in enumerate(steps):
        if step == "ask":
            if room.enter(cost_us):
                under_way.append(cost_us)
            else:
                waiting.append(number)
                expected.append(number)
                entries[number] = room.wait(cost_us, lambda n=number, c=cost_us: comes(n, c))  # type: ignore[misc]
        elif step == "answer" and under_way:
            room.leave(under_way.pop(0))
        elif step == "give up" and waiting:
            last = waiting.pop()
            expected.remove(last)  # type: ignore[arg-type]
            room.give_up(entries[last])  # type: ignore[arg-type, index]
        assert room.under_way_us == sum(under_way)
        assert room.under_way_us <= AT_ONCE_US or len(under_way) == 1
        assert under_way or not waiting, "an empty room keeps nobody waiting"
    while under_way:
        room.leave(under_way.pop(0))
    assert came == expected and not waiting


def test_room_that_came_before_somebody_waits_for_it_is_taken() -> None:
    """Nobody is left who would make room: whoever waits now would wait for ever, and all behind it."""
    room, came = EngineRoom(), []
    assert room.enter(AT_ONCE_US) and not room.enter(1)
    room.leave(AT_ONCE_US)
    room.wait(1, lambda: came.append(True))
    assert came and room.under_way_us == 1
    room.leave(1)
    assert room.enter(AT_ONCE_US)
