"""Which requests are hit, for how long, and what has to follow a batch that was refused."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from contracts.injected_faults import FaultKind, InjectedFault
from gateway.rules.injected_faults import (
    LINGER_MS,
    SEQUENCES_HELD_MAX,
    ActiveFaults,
    HeldSequences,
    Sent,
)
from wire.api_table import ApiKey

EPOCH = 1_700_000_000_000
"""Of the control plane, when monotonic clocks here say 0."""
SENT = Sent(7, 0, "t", 0)


def fault(kind: str, **changes: Any) -> InjectedFault:
    fields = {"id": kind, "kind": kind, "begins_at_ms": EPOCH, "ends_at_ms": EPOCH + 60_000}
    return InjectedFault(**(fields | changes))


def active(*faults: InjectedFault, epoch_ms: int = EPOCH) -> ActiveFaults:
    made = ActiveFaults(Random(1).random, Counter())
    made.take(faults, 0, epoch_ms)
    return made


@pytest.mark.parametrize(
    ("clock_is_ahead_ms", "lasts_ms"),
    [(0, 60_000), (20_000, 40_000), (-20_000, 60_000), (-(10**12), 60_000), (60_000, 0), (10**12, 0)],
)
def test_a_wrong_clock_shortens_a_fault_and_never_makes_it_longer(
    clock_is_ahead_ms: int, lasts_ms: int
) -> None:
    running = active(fault("latency", delay_ms=50), epoch_ms=EPOCH + clock_is_ahead_ms)
    assert running.delay_ms(0, max(0, lasts_ms - 1)) == (50 if lasts_ms else 0)
    assert running.delay_ms(0, lasts_ms) == 0


def test_a_clock_that_is_set_while_a_fault_runs_does_not_make_it_longer() -> None:
    running = active(fault("latency", delay_ms=50))
    assert not running.end_overdue(1_000, EPOCH - 10**9).changed
    assert running.delay_ms(0, 59_999) == 50 and running.delay_ms(0, 60_000) == 0
    assert not running.end_overdue(1_000, EPOCH + 50_000).changed
    assert running.delay_ms(0, 10_999) == 50 and running.delay_ms(0, 11_000) == 0
    assert running.end_overdue(11_000, EPOCH + 60_000).changed


def test_being_told_again_changes_nothing_and_being_told_no_more_ends_it() -> None:
    told = fault("throttling", delay_ms=700)
    running = active(told)
    assert not running.take([told], 30_000, EPOCH).changed
    assert running.throttle_ms(59_999) == 700 and running.throttle_ms(60_000) == 0
    assert running.take([], 40_000, EPOCH + 40_000).changed
    assert running.throttle_ms(40_000) == 0 and running.kinds == ()


def test_one_that_is_over_when_it_is_told_of_never_begins() -> None:
    running = active(fault("connection_reset", once=True), epoch_ms=EPOCH + 60_001)
    assert running.kinds == () and not running.resets(0)


def test_a_kind_of_a_later_version_does_nothing() -> None:
    running = active(fault("sharks"))
    assert running.kinds == () and not running.decodes


def test_latency_is_for_the_apis_it_names() -> None:
    running = active(fault("latency", delay_ms=5, apis=(int(ApiKey.FETCH),)))
    assert (running.delay_ms(ApiKey.FETCH, 1), running.delay_ms(ApiKey.PRODUCE, 1)) == (5, 0)


@pytest.mark.parametrize("kind", ["latency", "connection_reset", "leader_loss", "corrupt_checksum"])
@given(share=st.integers(1, 99), seed=st.integers(0, 50))
def test_the_share_of_requests_is_the_one_that_was_ordered(kind: str, share: int, seed: int) -> None:
    running = ActiveFaults(Random(seed).random, counted := Counter())
    running.take([fault(kind, share_percent=share, delay_ms=1)], 0, EPOCH)
    ask = {
        "latency": lambda: running.delay_ms(0, 1),
        "connection_reset": lambda: running.resets(1),
    }.get(kind, lambda: running.refusal(ApiKey.PRODUCE, 1))
    hits = sum(bool(ask()) for _ in range(1_000))
    assert abs(hits - 10 * share) < 80 and counted == {kind: hits}


def test_who_is_refused_what() -> None:
    lost = active(fault("leader_loss"))
    asked = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA)
    assert [lost.refusal(api, 1) for api in asked] == [ErrorCode.not_leader_or_follower] * 3 + [None]
    corrupt = active(fault("corrupt_checksum"))
    assert [corrupt.refusal(api, 1) for api in asked] == [ErrorCode.corrupt_message] + [None] * 3
    large = active(fault("message_too_large", above_bytes=100))
    assert [large.is_too_large(size, 1) for size in (100, 101)] == [False, True]


def test_resetting_everybody_once_is_told_once_and_resets_no_request() -> None:
    running = ActiveFaults(Random(1).random, Counter())
    told = fault("connection_reset", once=True)
    assert running.take([told], 0, EPOCH).resets_all
    assert not running.take([told], 1, EPOCH).resets_all
    assert not running.resets(1)


def test_what_follows_a_refused_batch_is_told_apart_for_a_while_after_the_fault() -> None:
    running = active(fault("leader_loss"), fault("latency", delay_ms=5))
    assert running.refuses and running.decodes
    running.take([], 1_000, EPOCH + 1_000)
    assert running.refuses and running.is_kept(1_000 + LINGER_MS - 1)
    running.end_overdue(1_000 + LINGER_MS, EPOCH)
    assert not running.refuses and not running.is_kept(1_000 + LINGER_MS)


def test_latency_and_throttling_do_not_look_into_requests() -> None:
    assert not active(fault("latency", delay_ms=5), fault("throttling", delay_ms=5)).decodes
    resets = active(fault("connection_reset"))
    assert resets.decodes and not resets.refuses


# --- batches of idempotent producers ---------------------------------------------------------------


def test_a_batch_behind_a_refused_one_is_refused_until_that_one_comes_again() -> None:
    held = HeldSequences()
    assert held.hold(SENT, 10, ErrorCode.corrupt_message)
    assert held.error(SENT, 20) is ErrorCode.corrupt_message
    assert held.error(SENT, 5) is None, "what came before it is another matter"
    assert held.error(SENT._replace(partition=1), 20) is None
    assert held.error(SENT._replace(producer_epoch=1), 20) is None
    assert held.error(SENT, 10) is None
    assert held.error(SENT, 20) is None


def test_the_first_refused_batch_is_the_one_that_is_waited_for() -> None:
    held = HeldSequences()
    held.hold(SENT, 10, ErrorCode.corrupt_message)
    held.hold(SENT, 20, ErrorCode.corrupt_message)
    assert held.error(SENT, 15) is ErrorCode.corrupt_message
    held.hold(SENT, 5, ErrorCode.not_leader_or_follower)
    assert held.error(SENT, 10) is ErrorCode.not_leader_or_follower


def test_sequences_begin_anew_behind_the_largest() -> None:
    held = HeldSequences()
    held.hold(SENT, 2**31 - 1, ErrorCode.corrupt_message)
    assert held.error(SENT, 0) is ErrorCode.corrupt_message
    assert held.error(SENT, 2**31 - 2) is None


def test_behind_a_batch_that_is_too_large_the_order_is_what_is_wrong() -> None:
    held = HeldSequences()
    held.hold(SENT, 0, ErrorCode.message_too_large)
    assert held.error(SENT, 1) is ErrorCode.out_of_order_sequence_number


def test_what_one_connection_is_remembered_for_is_bounded() -> None:
    held = HeldSequences()
    for partition in range(SEQUENCES_HELD_MAX):
        assert held.hold(SENT._replace(partition=partition), 0, ErrorCode.corrupt_message)
    assert not held.hold(SENT._replace(partition=SEQUENCES_HELD_MAX), 0, ErrorCode.corrupt_message)
    assert held.hold(SENT, 1, ErrorCode.corrupt_message)


@given(st.integers(0, 10**6))
def test_whatever_is_refused_a_partition_sees_every_sequence_in_order(seed: int) -> None:
    """A producer with five requests under way that sends again what was refused, oldest first."""
    draw = Random(seed).random
    held, taken, waiting, next_sequence = HeldSequences(), list[int](), list[int](), 0
    while len(taken) < 30:
        while len(waiting) < 5:
            waiting.append(next_sequence)
            next_sequence += 1
        refused = []
        for sequence in waiting:
            error_code = held.error(SENT, sequence)
            if error_code is None and draw() < 0.3:
                held.hold(SENT, sequence, ErrorCode.corrupt_message)
                error_code = ErrorCode.corrupt_message
            (taken if error_code is None else refused).append(sequence)
        waiting = refused
    assert taken == list(range(len(taken)))


def test_every_kind_is_known_here() -> None:
    for kind in FaultKind:
        assert active(fault(kind)).kinds == (kind,)
