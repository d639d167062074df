"""Usage records add up to the counters, whatever the reports, masters and clocks do."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.quota import FlowCounters, InstanceTraffic, TrafficReport
from contracts.specs import InstanceSpec, InstanceState
from contracts.usage_records import UsageRecord, record_id
from master.quota.ledger import Ledger, Outcome
from master.usage.records import UsageAggregator
from tests.unit.master.reports import ID, OTHER, T, a_spec

GRID_MS = 60_000
START_MS = 1_795_132_800_000


@dataclass
class Broker:
    """One run of a broker: counters that grow, and reports of them."""

    boot: str = "a"
    node_id: int = 1
    started_ms: int = START_MS
    sequence: int = 0
    reported_ms: int = START_MS
    counters: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    stored: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    told: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def carry(self, instance_id: str, produced: int, consumed: int = 0) -> None:
        self.counters[instance_id][0] += produced
        self.counters[instance_id][1] += consumed
        self.stored[instance_id] += produced

    def report(self, now_ms: int, *, full: bool = False) -> TrafficReport:
        """With everything that changed since the last report that was answered."""
        self.sequence += 1
        window_ms, self.reported_ms = now_ms - self.reported_ms, now_ms
        listed = [each for each in self.counters if full or self.told.get(each) != self._state(each)]
        return TrafficReport(
            point=f"broker-{self.node_id}",
            node_id=self.node_id,
            cluster_id="c",
            boot_id=self.boot,
            sequence=self.sequence,
            window_ms=window_ms,
            sent_at_ms=now_ms,
            uptime_ms=now_ms - self.started_ms,
            full=full or self.sequence == 1,
            instances=tuple(self._traffic(each) for each in listed),
        )

    def answered(self) -> None:
        self.told = {each: self._state(each) for each in self.counters}

    def _state(self, instance_id: str) -> tuple[int, ...]:
        return (*self.counters[instance_id], self.stored[instance_id])

    def _traffic(self, instance_id: str) -> InstanceTraffic:
        produced, consumed = self.counters[instance_id]
        return InstanceTraffic(
            instance_id=instance_id,
            produce=FlowCounters(used=produced, requests=produced // 100, rate_per_s=T),
            consume=FlowCounters(used=consumed),
            partitions_led=1,
            stored_bytes=self.stored[instance_id],
        )


class Master:
    """A ledger and an aggregator, as the service has them."""

    def __init__(self, specs: dict[str, InstanceSpec] | None = None) -> None:
        self.specs = specs if specs is not None else {ID: a_spec(), OTHER: a_spec(OTHER)}
        self.ledger = Ledger()
        self.usage = UsageAggregator(lambda: self.specs, GRID_MS)
        self.records: list[UsageRecord] = []

    def hear(self, broker: Broker, now_ms: int, *, full: bool = False) -> None:
        report = broker.report(now_ms, full=full)
        if self.ledger.receive(report, now_ms).outcome is Outcome.ACCEPTED:
            self.usage.receive(report, now_ms)
        broker.answered()

    def tick(self, now_ms: int) -> list[UsageRecord]:
        records = self.usage.take_records(now_ms)
        self.records += records
        return records


def recovered_bytes(records: Iterable[UsageRecord]) -> dict[tuple[str, str], int]:
    """What the records and the gaps between their totals add up to."""
    chains: dict[tuple[str, str], list[UsageRecord]] = defaultdict(list)
    for record in {record.id: record for record in records}.values():
        chains[record.boot_id, record.instance_id].append(record)
    sums = {}
    for pair, chain in chains.items():
        chain.sort(key=lambda record: (record.produce_bytes_total, record.interval_start_ms))
        known = total = 0
        for record in chain:
            total += record.produce_bytes_total - record.produce_bytes - known
            total += record.produce_bytes
            known = record.produce_bytes_total
        sums[pair] = total
    return sums


def minutes(master: Master, broker: Broker, count: int, produced_each_s: int) -> int:
    """Steady traffic with a report a second; returns the time."""
    now_ms = broker.reported_ms
    for _ in range(60 * count):
        now_ms += 1000
        broker.carry(ID, produced_each_s)
        master.hear(broker, now_ms)
        master.tick(now_ms)
    return now_ms


def test_one_record_per_minute_with_everything_in_it() -> None:
    master, broker = Master(), Broker()
    minutes(master, broker, 3, 1000)
    first, second, third = master.records
    assert [record.produce_bytes for record in master.records] == [60_000] * 3
    assert third.produce_bytes_total == 180_000
    assert (second.interval_start_ms, second.interval_ms) == (START_MS + GRID_MS, GRID_MS)
    assert second.id == record_id("a", ID, START_MS + GRID_MS)
    assert second.produce_peak_bytes_per_s == 1000
    assert second.produce_rate_bytes_per_s == T
    assert (second.produce_limit_bytes_per_s, second.capacity_bytes) == (T, 1_000_000)
    assert (second.partitions_led, second.produce_requests) == (1, 600)
    assert second.counted_since_ms == START_MS
    assert first.stored_byte_ms == sum(1000 * second * 1000 for second in range(60))
    assert msgspec.json.decode(msgspec.json.encode(first), type=UsageRecord) == first


def test_a_report_across_an_interval_s_end_is_split_by_time() -> None:
    master, broker = Master(), Broker()
    master.hear(broker, START_MS + 50_000)
    broker.carry(ID, 1001)
    master.hear(broker, START_MS + 70_000)
    assert [record.produce_bytes for record in master.tick(START_MS + 70_000)] == [500]
    master.hear(broker, START_MS + 121_000)
    assert [record.produce_bytes for record in master.tick(START_MS + 121_000)] == [501]


def test_idle_instances_are_told_while_they_store_or_lead_and_not_otherwise() -> None:
    master, broker = Master(), Broker()
    broker.carry(ID, 500)
    now_ms = minutes(master, broker, 1, 0)
    master.records.clear()
    for second in range(1, 181):
        master.hear(broker, now_ms + 1000 * second)
        master.tick(now_ms + 1000 * second)
    assert [record.stored_byte_ms for record in master.records] == [500 * GRID_MS] * 3
    assert [record.produce_bytes for record in master.records] == [0] * 3
    broker.counters.clear()
    master.records.clear()
    for second in range(181, 361):
        master.hear(broker, now_ms + 1000 * second, full=second == 181)
        master.tick(now_ms + 1000 * second)
    assert [record.stored_bytes for record in master.records] == [0], "the interval in which it was given up"


def test_totals_are_told_once_an_hour_by_the_idle() -> None:
    master, broker = Master(), Broker()
    broker.carry(ID, 500)
    minutes(master, broker, 1, 0)
    broker.counters.clear()
    told = []
    for minute in range(2, 130):
        master.hear(broker, START_MS + minute * GRID_MS, full=minute == 2)
        told += [(minute, record.produce_bytes_total) for record in master.tick(START_MS + minute * GRID_MS)]
    assert [total for _, total in told] == [500] * len(told)
    assert [minute for minute, _ in told] == [2, 62, 122]


def test_a_broker_that_starts_again_has_its_last_interval_told_as_far_as_it_came() -> None:
    master, broker = Master(), Broker()
    for second in range(1, 21):
        broker.carry(ID, 10)
        master.hear(broker, START_MS + 1000 * second)
    again = Broker(boot="b", started_ms=START_MS + 30_000, reported_ms=START_MS + 30_000)
    again.carry(ID, 7)
    master.hear(again, START_MS + 31_000)
    master.hear(again, START_MS + 61_000)
    last, first = master.tick(START_MS + 61_000)
    assert (last.boot_id, last.interval_ms, last.produce_bytes) == ("a", 20_000, 200)
    assert (first.boot_id, first.interval_start_ms, first.produce_bytes) == ("b", START_MS + 30_000, 7)


def test_a_silent_broker_is_waited_for_and_then_told_of() -> None:
    master, broker = Master(), Broker()
    now_ms = minutes(master, broker, 1, 10)
    master.records.clear()
    broker.carry(ID, 6000)
    master.hear(broker, now_ms + 30_000)
    assert master.tick(now_ms + 100_000) == []
    [told] = master.tick(now_ms + 200_000)
    assert (told.interval_ms, told.produce_bytes) == (30_000, 6000)
    assert master.tick(now_ms + 300_000) == []
    broker.carry(ID, 4_000)
    master.hear(broker, now_ms + 430_000)
    late = master.tick(now_ms + 430_000)
    assert sum(record.produce_bytes for record in late) == 4_000 - 4_000 * 10 // 400
    assert late[0].interval_start_ms == now_ms + 30_000


def test_a_new_master_begins_with_the_first_report_and_says_the_totals() -> None:
    old, broker = Master(), Broker()
    minutes(old, broker, 2, 100)
    for second in range(1, 31):
        broker.carry(ID, 100)
        old.hear(broker, START_MS + 120_000 + second * 1000)
    kept = old.usage.open_records()
    assert [(record.produce_bytes, record.interval_ms) for record in kept] == [(3000, 30_000)]
    new = Master()
    broker.carry(ID, 500)
    new.hear(broker, START_MS + 155_000)
    broker.carry(ID, 50)
    new.hear(broker, START_MS + 180_000, full=True)
    [record] = new.tick(START_MS + 181_000)
    assert (record.interval_start_ms, record.interval_ms) == (START_MS + 154_999, 25_001)
    assert (record.produce_bytes, record.produce_bytes_total) == (50, 12_000 + 3000 + 550)
    assert recovered_bytes(old.records + new.records) == {("a", ID): 15_550}
    assert recovered_bytes(old.records + kept + new.records) == {("a", ID): 15_550}


def test_a_lost_record_is_followed_by_one_that_says_the_totals() -> None:
    master, broker = Master(), Broker()
    now_ms = minutes(master, broker, 1, 100)
    broker.counters[ID] = broker.counters[ID]
    broker.stored[ID] = 0
    master.hear(broker, now_ms + 500)
    full = broker.report(now_ms + 1000, full=True)
    gone = msgspec.structs.replace(full, instances=())
    master.ledger.receive(gone, now_ms + 1000)
    master.usage.receive(gone, now_ms + 1000)
    master.tick(now_ms + 1000)
    master.hear(broker, now_ms + 60_000)
    master.usage.lost(master.tick(now_ms + 60_000))
    master.hear(broker, now_ms + 120_000)
    [told] = master.tick(now_ms + 120_000)
    assert (told.produce_bytes, told.produce_bytes_total) == (0, 6000)
    master.hear(broker, now_ms + 180_000)
    assert master.tick(now_ms + 180_000) == []


def test_a_deleted_instance_is_told_of_to_its_end() -> None:
    master, broker = Master(), Broker()
    now_ms = minutes(master, broker, 1, 100)
    broker.carry(ID, 77)
    master.specs[ID] = a_spec(state=InstanceState.DELETED)
    master.hear(broker, now_ms + 1000)
    broker.counters.clear()
    master.hear(broker, now_ms + 2000, full=True)
    master.ledger.forget_instance(ID)
    master.hear(broker, now_ms + 60_000)
    assert [record.produce_bytes for record in master.tick(now_ms + 60_000)] == [77]
    broker.counters[ID] = [6077, 0]
    master.hear(broker, now_ms + 61_000, full=True)
    master.hear(broker, now_ms + 120_000)
    assert sum(record.produce_bytes for record in master.tick(now_ms + 120_000)) == 0, "not counted twice"


@pytest.mark.parametrize("jump_ms", [-7_200_000, 7_200_000, 10**10])
def test_a_clock_that_jumps_costs_no_byte(jump_ms: int) -> None:
    master, broker = Master(), Broker()
    now_ms = minutes(master, broker, 1, 100)
    for second in range(1, 91):
        at_ms = now_ms + 1000 * second + (jump_ms if second > 30 else 0)
        broker.carry(ID, 100)
        report = msgspec.structs.replace(broker.report(at_ms), window_ms=1000)
        broker.answered()
        master.usage.receive(report, at_ms)
        master.tick(at_ms)
    told = recovered_bytes([*master.records, *master.usage.open_records()])
    assert told == {("a", ID): 6000 + 9000}
    assert len(master.records) <= 4


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Steps: what happens, how many ms pass before, an amount."""
    step = st.tuples(
        st.sampled_from(
            ["carry", "carry", "report", "report", "report", "full", "lose", "tick", "reboot", "fail over"]
        ),
        st.sampled_from([0, 1, 500, 1000, 1000, 1000, 7_003, 59_999, 60_000, 61_000, 200_000, 4_000_000]),
        st.integers(0, 10**7),
    )
    return draw(st.lists(step, min_size=1, max_size=60))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_records_and_totals_add_up_to_the_counters(history: list[tuple[str, int, int]]) -> None:
    """Any order of traffic, reports, losses, restarts of the broker and new masters, to the byte."""
    now_ms, boots = START_MS, 0
    master, broker = Master(), Broker(boot="boot-0")
    records: list[UsageRecord] = []
    expected: dict[tuple[str, str], int] = {}

    def reported() -> None:
        for instance_id, (produced, _) in broker.counters.items():
            if produced:
                expected[broker.boot, instance_id] = produced

    for what, passed_ms, amount in [*history, ("full", 1000, 0), ("tick", 0, 0), ("end", 0, 0)]:
        now_ms += passed_ms
        if what == "carry":
            broker.carry((ID, OTHER)[amount % 2], amount)
        elif what in ("report", "full"):
            master.hear(broker, now_ms, full=what == "full")
            reported()
        elif what == "lose":
            broker.report(now_ms)
        elif what == "tick":
            records += master.tick(now_ms)
        elif what == "reboot":
            boots += 1
            broker = Broker(boot=f"boot-{boots}", started_ms=now_ms, reported_ms=now_ms)
        else:  # the journal brings the open intervals of a master that ends
            records += master.tick(now_ms) + master.usage.open_records()
            if what == "fail over":
                master = Master()
                master.hear(broker, now_ms + 1, full=True)
                reported()
                now_ms += 1
    for record in records:
        assert record.interval_ms >= 1
        assert 0 <= record.produce_bytes <= record.produce_bytes_total
        assert (
            record.interval_start_ms // GRID_MS
            == (record.interval_start_ms + record.interval_ms - 1) // GRID_MS
        )
    sums = recovered_bytes([*records, *master.usage.take_records(now_ms + 10**7)])
    assert {pair: total for pair, total in sums.items() if total} == expected
