"""Moves as a table and as rows: what may follow what, when a switch is tried, and what becomes of topics."""

import uuid
from itertools import product

import pytest

from tenants.rules import moves
from tenants.rules.moves import (
    OVER,
    TRANSITIONS,
    WORKED_ON,
    Event,
    Move,
    Phase,
    Topic,
    copy_rate,
    is_nearly_there,
    plan_topics,
)

A, B = uuid.UUID(int=1), uuid.UUID(int=2)


def move(phase: Phase, **fields: object) -> Move:
    begun = Move(
        id="mv_1",
        instance_id="iabcdefghijk",
        source="here",
        target="there",
        phase=phase,
        started_by="operator:key:test",
        started_at_ms=1_000,
        updated_at_ms=1_000,
    )
    return begun.with_(**fields)


def test_a_phase_is_over_or_somebody_works_on_it_or_it_waits_for_an_order() -> None:
    assert not OVER & WORKED_ON
    assert set(Phase) - OVER - WORKED_ON == {Phase.SWITCHED}
    for phase in OVER:
        assert not [pair for pair in TRANSITIONS if pair[0] is phase], "what is over stays over"
    for phase in set(Phase) - OVER:
        assert [pair for pair in TRANSITIONS if pair[0] is phase], "nothing gets stuck"


def test_behind_the_switch_nothing_is_cancelled() -> None:
    """What was written since is at the target alone; its copy must never be what is removed."""
    reachable, ahead = set(), [Phase.SWITCHED]
    while ahead:
        phase = ahead.pop()
        reachable.add(phase)
        ahead += [after for (before, _), after in TRANSITIONS.items() if before is phase]
    assert reachable == {Phase.SWITCHED, Phase.PURGING, Phase.DONE}


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)))
def test_gateways_hold_exactly_while_it_switches(phase: Phase, event: Event) -> None:
    before = move(phase, held_at_ms=1_500 if phase is Phase.SWITCHING else None)
    after = before.after(event, 2_000)
    assert (after is None) == ((phase, event) not in TRANSITIONS)
    if after is not None:
        assert (after.held_at_ms is not None) == (after.phase is Phase.SWITCHING)
        assert after.gap_ms == (500 if event is Event.SWITCH else None)


def test_a_switch_that_is_given_up_is_tried_later_and_later() -> None:
    one = move(Phase.COPYING)
    assert one.retry_at_ms == 0
    waits = []
    for tries in range(12):
        held = one.after(Event.HOLD, 10_000)
        assert held is not None
        released = held.after(Event.RELEASE, 10_000, "a gateway")
        assert released is not None and released.tries == tries + 1 and released.reason == "a gateway"
        waits.append(released.retry_at_ms - 10_000)
        one = released
    assert waits[:4] == [1_000, 2_000, 4_000, 8_000] and waits[-1] == moves.RETRY_LAST_MS


def test_a_copy_outruns_its_tenant() -> None:
    assert copy_rate(100_000) == moves.RATE_MIN_BYTES_PER_S
    for bought in (1_000_000, 50_000_000, 10**9):
        assert copy_rate(bought) >= 2 * bought
        assert is_nearly_there(bought // 10, copy_rate(bought)), "what comes in a tenth of a second"
        assert not is_nearly_there(10 * copy_rate(bought), copy_rate(bought))


def test_topics_follow_the_source() -> None:
    source = {"kept": Topic(A, 3), "new": Topic(B, 1), "anew": Topic(B, 2), "grown": Topic(A, 4)}
    target = {
        "kept": Topic(A, 3),
        "anew": Topic(A, 2),
        "grown": Topic(A, 3),
        "gone": Topic(A, 1),
        "unknown": Topic(A, 1),
    }
    copied_from = {"kept": A, "anew": A, "grown": A, "gone": A}
    plan = plan_topics(source, target, copied_from)
    assert plan.delete == ("anew", "gone", "grown", "unknown")
    assert plan.create == ("anew", "grown", "new")
    assert not plan.is_empty and plan_topics({}, {}, {}).is_empty


def test_a_topic_whose_origin_nobody_knows_is_copied_anew() -> None:
    plan = plan_topics({"t": Topic(A, 1)}, {"t": Topic(A, 1)}, {})
    assert plan == moves.TopicPlan(("t",), ("t",))
