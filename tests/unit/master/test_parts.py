"""What several gateway workers may carry to one broker: by what is wanted, and never too much together."""

import random

import pytest

from contracts.quota import FlowCounters, InstanceTraffic
from master.quota.client_quotas import Entity, Rates
from master.quota.parts import FLOOR_PART, Parts, grown, parts_of

ID = "iaaaaaaaaaaa"
PLACE = "c", Entity(ID, 1)
T = 1_000
LEASE_MS = 5_000
MANY = 10**9


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([0], [1_000]),
        ([MANY], [1_000]),
        ([0, 0], [500, 500]),
        ([MANY, MANY], [500, 500]),
        ([MANY, 100], [900, 100]),
        ([600, 400], [600, 400]),
        ([600, 200], [700, 300]),
        ([MANY, 0], [1_000, 0]),
        ([MANY, MANY, 100], [450, 450, 100]),
        ([2**62, 2**62, 2**62], [333, 333, 333]),
    ],
)
def test_a_rate_goes_where_it_is_wanted_and_what_nobody_wants_is_shared(
    wanted: list[int], expected: list[int]
) -> None:
    assert parts_of(T, wanted) == expected


@pytest.mark.parametrize(
    ("part", "others", "expected"),
    [
        (1_000, 0, 1_000),
        (500, 1_000, 50),
        (500, 1_050, 1),
        (500, 800, 250),
        (0, 0, 25),
        (1_000, 25, 1_000),
        (1_000, 4_000, 1),
    ],
)
def test_a_part_grows_into_what_the_others_let_go(part: int, others: int, expected: int) -> None:
    assert grown(T, part, others, 2) == expected


class Worker:
    """A gateway worker that carries what its clients want, as far as its part lets it."""

    def __init__(self, parts: Parts, name: str, *, rate: int = T // 2) -> None:
        self._parts, self.name, self.rate = parts, name, rate
        self.wants = 0
        self.used = self.throttled_ms = 0
        self._told: InstanceTraffic | None = None
        self.holds_until_ms = 0

    def told(self) -> InstanceTraffic:
        counters = FlowCounters(used=self.used, throttled_ms=self.throttled_ms, rate_per_s=self.rate)
        return InstanceTraffic(
            instance_id=ID,
            produce=counters,
            consume=FlowCounters(rate_per_s=T),
            partitions_led=0,
            stored_bytes=0,
        )

    def lives(self, elapsed_ms: int) -> None:
        self.used += min(self.wants, self.rate) * elapsed_ms // 1000
        self.throttled_ms += elapsed_ms if self.wants > self.rate else 0

    def reports(
        self, now_ms: int, rate: int = T, *, knows_base: bool = True, is_answered: bool = True
    ) -> int:
        told, nothing = self.told(), FlowCounters()
        base = self._told
        if base is None and knows_base:
            base = InstanceTraffic(
                instance_id=ID, produce=nothing, consume=nothing, partitions_led=0, stored_bytes=0
            )
        self._parts.take(self.name, PLACE, told, base, 1_000, now_ms)
        self._told = told
        granted = self._parts.grant(self.name, PLACE, Rates(rate, rate), now_ms).produce_bytes_per_s
        if is_answered:
            self.rate = granted
            self.holds_until_ms = now_ms + self._parts.left_ms(self.name, PLACE, now_ms)
        return self.rate

    def rests(self, now_ms: int, rate: int = T) -> None:
        for place in self._parts.rest(self.name, (), now_ms):
            self.rate = self._parts.grant(self.name, place, Rates(rate, rate), now_ms).produce_bytes_per_s


def period(now_ms: int, *workers: Worker) -> int:
    """One second in which all of them carry and report, one after the other."""
    for worker in workers:
        worker.lives(1_000)
    for at, worker in enumerate(workers):
        worker.reports(now_ms + at * 1_000 // len(workers))
    return now_ms + 1_000


def test_who_is_alone_has_all_and_who_joins_has_its_half_within_three_reports() -> None:
    parts = Parts(LEASE_MS)
    one, two = Worker(parts, "gateway-0"), Worker(parts, "gateway-1")
    one.wants = MANY
    now_ms = period(0, one)
    assert period(now_ms, one) and one.rate == T
    two.wants = MANY
    for _ in range(3):
        now_ms = period(now_ms, one, two)
    assert (one.rate, two.rate) == (T // 2, T // 2)
    one.wants = 0
    for _ in range(3):
        now_ms = period(now_ms, one, two)
    assert two.rate == T and one.rate == T // FLOOR_PART // 2, "enough to begin with"


def test_a_worker_whose_clients_have_left_lets_go_at_its_next_report() -> None:
    parts = Parts(LEASE_MS)
    one, two = Worker(parts, "gateway-0"), Worker(parts, "gateway-1")
    one.wants = MANY
    now_ms = period(period(0, one), one)
    two.wants = MANY
    one.rests(now_ms)
    assert one.rate == T // FLOOR_PART
    assert two.reports(now_ms + 1) == T
    one.rests(now_ms + LEASE_MS)
    assert parts.rest("gateway-0", (), now_ms + LEASE_MS) == [], "what it held is forgotten"


def test_a_worker_that_fell_silent_holds_its_part_until_its_lease_ends() -> None:
    parts = Parts(LEASE_MS)
    one, two = Worker(parts, "gateway-0"), Worker(parts, "gateway-1")
    one.wants = two.wants = MANY
    now_ms = 0
    for _ in range(3):
        now_ms = period(now_ms, one, two)
    for _ in range(3):
        two.lives(1_000)
        assert two.reports(now_ms) <= T // 2 + T // FLOOR_PART
        now_ms += 1_000
    for _ in range(3):
        two.lives(1_000)
        two.reports(now_ms)
        now_ms += 1_000
    assert two.rate == T
    parts.forget_worker("gateway-0")
    parts.forget_worker("gateway-1")
    assert parts.rest("gateway-1", (), now_ms) == []


def test_another_master_gives_nobody_more_before_it_has_heard_them_twice() -> None:
    parts = Parts(LEASE_MS)
    one, two = Worker(parts, "gateway-0", rate=700), Worker(parts, "gateway-1", rate=300)
    one.wants = two.wants = MANY
    one.used = two.used = 10**9
    assert one.reports(0, knows_base=False) == 700
    assert two.reports(500, knows_base=False) == 300
    now_ms = 1_000
    for _ in range(3):
        now_ms = period(now_ms, one, two)
    assert (one.rate, two.rate) == (T // 2, T // 2)


def test_what_a_worker_was_told_to_let_go_goes_to_others_when_its_report_shows_it() -> None:
    parts = Parts(LEASE_MS)
    one, two = Worker(parts, "gateway-0"), Worker(parts, "gateway-1", rate=1)
    one.wants = MANY
    now_ms = period(period(0, one), one)
    two.wants = MANY
    for _ in range(4):
        now_ms += 1_000
        for worker in (one, two):
            worker.lives(1_000)
        one.reports(now_ms, is_answered=False)
        two.reports(now_ms + 500)
        assert one.rate == T and two.rate <= T // FLOOR_PART
    for _ in range(3):
        now_ms = period(now_ms + 1_000, one, two)
    assert (one.rate, two.rate) == (T // 2, T // 2)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_reports_when_and_wants_what_together_they_hold_a_twentieth_more_at_most(seed: int) -> None:
    chance = random.Random(seed)
    parts = Parts(LEASE_MS)
    workers = [Worker(parts, f"gateway-{number}", rate=1) for number in range(chance.randint(2, 6))]
    now_ms = 0
    for _ in range(400):
        elapsed_ms = chance.randint(50, 400)
        now_ms += elapsed_ms
        for worker in workers:
            worker.lives(elapsed_ms)
        worker = chance.choice(workers)
        if chance.random() < 0.3:
            worker.wants = chance.choice([0, 10, 300, MANY])
        if chance.random() < 0.1:
            worker.rests(now_ms)
        else:
            worker.reports(now_ms, is_answered=chance.random() < 0.8)
        held = sum(each.rate for each in workers if now_ms < each.holds_until_ms)
        assert held <= T + T // FLOOR_PART + len(workers)
        assert all(each.rate > 0 for each in workers), "nobody is without anything"
