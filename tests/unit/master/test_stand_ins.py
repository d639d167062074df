"""Brokers that report nothing: what workers carry is summed up, leases become quotas, bytes billed once."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.quota import (
    NO_NODE,
    Direction,
    FlowCounters,
    InstanceTraffic,
    RelayedBroker,
    ReportAnswer,
    TrafficReport,
)
from contracts.specs import InstanceState
from contracts.usage_records import UsageRecord
from master.quota.client_quotas import Change, Entity, Rates, SetQuotas
from master.quota.stand_ins import StandIns, holdings_report
from master.usage.records import UsageAggregator
from tests.unit.master.reports import ID, OTHER, T, a_spec
from tests.unit.master.test_service import Harness

CLUSTER = "c"
NODES = (1, 2)


def carried(produced: int, consumed: int = 0, instance_id: str = ID, **produce: int) -> InstanceTraffic:
    return InstanceTraffic(
        instance_id=instance_id,
        produce=FlowCounters(used=produced, **produce),
        consume=FlowCounters(used=consumed),
        partitions_led=0,
        stored_bytes=0,
    )


def relayed(
    sequence: int, *carried_to: tuple[int, InstanceTraffic], worker: str = "gateway-0", boot: str = "a"
) -> TrafficReport:
    """A worker's report: (node, what it carried there)."""
    return TrafficReport(
        point=worker,
        node_id=NO_NODE,
        cluster_id="",
        boot_id=boot,
        sequence=sequence,
        window_ms=1_000,
        sent_at_ms=sequence * 1_000,
        uptime_ms=sequence * 1_000,
        full=sequence == 1,
        relayed=tuple(
            RelayedBroker(cluster_id=CLUSTER, node_id=node_id, instances=(traffic,))
            for node_id, traffic in carried_to
        ),
    )


class Relayed(Harness):
    """A master and one cluster that reports nothing: two brokers, of which the first leads two partitions."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.quotas = SetQuotas()
        self.service.engines[CLUSTER] = self.quotas

    def look(self, led: dict[int, tuple[int, int]] | None = None) -> dict[Entity, Rates]:
        """A period of the cluster's task; what it wants to have set."""
        led = led if led is not None else {1: (2, 600), 2: (1, 300)}
        found = {ID: led} if led else {}
        self.service.stand_ins.survey(CLUSTER, NODES, found, self.now_ms)
        self.service.report_stand_ins(CLUSTER)
        return self.service.stand_ins.shares(CLUSTER, self.specs)

    def hears(self, report: TrafficReport) -> ReportAnswer:
        return self.service.receive(report)

    def sets(self) -> None:
        """The cluster takes all that is wanted."""
        for change in self.quotas.due(self.service.stand_ins.shares(CLUSTER, self.specs), self.now_ms):
            self.quotas.done(change, self.now_ms)
        self.quotas.trust(self.now_ms + 30_000)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Relayed]:
    made = Relayed(tmp_path / "master.db")
    yield made
    for journal in made.journals:
        journal.close()


def test_every_broker_has_its_static_share_before_anything_is_carried(master: Relayed) -> None:
    of_brokers_us = master.specs[ID].cpu_us_per_s // 2
    assert master.look() == {
        Entity(ID, 1): Rates(2 * T // 3, 2 * T // 3, 3 * of_brokers_us // 5),
        Entity(ID, 2): Rates(T // 3, T // 3, 2 * of_brokers_us // 5),
    }


def test_request_time_goes_to_the_broker_that_has_the_work(master: Relayed) -> None:
    """As with bytes, and no restart of a worker or a master makes any of it."""
    bought_us = master.specs[ID].cpu_us_per_s
    first = master.look()
    for sequence in range(1, 8):
        busy = replace(
            carried(0), engine=FlowCounters(used=sequence * bought_us * 9 // 10, requests=sequence)
        )
        idle = replace(carried(0), engine=FlowCounters(used=sequence, requests=sequence))
        master.hears(relayed(sequence, (1, busy), (2, idle)))
        wanted = master.look()
        master.now_ms += 1_000
    assert wanted[Entity(ID, 1)].request_us_per_s > 1.2 * first[Entity(ID, 1)].request_us_per_s
    assert 0 < wanted[Entity(ID, 2)].request_us_per_s <= first[Entity(ID, 2)].request_us_per_s
    assert sum(each.request_us_per_s for each in wanted.values()) <= 1.1 * bought_us


def test_what_several_workers_carry_to_one_broker_is_one_rate(master: Relayed) -> None:
    master.look()
    for sequence in range(1, 5):
        for worker in ("gateway-0", "gateway-1"):
            node_2 = (2, carried(0))
            master.hears(relayed(sequence, (1, carried(sequence * 30_000_000)), node_2, worker=worker))
        wanted = master.look()
        master.now_ms += 1_000
    view = master.service.view(ID)
    assert view is not None
    assert [(one.node_id, one.produce.rate_per_s) for one in view.brokers] == [(1, 60_000_000), (2, 0)]
    assert wanted[Entity(ID, 1)].produce_bytes_per_s == T, "all traffic is at one broker"
    assert 0 < wanted[Entity(ID, 2)].produce_bytes_per_s < T // 3
    assert wanted[Entity(ID, 2)].consume_bytes_per_s == T // 3, "the other direction is quiet"


def test_a_worker_or_master_that_starts_anew_makes_no_traffic(master: Relayed) -> None:
    master.look()
    carried_so_far = []
    for sequence, produced, boot in ((7, 500_000_000, "a"), (8, 500_000_010, "a"), (1, 5, "b"), (2, 5, "b")):
        master.now_ms += 1_000
        master.hears(relayed(sequence, (1, carried(produced)), boot=boot))
        points = master.service.stand_ins.points(CLUSTER)
        carried_so_far.append(sum(point.charged_flow(ID, Direction.PRODUCE).used for point in points))
    assert carried_so_far == [0, 10, 15, 15]


def test_a_worker_gets_its_part_when_the_cluster_was_looked_at_and_is_told_whether_quotas_stand(
    master: Relayed,
) -> None:
    [lease] = master.hears(relayed(1, (1, carried(1)))).relayed
    assert (lease.instance_id, lease.cluster_id, lease.node_id) == (ID, CLUSTER, 1)
    assert lease.lease_ms == 0, "nobody knows who leads what"
    master.look()
    [lease] = master.hears(relayed(2, (1, carried(1)))).relayed
    assert (lease.lease_ms, lease.partitions_led, lease.partitions_total) == (5_000, 2, 3)
    assert lease.produce_rate_bytes_per_s == lease.consume_rate_bytes_per_s == 2 * T // 3
    assert not lease.quotas_stand, "a cluster that lets nobody set quotas has exact rates, too"
    master.sets()
    [lease, left] = master.hears(relayed(3, (9, carried(1)))).relayed
    assert lease.lease_ms == 0 and not lease.quotas_stand, "a broker that nobody has registered"
    assert (left.node_id, left.produce_rate_bytes_per_s) == (1, 2 * T // 3 // 20), (
        "what it no longer asks for"
    )
    [lease, _] = master.hears(relayed(4, (1, carried(1)))).relayed
    assert lease.lease_ms == 5_000 and lease.quotas_stand
    assert not master.hears(relayed(4, (1, carried(1)))).relayed, "a report counts once"
    master.now_ms += 30_000
    [lease] = master.hears(relayed(5, (1, carried(1)))).relayed
    assert lease.lease_ms == 0, "nobody has heard of the cluster for long"


def test_two_workers_at_one_broker_have_its_rate_together(master: Relayed) -> None:
    master.look({1: (1, 0)})
    held = {"gateway-0": 0, "gateway-1": 0}
    for sequence in range(1, 5):
        for worker in held:
            told = carried(sequence * T, throttled_ms=sequence * 1_000, rate_per_s=held[worker])
            [lease] = master.hears(relayed(sequence, (1, told), worker=worker)).relayed
            held[worker] = lease.produce_rate_bytes_per_s
        master.look({1: (1, 0)})
        master.now_ms += 1_000
    assert set(held.values()) == {T // 2}


def test_an_instance_at_capacity_is_blocked_at_every_broker_before_the_next_look(master: Relayed) -> None:
    master.look({1: (1, 999_000), 2: (1, 0)})
    assert not master.hears(relayed(1, (2, carried(0)))).relayed[0].blocked
    master.hears(relayed(2, (1, carried(1_000)), worker="gateway-1"))
    master.hears(relayed(3, (1, carried(2_000)), worker="gateway-1"))
    master.now_ms += 1_000
    master.service.report_stand_ins(CLUSTER)
    master.service.tick()
    [lease] = master.hears(relayed(2, (2, carried(0)))).relayed
    assert lease.blocked and lease.stored_bytes >= 1_000_000
    master.now_ms += 1_000
    master.look({1: (1, 100), 2: (1, 0)})
    assert not master.hears(relayed(3, (2, carried(0)))).relayed[0].blocked


SETTLED_MS = 6_000
"""Five rounds, and what is under way."""
REQUEST_BYTES = T // 12
"""So large that a worker with half of F carries two in one second and one in the next."""


@pytest.mark.parametrize("workers", [("gateway-0",), ("gateway-0", "gateway-1")], ids=len)
@pytest.mark.parametrize("seed", range(4))
def test_a_hot_broker_has_its_rate_in_five_rounds_and_keeps_it_whenever_who_reports(
    master: Relayed, seed: int, workers: tuple[str, ...]
) -> None:
    """The traffic of all workers goes to one of three brokers, another one every 20 s. Neither they nor the
    looks at the cluster keep step."""
    chance = random.Random(seed)
    nodes = (1, 2, 3)
    led = dict.fromkeys(nodes, (1, 0))
    due_ms = {worker: chance.randint(0, 999) for worker in workers}
    sequences, look_ms = dict.fromkeys(workers, 0), 0
    held = {(worker, node): T // 6 for worker in workers for node in nodes}
    used, paid, throttled_ms = (dict.fromkeys(held, 0) for _ in range(3))
    begun_ms = master.now_ms
    for now_ms in range(0, 80_000, 10):
        master.now_ms = begun_ms + now_ms
        hot = nodes[now_ms // 20_000 % 3]
        for worker in workers:
            paid[worker, hot] += held[worker, hot] // 100
            if paid[worker, hot] >= 0:  # carried whole, and paid afterwards
                used[worker, hot] += REQUEST_BYTES
                paid[worker, hot] -= REQUEST_BYTES
            throttled_ms[worker, hot] += 10
            if now_ms >= due_ms[worker]:
                due_ms[worker] = now_ms + 1_000 + chance.randint(0, 60)
                sequences[worker] += 1
                told = [
                    (
                        node,
                        carried(
                            used[worker, node],
                            throttled_ms=throttled_ms[worker, node],
                            rate_per_s=held[worker, node],
                        ),
                    )
                    for node in nodes
                ]
                for lease in master.hears(relayed(sequences[worker], *told, worker=worker)).relayed:
                    if lease.lease_ms:
                        held[worker, lease.node_id] = lease.produce_rate_bytes_per_s
        if now_ms >= look_ms:
            look_ms = now_ms + 1_000 + chance.randint(0, 60)
            master.service.stand_ins.survey(CLUSTER, nodes, {ID: led}, master.now_ms)
            master.service.await_stand_ins(CLUSTER)
        if now_ms % 20_000 > SETTLED_MS:
            assert 0.95 * T <= sum(held[worker, hot] for worker in workers) <= 1.05 * T, now_ms


def test_stand_ins_report_by_themselves_where_no_worker_does(master: Relayed) -> None:
    stand_ins = master.service.stand_ins

    def have_reported(after_ms: int) -> bool:
        master.now_ms += after_ms
        stand_ins.survey(CLUSTER, NODES, {ID: {1: (1, 0)}}, master.now_ms)
        master.service.await_stand_ins(CLUSTER)
        return stand_ins.silence_ms(CLUSTER, master.now_ms) == 0

    assert have_reported(0) and not have_reported(1_499) and have_reported(1)
    master.now_ms += 749
    master.hears(relayed(1, (1, carried(1))))
    assert not have_reported(0), "a worker's report is no reason to report more often than brokers do"
    master.now_ms += 1
    master.hears(relayed(2, (1, carried(1))))
    assert have_reported(0)


@pytest.mark.parametrize("workers", [2, 20])
def test_stand_ins_report_about_once_a_period_however_many_workers_do(master: Relayed, workers: int) -> None:
    master.look()
    before = master.service.reports["accepted"]
    reported_ms = []
    seconds = 12
    for sequence in range(1, seconds + 1):
        for number in range(workers):
            master.now_ms += 1_000 // workers
            master.hears(relayed(sequence, (1, carried(sequence)), worker=f"gateway-{number}"))
            if master.service.stand_ins.silence_ms(CLUSTER, master.now_ms) == 0:
                reported_ms.append(master.now_ms)
    made = master.service.reports["accepted"] - before - seconds * workers
    assert made == len(reported_ms) * len(NODES)
    assert seconds // 2 <= len(reported_ms) <= seconds * 4 // 3
    assert all(later - earlier >= 750 for earlier, later in pairwise(reported_ms))


def test_a_worker_that_is_not_heard_of_carries_nothing_after_a_while(master: Relayed) -> None:
    master.look()
    master.hears(relayed(1, (1, carried(9_000))))
    used = []
    for _ in range(5):
        master.now_ms += 1_000
        master.look()
        [point, _] = master.service.stand_ins.points(CLUSTER)
        used.append(point.charged_flow(ID, Direction.PRODUCE).used)
    assert used == [9_000, 18_000, 18_000, 18_000, 18_000]


def test_a_deleted_instance_is_wanted_nowhere(master: Relayed) -> None:
    master.look()
    master.specs[ID] = a_spec(state=InstanceState.DELETED)
    assert master.look() == {}
    master.specs[OTHER] = a_spec(OTHER, cluster_id="elsewhere")
    assert master.look() == {}


def test_a_purged_instance_is_forgotten_and_one_that_is_not_told_of_is_not(master: Relayed) -> None:
    points = master.service.stand_ins.points
    master.specs[OTHER] = a_spec(OTHER)
    master.look()
    del master.specs[OTHER]
    master.specs[ID] = a_spec(state=InstanceState.DELETED)
    master.now_ms += 1_000
    master.look({})
    assert all(point.flow(ID, Direction.PRODUCE) is not None for point in points(CLUSTER))
    del master.specs[ID]
    for _ in range(2):
        master.now_ms += 1_000
        master.look({})
    assert all(point.flow(ID, Direction.PRODUCE) is None for point in points(CLUSTER))
    assert all(point.flow(OTHER, Direction.PRODUCE) is not None for point in points(CLUSTER))


def test_every_byte_is_billed_once_whoever_restarts() -> None:
    """Two masters one after the other, each with its own aggregator; a worker that is idle in between."""
    records: list[UsageRecord] = []
    specs = {ID: a_spec()}
    at_ms = 10**12
    for sequences in ((1, 2, 3), (90, 91, 92)):
        stand_ins, bills = StandIns(f"run {sequences}", 5_000), UsageAggregator(lambda: specs, 60_000)
        for sequence in sequences:
            traffic = () if sequence % 3 == 0 else ((1, carried(70 * sequence, 7 * sequence)),)
            for report in stand_ins.receive(relayed(sequence, *traffic), sequence * 1_000):
                bills.receive(report, at_ms + sequence * 1_000)
        records += bills.open_records()
    assert {record.point for record in records} == {"c-broker-1/gateway-0"}
    assert {record.node_id for record in records} == {1}
    assert len({record.boot_id for record in records}) == 1, "the worker's run, not the masters'"
    first, second = records
    assert (first.produce_bytes, first.consume_bytes) == (140, 14), "its run begins at zero"
    assert first.produce_bytes_total == 140
    assert second.produce_bytes_total == 70 * 92, "totals tell of what no master saw"
    assert second.produce_bytes == 70


def test_a_stand_in_is_billed_for_what_is_stored_and_not_again_for_what_was_carried(master: Relayed) -> None:
    master.look()
    master.hears(relayed(1, (1, carried(70, 7))))
    [point, _] = master.service.stand_ins.points(CLUSTER)
    report = holdings_report(point.report(master.now_ms, 0))
    [told] = report.instances
    assert (told.partitions_led, told.stored_bytes) == (2, 670)
    assert told.produce.used == told.consume.used == told.produce.throttled_ms == 0
    assert master.service.stand_ins.stands_in(report.point)


def test_a_change_of_quotas_is_not_lost_between_looks(master: Relayed) -> None:
    wanted = master.look()
    assert master.quotas.due(wanted, 0) == [Change(entity, rates) for entity, rates in wanted.items()]
    master.sets()
    assert not master.quotas.due(master.look(), master.now_ms)
