"""States, ids, names and bounds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.names import SYSTEM_INSTANCE_ID, is_instance_id
from contracts.specs import Limits
from tenants.rules import lifecycle
from tenants.rules.lifecycle import TRANSITIONS, Event, State


def test_every_state_can_be_reached_and_only_purged_is_at_rest() -> None:
    reached = {State.CREATING} | set(TRANSITIONS.values())
    assert reached == set(State)
    leaving = {state for state, _event in TRANSITIONS}
    assert leaving == set(State)
    assert {event for state, event in TRANSITIONS if state is State.PURGED} == {Event.PURGE}


def test_everything_visible_can_be_deleted() -> None:
    for state in (State.CREATING, State.RUNNING, State.SUSPENDED, State.FAILED):
        assert lifecycle.transition(state, Event.DELETE) is State.DELETED
    assert lifecycle.transition(State.DELETED, Event.DELETE) is None


def test_acknowledgements_never_wake_what_was_suspended_or_deleted() -> None:
    for state in (State.SUSPENDED, State.DELETED, State.PURGING, State.PURGED):
        assert lifecycle.transition(state, Event.SERVED) is None
        assert lifecycle.transition(state, Event.REFUSED) is None


@given(st.integers())
def test_drawn_ids_are_ids_of_tenants(seed: int) -> None:
    drawn = lifecycle.draw_instance_id(random.Random(seed).randrange)
    assert is_instance_id(drawn)
    assert drawn != SYSTEM_INSTANCE_ID


@pytest.mark.parametrize(
    "name", ["shop", "Shop-2", "a", "9.lives_x", "a" * 64, "iabcdefghij", "iABCDEFGHIJK"]
)
def test_good_names(name: str) -> None:
    assert lifecycle.name_fault(name) is None


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "a b", "a/b", "a" * 65, "shöp", "a\n", "iabcdefghijk", SYSTEM_INSTANCE_ID]
)
def test_bad_names(name: str) -> None:
    assert lifecycle.name_fault(name) is not None


def test_rates_begin_at_100_kilobytes() -> None:
    assert lifecycle.rate_faults(100_000, 100_000) == []
    faults = lifecycle.rate_faults(99_999, 10**13)
    assert [fault.field for fault in faults] == ["produce_rate_bytes_per_s", "consume_rate_bytes_per_s"]


def test_capacity_begins_at_a_megabyte() -> None:
    assert lifecycle.capacity_faults(1_000_000) == []
    assert [fault.field for fault in lifecycle.capacity_faults(999_999)] == ["capacity_bytes"]
    assert lifecycle.capacity_faults(10**15 + 1)


def test_an_instance_may_shrink_to_what_it_holds_and_no_further() -> None:
    assert lifecycle.shrink_fault(5_000_000, 3, 5_000_000, 3) is None
    assert lifecycle.shrink_fault(5_000_000, 3, None, None) is None
    assert lifecycle.shrink_fault(None, None, 10, 10) is None
    assert "a little more than 5 MB is stored" in (
        lifecycle.shrink_fault(5_000_000, None, 5_000_001, 0) or ""
    )
    assert "4 partitions exist" in (lifecycle.shrink_fault(None, 3, 0, 4) or "")


def test_default_limits_are_legal_and_each_bound_is_checked() -> None:
    assert lifecycle.limit_faults(Limits()) == []
    for name, (lowest, highest) in lifecycle.LIMIT_BOUNDS.items():
        for value in (lowest - 1, highest + 1):
            faults = lifecycle.limit_faults(Limits(**{name: value}))
            assert [fault.field for fault in faults] == [f"limits.{name}"]


def test_a_new_topic_must_fit() -> None:
    assert lifecycle.limit_faults(Limits(partitions_max=3, partitions_default=3)) == []
    [fault] = lifecycle.limit_faults(Limits(partitions_max=3, partitions_default=4))
    assert fault.field == "limits.partitions_default" and "partitions_max" in fault.message


def test_a_request_must_hold_a_batch() -> None:
    [fault] = lifecycle.limit_faults(Limits(request_bytes_max=1_000_000))
    assert fault.field == "limits.request_bytes_max"
