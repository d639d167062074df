"""Deadlines by key."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordination.timers import Timers
from broker.groups.timer_key import TimerKey


def _key(name: str) -> TimerKey:
    return TimerKey("session", "g", name)


def test_the_earliest_comes_first_and_only_once() -> None:
    timers = Timers[TimerKey]()
    timers.set(_key("b"), 20)
    timers.set(_key("a"), 10)
    assert timers.next_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(30) == _key("a")
    assert timers.pop_due(30) == _key("b")
    assert timers.pop_due(30) is None
    assert timers.next_ms() is None


def test_moving_later_and_earlier() -> None:
    timers = Timers[TimerKey]()
    timers.set(_key("a"), 10)
    timers.set(_key("a"), 50)
    assert timers.pop_due(49) is None
    timers.set(_key("a"), 20)
    assert timers.next_ms() == 20
    assert timers.pop_due(20) == _key("a")
    assert timers.pop_due(100) is None


def test_cancelled_ones_never_come() -> None:
    timers = Timers[TimerKey]()
    timers.set(_key("a"), 10)
    timers.cancel(_key("a"))
    timers.cancel(_key("never"))
    assert timers.next_ms() is None
    timers.set(_key("a"), 5)
    assert timers.pop_due(5) == _key("a")


_steps = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "pop"]), st.sampled_from("abc"), st.integers(0, 30)),
    max_size=40,
)


@given(_steps)
@settings(max_examples=200)
def test_timers_agree_with_a_dictionary(steps: list[tuple[str, str, int]]) -> None:
    timers, model = Timers[TimerKey](), dict[TimerKey, int]()
    for action, name, at_ms in steps:
        if action == "set":
            timers.set(_key(name), at_ms)
            model[_key(name)] = at_ms
        elif action == "cancel":
            timers.cancel(_key(name))
            model.pop(_key(name), None)
        else:
            popped = timers.pop_due(at_ms)
            due = {key: deadline_ms for key, deadline_ms in model.items() if deadline_ms <= at_ms}
            if popped is None:
                assert not due
            else:
                assert due[popped] == min(due.values())
                del model[popped]
        assert len(timers) == len(model)
        assert timers.next_ms() == min(model.values(), default=None)


def test_ten_thousand_heartbeats_do_not_fill_the_heap() -> None:
    timers = Timers[TimerKey]()
    for at_ms in range(10_000):
        timers.set(_key("a"), at_ms + 1000)
    assert len(timers._heap) == 1
