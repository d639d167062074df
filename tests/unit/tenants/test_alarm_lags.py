"""Lags in seconds as alarms take them: what is not known, whose turn it is, and what a look leaves behind."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from runtime.clock import epoch_ms
from tenants import alarm_lags
from tenants.alarm_lags import GROUPS_OF_INSTANCE_MAX, Asked, Lags
from tenants.backend.cluster import Cluster, ConnectionPool
from tenants.backend.group_lags import Behind, GroupLags
from tenants.backend.groups import ListedGroup
from tenants.rules.alarm_figures import LAGS_EVERY_MS, UNKNOWN_LOOKS, GroupLag, LagSeen, lag_seconds
from tenants.rules.alarms import DEFAULTS, Alarm, AlarmKind, AlarmState, Finding, Handling, step
from tenants.rules.errors import Unavailable
from tenants.rules.record_time import Oldest, oldest
from tenants.rules.turns import Turns

RULE = replace(DEFAULTS[AlarmKind.LAG_SECONDS], enabled=True, threshold=60)
NONE: frozenset[str] = frozenset()


class Looks:
    """Looks at an instance's groups once a minute, and at its alarm six times as often."""

    def __init__(self) -> None:
        self.seen = LagSeen()
        self.alarm = Alarm("i", AlarmKind.LAG_SECONDS)
        self.now_ms = 0

    def look(self, ages: Mapping[str, Sequence[float | None]], untold: frozenset[str] = NONE) -> Finding:
        """`ages`: by group those of its partitions."""
        self.now_ms += LAGS_EVERY_MS
        self.seen.take([GroupLag(name, 5) for name in ages], untold, self.now_ms)
        self.seen.take_ages({name: oldest(each) for name, each in ages.items()}, untold, self.now_ms)
        for _ in range(6):
            found = lag_seconds(self.seen, RULE, self.now_ms)
            self.alarm = step(self.alarm, RULE, found, Handling(), self.now_ms).alarm
        return found


def test_how_late_groups_are_in_seconds() -> None:
    assert lag_seconds(None, RULE, 0).value is None
    seen = LagSeen()
    seen.take([GroupLag("a", 10), GroupLag("b", 5)], NONE, 0)
    assert lag_seconds(seen, RULE, 0).value is None, "nobody asked for seconds"
    looks = Looks()
    assert looks.look({"a": [0.0], "b": [0.0]}) == Finding(0, "2 groups, none is late")
    assert looks.look({"a": [3.0], "b": [59.0, 1.0]}) == Finding(59.0, "group b is 59 s behind, 5 records")
    assert looks.look({"a": [None], "b": [59.0]}).value is None, "the other may be later"
    assert looks.look({"a": [None], "b": [61.0]}).value == 61.0, "whatever the other is"
    assert lag_seconds(looks.seen, RULE, looks.now_ms + 180_001).value is None, "nobody could ask for so long"


def test_a_partition_that_is_late_is_not_hidden_by_one_that_is_not_known() -> None:
    looks = Looks()
    found = looks.look({"a": [None, 7200.0]})
    assert found.value == 7200 and "group a is at least 7200 s behind" in found.says
    assert looks.alarm.state is AlarmState.RAISED


def test_a_group_that_is_never_known_does_not_hold_the_alarm_of_another() -> None:
    looks = Looks()
    looks.look({"late": [3600.0], "undated": [None]})
    assert looks.alarm.state is AlarmState.RAISED
    for _ in range(UNKNOWN_LOOKS):
        found = looks.look({"late": [0.0], "undated": [None]})
    assert looks.alarm.state is AlarmState.OK
    assert found == Finding(0, "1 groups, none is late; of 1 of 2 groups it is not known now")


def test_a_part_that_is_never_known_does_not_hold_the_alarm_of_the_rest() -> None:
    looks = Looks()
    looks.look({"a": [3600.0, None]})
    assert looks.alarm.state is AlarmState.RAISED
    for _ in range(UNKNOWN_LOOKS):
        looks.look({"a": [0.0, None]})
    assert looks.alarm.state is AlarmState.OK


def test_nobody_has_caught_up_who_was_late_and_cannot_be_asked() -> None:
    looks = Looks()
    looks.look({"late": [3600.0], "other": [0.0]})
    for _ in range(3 * UNKNOWN_LOOKS):
        looks.look({"other": [0.0]}, frozenset({"late"}))
    assert looks.alarm.state is AlarmState.UNKNOWN and looks.alarm.raised_at_ms is not None
    looks.look({"late": [5.0], "other": [0.0]})
    assert looks.alarm.state is AlarmState.OK


class Told(GroupLags):
    """Groups that are as late as is said."""

    def __init__(self) -> None:
        super().__init__()
        self.age = 3600.0
        self.may_answer = asyncio.Event()
        self.is_away = False
        self.looked: Counter[str] = Counter()

    async def behind(
        self, cluster: Cluster, instance_id: str, shown: Sequence[ListedGroup], committed_max: int
    ) -> dict[str, Behind]:
        self.looked[instance_id] += 1
        return {one.name: Behind(5, True, []) for one in shown}

    async def ages(
        self, cluster: Cluster, instance_id: str, behind: Mapping[str, Behind], within_s: float
    ) -> dict[str, Oldest]:
        await self.may_answer.wait()
        if self.is_away:
            raise Unavailable("its leader is away")
        return dict.fromkeys(behind, Oldest(self.age, True))


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """By instance how many groups it has."""
    groups: dict[str, int] = {}

    async def by_instance(_cluster: Cluster) -> dict[str, list[ListedGroup]]:
        return {
            key: [ListedGroup(f"g{number}", "Stable", "consumer", 1) for number in range(count)]
            for key, count in groups.items()
        }

    monkeypatch.setattr("tenants.backend.groups.by_instance", by_instance)
    monkeypatch.setattr(alarm_lags, "_PAUSE_S", 0)
    return groups


async def cluster_of(_cluster_id: str) -> Cluster:
    return Cluster(ConnectionPool(None), ())


async def test_what_is_known_is_told_while_a_look_asks_and_when_it_fails(listing: dict[str, int]) -> None:
    listing["i"] = 1
    told = Told()
    lags, asked = Lags(cluster_of, told), {"i": Asked("t", "c", 10**9, wants_seconds=True)}
    told.may_answer.set()
    await lags.look(asked)
    before = lag_seconds(lags.seen["i"], RULE, epoch_ms())
    assert before.value == 3600 and lags.latest(epoch_ms()) == {"i": 3600}
    told.may_answer.clear()
    look = asyncio.create_task(lags.look(asked))
    while told.looked["i"] < 2:
        await asyncio.sleep(0)
    assert lag_seconds(lags.seen["i"], RULE, epoch_ms()) == before
    assert lags.latest(epoch_ms()) == {"i": 3600}
    told.is_away = True
    told.may_answer.set()
    await look
    assert lag_seconds(lags.seen["i"], RULE, epoch_ms()) == before, "its leaders are away for once"
    late_ms = epoch_ms() + 4 * lags.seen["i"].every_ms
    assert lag_seconds(lags.seen["i"], RULE, late_ms).value is None and lags.latest(late_ms) == {}
    told.times.close()


async def test_who_has_many_instances_takes_no_turn_of_others(listing: dict[str, int]) -> None:
    listing.update({f"a{number:03}": GROUPS_OF_INSTANCE_MAX for number in range(120)})
    listing["b"] = 1
    told = Told()
    told.may_answer.set()
    lags = Lags(cluster_of, told)
    asked = {key: Asked("few" if key == "b" else "many", "c", 10**9, wants_seconds=True) for key in listing}
    for _ in range(5):
        await lags.look(asked)
    assert told.looked["b"] == 5
    of_many = [told.looked[key] for key in listing if key != "b"]
    assert 1 <= min(of_many) <= max(of_many) <= 2
    most_ms = 5 * LAGS_EVERY_MS
    assert all(
        seen.is_fresh(epoch_ms() - most_ms, epoch_ms()) for key, seen in lags.seen.items() if key != "b"
    )
    told.times.close()


def test_tenants_beyond_one_look_all_have_a_turn() -> None:
    turns, seen = Turns(), Counter[str]()
    tenant_of = {f"i{number:02}": f"t{number // 2}" for number in range(20)}
    for _ in range(10):
        came = list(turns.order(tenant_of))[:4]
        looks = turns.came_to(came)
        seen.update(came)
    assert set(seen.values()) == {2}, seen
    assert looks == dict.fromkeys((f"t{number}" for number in range(10)), 6)
