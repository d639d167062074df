"""Alarms as data: what looks make of them, hysteresis, and what nobody tells."""

import math
from dataclasses import replace

import msgspec
import pytest

from contracts.quota_view import BrokerQuota, PointFlow, QuotaView
from tenants.rules.alarm_figures import (
    Count,
    Counted,
    GroupLag,
    LagSeen,
    Window,
    bill_above,
    counted,
    full,
    lag_growing,
    silent_brokers,
    throttled,
)
from tenants.rules.alarms import (
    DEFAULTS,
    LOOK_EVERY_MS,
    MEANINGS,
    OF_DEPLOYMENTS,
    OF_INSTANCES,
    STALE_MS,
    Alarm,
    AlarmEvent,
    AlarmKind,
    AlarmState,
    Finding,
    Handling,
    Rule,
    faults_of,
    rule_of,
    shown_state,
    step,
)

from .conftest import MasterServer

KIND = AlarmKind.THROTTLED_PRODUCE
RULE = Rule(KIND, True, 50, 5, raise_after=2, clear_after=3)
OK, RAISED, UNKNOWN = AlarmState.OK, AlarmState.RAISED, AlarmState.UNKNOWN
LETTERS = {OK: "o", RAISED: "R", UNKNOWN: "?"}
MINUTE_MS = 60_000


def lived(values: list[float | None], rule: Rule = RULE, handling: Handling | None = None) -> str:
    """The states that an alarm goes through, `!` behind a notice, `*` where it is raised and unknown."""
    alarm, told = Alarm("i", rule.kind), ""
    for number, value in enumerate(values):
        made = step(alarm, rule, Finding(value, str(value)), handling or Handling(), 1000 * (number + 1))
        alarm = made.alarm
        is_hidden = alarm.state is UNKNOWN and alarm.raised_at_ms is not None
        told += LETTERS[alarm.state] + ("*" if is_hidden else "") + ("!" if made.notice else "")
    return told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([0, 10, 49], "ooo"),
        ([50], "o"),  # one look is none
        ([50, 50], "oR!"),
        ([97, 10, 97, 10], "oooo"),  # flapping below the hysteresis raises nothing
        ([97, 97, 10, 10, 10], "oR!RRo!"),
        ([97, 97, 10, 10, 97, 10, 10, 10], "oR!RRRRRo!"),  # clearing begins anew
        ([None, None, None], "???"),
        ([97, None, 97], "o?R!"),  # looks that were told nothing count neither way
        ([97, 97, None, None, None, None], "oR!?*?*?*?*"),  # a silent source does not clear
        ([97, 97, None, 10, 10, 10], "oR!?*RRo!"),
        ([None, 97, 97], "?oR!"),
        ([10, None, 10], "o?o"),
    ],
)
def test_what_looks_make_of_an_alarm(values: list[float | None], told: str) -> None:
    assert lived(values) == told


def test_what_is_below_alarms_where_little_is_bad() -> None:
    rule = replace(DEFAULTS[AlarmKind.FULL], raise_after=1, clear_after=1)
    assert lived([math.inf, 25, 24, 0, 25], rule) == "ooR!Ro!"


def test_a_rule_that_is_turned_off_clears_and_stays_quiet() -> None:
    raised = step(Alarm("i", KIND), replace(RULE, raise_after=1), Finding(99, ""), Handling(), 1).alarm
    off = step(raised, replace(RULE, enabled=False), Finding(99, ""), Handling(), 2)
    assert (off.alarm.state, off.event, off.notice) == (OK, AlarmEvent.CLEARED, AlarmEvent.CLEARED)
    again = step(off.alarm, replace(RULE, enabled=False), Finding(99, ""), Handling(), 3)
    assert (again.event, again.notice) == (None, None)


def test_what_is_raised_in_silence_is_told_when_that_ends() -> None:
    silent = Handling(silenced_until_ms=2500)
    assert lived([97, 97, 97, 97], handling=silent) == "oRR!R"
    assert lived([97, 97, 10, 10, 10], handling=Handling(silenced_until_ms=9000)) == "oRRRo", (
        "nobody was told"
    )


def test_what_was_acknowledged_in_silence_is_not_told_after_it() -> None:
    raised = step(
        Alarm("i", KIND), replace(RULE, raise_after=1), Finding(99, ""), Handling(silenced_until_ms=10), 1
    ).alarm
    later = step(raised, RULE, Finding(99, ""), Handling(acked_at_ms=5, silenced_until_ms=10), 11)
    assert later.notice is None and later.alarm.is_told


def test_times_of_an_alarm_are_those_of_its_changes() -> None:
    rule = replace(RULE, raise_after=1, clear_after=1)
    alarm = Alarm("i", KIND)
    seen = []
    for now_ms, value in ((1, 10), (2, 99), (3, 99), (4, None), (5, None), (6, 99)):
        alarm = step(alarm, rule, Finding(value, ""), Handling(), now_ms).alarm
        seen.append((alarm.state.value, alarm.since_ms, alarm.raised_at_ms, alarm.known_at_ms))
    assert seen == [
        ("ok", 1, None, 1),
        ("raised", 2, 2, 2),
        ("raised", 2, 2, 3),
        ("unknown", 4, 2, 3),
        ("unknown", 4, 2, 3),
        ("raised", 6, 2, 6),
    ]


def test_nothing_is_known_while_nobody_looks() -> None:
    alarm = Alarm("i", KIND, state=OK)
    assert shown_state(alarm, 1_000, 1_000 + STALE_MS) is OK
    assert shown_state(alarm, 1_000, 1_001 + STALE_MS) is UNKNOWN
    assert shown_state(alarm, None, 5) is UNKNOWN


def test_an_instances_own_rule_goes_before_the_operators_and_that_before_the_built_in() -> None:
    own, all_of = replace(RULE, threshold=1), replace(RULE, threshold=2)
    assert rule_of(KIND, "i", {("i", KIND): own, ("", KIND): all_of}) is own
    assert rule_of(KIND, "j", {("i", KIND): own, ("", KIND): all_of}) is all_of
    assert rule_of(KIND, "j", {("i", KIND): own}) == DEFAULTS[KIND]


def test_every_kind_has_a_meaning_a_good_default_and_an_owner() -> None:
    assert set(MEANINGS) == set(DEFAULTS) == set(AlarmKind) == {*OF_INSTANCES, *OF_DEPLOYMENTS}
    assert [kind for kind, rule in DEFAULTS.items() if faults_of(rule)] == []
    off = {kind for kind, rule in DEFAULTS.items() if not rule.enabled}
    assert off == {AlarmKind.BILL_ABOVE, AlarmKind.LAG_SECONDS}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"threshold": 0}, "threshold"),
        ({"threshold": 101}, "threshold"),
        ({"window_minutes": 0}, "window_minutes"),
        ({"window_minutes": 61}, "window_minutes"),
        ({"raise_after": 0}, "raise_after"),
        ({"clear_after": 361}, "clear_after"),
    ],
)
def test_what_no_rule_may_be(change: dict[str, int], field: str) -> None:
    assert [one.field for one in faults_of(replace(RULE, **change))] == [field]  # type: ignore[arg-type]


# --- figures ---------------------------------------------------------------------------------------


def view(**changes: object) -> QuotaView:
    master = MasterServer()
    master.knows("i")
    told = {**{name: getattr(master.views["i"], name) for name in QuotaView.__struct_fields__}, **changes}
    return QuotaView(**told)  # type: ignore[arg-type]


def test_a_window_says_nothing_until_it_was_looked_at() -> None:
    window, seen = Window(), []
    held = replace_direction(view(), 970)
    for look in range(40):
        seen.append(throttled(window, held, held.produce, RULE, look * LOOK_EVERY_MS).value)
    assert seen[:10] == [None] * 10
    assert seen[-1] == 97.0
    assert throttled(window, None, None, RULE, 400_000).value is None


def replace_direction(told: QuotaView, throttled_ms_per_s: int) -> QuotaView:
    direction = msgspec.structs.replace(told.produce, throttled_ms_per_s=throttled_ms_per_s)
    return msgspec.structs.replace(told, produce=direction)


def test_what_is_older_than_the_window_does_not_count() -> None:
    window = Window()
    for look in range(60):
        value = 100 if look < 24 else 0
        window.add(look * LOOK_EVERY_MS, value, 5)
    assert window.mean(59 * LOOK_EVERY_MS, 5) == 0
    assert window.is_covered(59 * LOOK_EVERY_MS, 5)
    assert not window.is_covered(59 * LOOK_EVERY_MS + 4 * MINUTE_MS, 5), "looks are missing"


KNOCKS = replace(DEFAULTS[AlarmKind.UNKNOWN_ADDRESS], threshold=5, window_minutes=10)


def knocks(
    counter: Counted, look: int, counts: dict[str, int] | None, heard: set[str], threshold: int = 5
) -> Finding:
    """Of workers by their boots: `name/boot`."""
    of = {one.split("/")[0]: Count(one, count) for one, count in (counts or {}).items()}
    told = None if counts is None else of
    return counted(
        counter, told, heard, "refused connections", replace(KNOCKS, threshold=threshold), look * 10_000
    )


def test_enough_knocks_alarm_at_once_and_none_only_when_all_was_seen() -> None:
    counter = Counted()
    first = knocks(counter, 0, {"g/1": 1_000}, set())
    assert first.value is None, "what was before nobody knows when"
    assert knocks(counter, 1, {"g/1": 1_004}, {"g"}).value is None
    assert knocks(counter, 2, {"g/1": 1_005}, {"g"}).value == 5
    assert knocks(counter, 3, None, {"g"}).value is None


def test_workers_that_report_one_after_the_other_after_a_restart_count_nothing_of_before() -> None:
    counter = Counted()
    for look, (counts, heard) in enumerate(
        (
            ({"g/1": 100}, set()),
            ({"g/1": 100, "h/1": 100}, {"g"}),
            ({"g/1": 100, "h/1": 101}, {"g", "h"}),
            ({"g/1": 100, "h/1": 101, "new/1": 7}, {"g", "h"}),
        )
    ):
        last = knocks(counter, look, counts, heard, threshold=1)
    assert last.value == 1


def test_the_first_knocks_at_a_worker_that_is_known_count() -> None:
    counter = Counted()
    knocks(counter, 0, {}, set())
    assert knocks(counter, 1, {"g/1": 5}, {"g"}).value == 5


def test_a_worker_that_starts_again_counts_nothing_twice() -> None:
    counter = Counted()
    for look, counts in enumerate(({"g/1": 100}, {"g/1": 103}, {"g/2": 104}, {"g/2": 105})):
        last = knocks(counter, look, counts, {"g"} if look else set(), threshold=1)
    assert last.value == 3 + 104 + 1


FULL = DEFAULTS[AlarmKind.FULL]


@pytest.mark.parametrize(
    ("per_minute", "hours"),
    [(0, math.inf), (-5, math.inf), (10, pytest.approx(14.8, abs=0.2))],
)
def test_hours_until_an_instance_is_full(per_minute: int, hours: float) -> None:
    window = Window()
    for look in range(6 * 20):
        minute = look // 6
        told = view(capacity_bytes=10_000, stored_bytes=900 + per_minute * minute)
        found = full(window, told, FULL, look * LOOK_EVERY_MS)
        if minute == 5:
            assert found.value is None, "five minutes say nothing of a day"
    assert found.value == hours


def test_a_full_one_is_full_at_once() -> None:
    assert full(Window(), view(blocked=True), FULL, 0).value == 0


def test_brokers_that_are_silent_are_named() -> None:
    flow = PointFlow(
        **dict.fromkeys(
            (
                *("rate_per_s", "share_per_s", "proportion_per_s", "allocated_per_s", "applied_per_s"),
                *("throttled_ms_per_s", "used_total", "refused_total"),
            ),
            0,
        ),
        below_gate=True,
    )
    broker = BrokerQuota(
        point="b",
        node_id=2,
        partitions_led=3,
        stored_bytes=0,
        silent=True,
        on_lease=True,
        blocked=False,
        lease_epoch=1,
        report_age_ms=12_000,
        produce=flow,
        consume=flow,
    )
    found = silent_brokers(view(brokers=(broker,)))
    assert (found.value, found.says) == (1, "silent: broker 2, which led 3 partitions, for 12 s")
    assert silent_brokers(view()).value == 0
    assert silent_brokers(None).value is None


def test_a_group_that_does_not_catch_up_is_the_worst_that_grew() -> None:
    seen, told = LagSeen(), frozenset[str]()
    seen.take([GroupLag("a", 10), GroupLag("b", 500), GroupLag("c", 20)], told, 0)
    assert lag_growing(seen, 0).value is None, "one look, as after a restart, does not say who catches up"
    seen.take([GroupLag("a", 30), GroupLag("b", 400), GroupLag("c", 20), GroupLag("new", 900)], told, 60_000)
    found = lag_growing(seen, 60_000)
    assert found.value == 30 and "group a" in found.says, "b is further behind, and catches up"
    seen.take([GroupLag("a", 0), GroupLag("b", 0)], told, 120_000)
    assert lag_growing(seen, 120_000).value == 0
    assert lag_growing(seen, 120_000 + 180_001).value is None, "nobody could ask for so long"
    assert lag_growing(None, 0).value is None


def test_a_group_whose_lag_nobody_tells_stays_as_it_was() -> None:
    seen, told = LagSeen(), frozenset[str]()
    for number in range(2):
        seen.take([GroupLag("a", 500), GroupLag("b", 5)], told, number * 60_000)
    seen.take([GroupLag("b", 5)], frozenset({"a"}), 120_000)
    assert lag_growing(seen, 120_000).value == 500, "its coordinator is away"
    seen.take([GroupLag("b", 5)], told, 180_000)
    assert lag_growing(seen, 180_000).value == 5, "it was deleted"


def test_no_bill_is_not_a_bill_of_nothing() -> None:
    assert bill_above(None, "", 0).value is None
    assert bill_above(12_345, "EUR", 2) == Finding(12_345, "this month's bill is 123.45 EUR so far")
