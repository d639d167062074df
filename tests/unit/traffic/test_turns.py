"""Deficit round robin by time: who waits for whom, and for how long at most."""

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.turns import Hold, Step, Turn, Turns

Q = 1_000


class Loop:
    """A loop in which time is what steps cost."""

    def __init__(self) -> None:
        self.turns = Turns(Q)
        self.ran: list[str] = []
        self.longest = 0
        self.spent: Counter[str] = Counter()

    def step(self, turn: Turn, cost: int, then: Callable[[], None] | None = None) -> Step:
        def run() -> None:
            self.ran.append(turn.name)
            self.longest = max(self.longest, cost)
            turn.spent(cost)
            self.spent[turn.name] += cost
            if then is not None:
                then()

        return run

    def backlog(self, turn: Turn, costs: list[int]) -> None:
        """As many steps as costs, each again and again: connections that are always ready."""
        for cost in costs:
            self.turns.wait(turn, self.again(turn, cost), begins=True)

    def again(self, turn: Turn, cost: int) -> Step:
        def requeue() -> None:
            self.turns.wait(turn, self.again(turn, cost), begins=True)

        return self.step(turn, cost, requeue)

    def pump(self) -> Turn | None:
        """One turn, as between two looks at the sockets."""
        turn = self.turns.next()
        if turn is not None:
            while (step := self.turns.take(turn)) is not None:
                step()
        return turn


def test_a_first_step_need_not_wait() -> None:
    loop = Loop()
    turn = loop.turns.join("a")
    assert turn.may_begin and turn.may_go_on
    assert not loop.turns.is_backlogged


def test_who_has_used_up_its_quantum_waits_but_only_until_nobody_else_does() -> None:
    loop = Loop()
    alone = loop.turns.join("alone")
    alone.spent(Q)
    assert not alone.may_begin and not loop.turns.refreshed(alone).may_begin
    loop.turns.wait(alone, loop.step(alone, 1), begins=True)
    assert loop.pump() is alone
    assert loop.ran == ["alone"]
    assert alone.may_begin and not loop.turns.is_backlogged


def test_a_step_of_many_quanta_is_paid_back_before_the_next() -> None:
    loop = Loop()
    a, b = loop.turns.join("a"), loop.turns.join("b")
    a.spent(5 * Q)
    b.spent(Q)
    loop.backlog(a, [Q])
    loop.backlog(b, [Q])
    for _ in range(6):
        loop.pump()
    assert loop.ran == ["b", "b", "b", "b", "a", "b"]


def test_who_is_alone_pays_back_at_once() -> None:
    loop = Loop()
    a = loop.turns.join("a")
    a.spent(50 * Q)
    loop.turns.wait(a, loop.step(a, 1), begins=True)
    assert loop.pump() is a
    assert loop.ran == ["a"]


def test_rounds_of_others_bring_a_quantum_to_who_runs_unqueued() -> None:
    loop = Loop()
    greedy, polite = loop.turns.join("greedy"), loop.turns.join("polite")
    polite.spent(Q)
    assert not loop.turns.refreshed(polite).may_go_on
    loop.backlog(greedy, [Q])
    loop.pump()
    assert loop.turns.refreshed(polite).may_go_on
    for _ in range(100):
        loop.pump()
    assert loop.turns.refreshed(polite).left_ns == Q, "nothing is saved up"


def test_what_was_begun_goes_on_before_something_new_begins() -> None:
    loop = Loop()
    turn = loop.turns.join("a")
    turn.spent(Q)
    order: list[str] = []
    loop.turns.wait(turn, lambda: order.append("begin"), begins=True)
    loop.turns.wait(turn, lambda: order.append("go on"), begins=False)
    loop.pump()
    assert order == ["go on", "begin"]


def test_a_hold_keeps_back_beginnings_first() -> None:
    loop = Loop()
    turn = loop.turns.join("a")
    loop.turns.hold(turn, Hold.BEGINNINGS)
    assert not turn.may_begin and turn.may_go_on
    loop.turns.wait(turn, loop.step(turn, 1), begins=True)
    assert not loop.turns.is_backlogged
    loop.turns.hold(turn, Hold.ALL)
    assert not turn.may_go_on
    loop.turns.wait(turn, loop.step(turn, 1), begins=False)
    assert not loop.turns.is_backlogged and loop.pump() is None
    loop.turns.hold(turn, Hold.BEGINNINGS)
    loop.pump()
    assert loop.ran == ["a"] and turn.waiting == 1
    assert turn.may_go_on and not turn.may_begin
    loop.turns.hold(turn, Hold.NONE)
    loop.pump()
    assert loop.ran == ["a", "a"] and turn.may_begin


def test_a_hold_in_the_middle_of_a_turn_ends_it() -> None:
    loop = Loop()
    turn = loop.turns.join("a")
    loop.turns.wait(turn, lambda: loop.turns.hold(turn, Hold.ALL), begins=False)
    loop.turns.wait(turn, loop.step(turn, 1), begins=False)
    loop.pump()
    assert loop.ran == [] and turn.waiting == 1 and not loop.turns.is_backlogged
    loop.turns.hold(turn, Hold.NONE)
    assert loop.turns.is_backlogged


def test_nobody_overtakes_steps_of_its_own_instance() -> None:
    loop = Loop()
    turn = loop.turns.join("a")
    turn.spent(Q)
    loop.turns.wait(turn, loop.step(turn, 1), begins=True)
    assert not loop.turns.refreshed(turn).may_begin


def test_weights() -> None:
    loop = Loop()
    one, three = loop.turns.join("one"), loop.turns.join("three", weight=3)
    loop.backlog(one, [100, 100])
    loop.backlog(three, [100])
    for _ in range(100):
        loop.pump()
    assert abs(loop.spent["three"] - 3 * loop.spent["one"]) <= 3 * Q + 100


def test_quanta_are_long_while_nobody_else_is_about() -> None:
    turns = Turns(Q, 8 * Q)
    a, b = turns.join("a"), turns.join("b")
    assert a.left_ns == Q, "who comes knows nobody yet"
    turns.meet(1)
    a.spent(Q)
    turns.next()
    assert turns.refreshed(a).left_ns == 8 * Q
    turns.meet(2)
    b.spent(Q)
    turns.next()
    assert turns.refreshed(b).left_ns == turns.refreshed(a).left_ns == Q
    assert a.unbilled_ns == Q, "what is taken back was not spent"
    turns.meet(0)
    turns.next()
    assert turns.refreshed(a).left_ns == 8 * Q


def test_what_waits_goes_with_its_instance() -> None:
    loop = Loop()
    a, b = loop.turns.join("a"), loop.turns.join("b")
    loop.backlog(a, [10, 10])
    loop.backlog(b, [10])
    loop.turns.leave(a)
    loop.turns.leave(a)
    loop.pump()
    assert set(loop.ran) == {"b"} and a.waiting == 0


costs = st.lists(st.integers(Q // 20, 5 * Q), min_size=1, max_size=8)


@settings(max_examples=300, deadline=None)
@given(costs, costs, st.integers(2, 200))
def test_backlogged_instances_are_served_alike(first: list[int], second: list[int], turns: int) -> None:
    loop = Loop()
    a, b = loop.turns.join("a"), loop.turns.join("b")
    loop.backlog(a, first)
    loop.backlog(b, second)
    for _ in range(turns):
        loop.pump()
        assert abs(loop.spent["a"] - loop.spent["b"]) <= Q + max(first + second)


@settings(max_examples=200, deadline=None)
@given(st.lists(costs, min_size=1, max_size=6), st.integers(1, 30), st.lists(st.integers(0, 40), max_size=10))
def test_a_polite_instance_waits_for_one_turn_of_each_other_at_most(
    greedy: list[list[int]], connections: int, pauses: list[int]
) -> None:
    """However many connections the others have: what runs before it is Q + L of each, by counted cost."""
    loop = Loop()
    others = [loop.turns.join(f"greedy {number}") for number in range(len(greedy))]
    polite = loop.turns.join("polite")
    for turn, each in zip(others, greedy, strict=True):
        loop.backlog(turn, each * connections)
    longest = max(cost for each in greedy for cost in each)
    for pause in pauses:
        for _ in range(pause):
            loop.pump()
        before = sum(loop.spent[turn.name] for turn in others)
        if not loop.turns.refreshed(polite).may_begin:
            loop.turns.wait(polite, loop.step(polite, Q // 2), begins=True)
            while polite.waiting:
                loop.pump()
        else:
            loop.step(polite, Q // 2)()
        waited = sum(loop.spent[turn.name] for turn in others) - before
        assert waited <= len(others) * (Q + longest)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 3 * Q)), max_size=80))
def test_what_is_kept_is_bounded_and_nobody_is_forgotten(moves: list[tuple[int, int, int]]) -> None:
    loop = Loop()
    parties = [loop.turns.join(str(number)) for number in range(4)]
    for who, move, cost in moves:
        turn = parties[who]
        if move == 0 and loop.turns.refreshed(turn).may_begin:
            loop.step(turn, cost)()
        elif move == 1:
            loop.turns.wait(turn, loop.step(turn, cost), begins=True)
        elif move == 2:
            loop.turns.wait(turn, loop.step(turn, cost), begins=False)
        elif move == 3:
            loop.pump()
        elif move == 4:
            loop.turns.hold(turn, Hold(cost % 3))
        for each in parties:
            assert -3 * Q < each.left_ns <= Q
            assert each.in_ring or not each.has_eligible
            assert not (each.may_go_on and each.left_ns <= 0)
            assert not (each.may_begin and (each.waiting and each.hold is Hold.NONE))
    for turn in parties:
        loop.turns.hold(turn, Hold.NONE)
    while loop.turns.is_backlogged:
        loop.pump()
    assert all(turn.waiting == 0 for turn in parties)
