"""How full an instance is while its logs change leaders."""

from master.quota.capacity import Fill, is_blocked

CAPACITY = 1_000


def update(fill: Fill, counted: int, now_ms: int, *, settled: bool = True, blocked: bool = False) -> None:
    fill.update(
        counted,
        reported_blocked=blocked,
        is_settled=settled,
        capacity_bytes=CAPACITY,
        unblock_fraction=0.98,
        hold_ms=3_000,
        now_ms=now_ms,
    )


def test_blocks_at_capacity_and_lifts_below_the_fraction() -> None:
    assert is_blocked(False, 1_000, CAPACITY, 0.98) and not is_blocked(False, 999, CAPACITY, 0.98)
    assert is_blocked(True, 980, CAPACITY, 0.98) and not is_blocked(True, 979, CAPACITY, 0.98)


def test_a_log_counted_twice_during_a_move_blocks_nobody() -> None:
    fill = Fill()
    update(fill, 900, 0)
    update(fill, 1_200, 1_000, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (900, False)
    update(fill, 950, 2_000)
    assert (fill.stored_bytes, fill.blocked) == (950, False)


def test_a_log_not_counted_during_a_move_frees_nobody() -> None:
    fill = Fill()
    update(fill, 1_000, 0)
    update(fill, 600, 1_000, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (1_000, True)


def test_it_holds_for_a_while_only() -> None:
    fill = Fill()
    update(fill, 900, 0)
    update(fill, 1_200, 2_999, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (900, False)
    update(fill, 1_200, 3_000, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (1_200, True)


def test_a_new_master_that_has_heard_one_broker_keeps_the_block() -> None:
    fill = Fill()
    update(fill, 400, 0, settled=False, blocked=True)
    assert (fill.stored_bytes, fill.blocked) == (CAPACITY, True), "the point must not lift it either"
    update(fill, 700, 1_000)
    assert (fill.stored_bytes, fill.blocked) == (700, False)


def test_a_new_master_counts_what_it_hears_while_it_waits_for_the_others() -> None:
    fill = Fill()
    update(fill, 400, 10_000, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (400, False), "no block, so nothing is reserved"
    update(fill, 1_500, 12_999, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (1_500, False), "perhaps counted twice"
    update(fill, 1_500, 13_000, settled=False)
    assert (fill.stored_bytes, fill.blocked) == (1_500, True)
