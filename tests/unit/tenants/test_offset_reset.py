"""Where committed offsets are set to."""

from tenants.rules.offset_reset import Known, Planned, ResetTo, Wish, plan, wish_faults

LOG = Known(log_start_offset=10, log_end_offset=50, committed_offset=30)


def new(wish: Wish, facts: Known = LOG) -> tuple[int | None, str | None]:
    (one,) = plan(wish, {("t", 0): facts})
    assert one == Planned("t", 0, facts.committed_offset, one.new_offset, one.note)
    return one.new_offset, one.note


def test_each_target() -> None:
    assert new(Wish(ResetTo.EARLIEST)) == (10, None)
    assert new(Wish(ResetTo.LATEST)) == (50, None)
    assert new(Wish(ResetTo.OFFSET, offset=25)) == (25, None)
    assert new(Wish(ResetTo.SHIFT, shift=-5)) == (25, None)
    assert new(Wish(ResetTo.OFFSETS, offsets={("t", 0): 11})) == (11, None)
    assert new(Wish(ResetTo.DATETIME, at_ms=1), LOG._replace(offset_at_time=44)) == (44, None)
    assert new(Wish(ResetTo.DATETIME, at_ms=1), LOG._replace(offset_at_time=-1)) == (50, None)


def test_a_target_outside_of_the_log_moves_to_its_end() -> None:
    assert new(Wish(ResetTo.OFFSET, offset=5)) == (10, "5 is outside of the log, which has 10 to 50")
    assert new(Wish(ResetTo.SHIFT, shift=100)) == (50, "130 is outside of the log, which has 10 to 50")


def test_where_there_is_no_new_offset() -> None:
    nothing, why = new(Wish(ResetTo.SHIFT, shift=1), LOG._replace(committed_offset=None))
    assert nothing is None and why is not None and "nothing is committed" in why
    nothing, why = new(Wish(ResetTo.EARLIEST), Known(None, None, 3))
    assert nothing is None and why is not None and "no leader" in why


def test_fields_that_belong_to_the_target() -> None:
    assert wish_faults(ResetTo.EARLIEST, []) == []
    assert wish_faults(ResetTo.SHIFT, ["shift"]) == []
    assert [fault.field for fault in wish_faults(ResetTo.SHIFT, [])] == ["shift"]
    assert [fault.field for fault in wish_faults(ResetTo.OFFSET, ["at"])] == ["at", "offset"]
