"""What a gateway worker counts and limits in place of brokers that are not ours."""

from msgspec.structs import replace

from contracts.quota import Direction, RelayedLease
from contracts.specs import FullBehaviour, InstanceSpec, InstanceState, Listener
from traffic.flow import REPORTED_THROTTLE_MS_MAX
from traffic.relayed import Place, RelayedFlows, Relays
from traffic.verdict import Full

ID = "iaaaaaaaaaaa"
CLUSTER = "apache-1"
T = 900_000
WORKERS = 2


def listener(node_id: int | None) -> Listener:
    return Listener(bind_host="127.0.0.1", port=1, advertised_host="vip", node_id=node_id)


SPEC = InstanceSpec(
    revision=1,
    instance_id=ID,
    tenant="t",
    name="n",
    state=InstanceState.ACTIVE,
    cluster_id=CLUSTER,
    produce_rate_bytes_per_s=T,
    consume_rate_bytes_per_s=2 * T,
    capacity_bytes=10_000,
    listeners=tuple(map(listener, (None, 1, 2, 3))),
)


def lease(**changes: object) -> RelayedLease:
    given = RelayedLease(
        instance_id=ID,
        cluster_id=CLUSTER,
        node_id=1,
        lease_ms=5_000,
        partitions_led=1,
        partitions_total=3,
        blocked=False,
        stored_bytes=0,
        produce_rate_bytes_per_s=T // 4,
        consume_rate_bytes_per_s=T // 5,
        quotas_stand=True,
    )
    return replace(given, **changes)


def made() -> tuple[Relays, RelayedFlows]:
    relays = Relays()
    relays.set_spec(SPEC, 0)
    relays.keep_time(WORKERS, 0)
    return relays, relays.flows(SPEC, 1, 0)


def rates(flows: RelayedFlows) -> tuple[int, int]:
    return flows.produce.rate_per_s, flows.consume.rate_per_s


def test_before_the_first_lease_a_worker_has_its_part_of_a_brokers_part() -> None:
    _, flows = made()
    assert rates(flows) == (T // 3 // WORKERS, 2 * T // 3 // WORKERS)
    assert flows.wait_ms(Direction.PRODUCE, 0) == 0
    flows.produce.charge(T, 0)
    assert flows.wait_ms(Direction.PRODUCE, 0) > 1_000 and flows.wait_ms(Direction.CONSUME, 0) == 0


def test_a_worker_holds_to_its_parts_while_their_lease_does_and_then_to_no_more_than_f() -> None:
    relays, flows = made()
    relays.apply([lease(partitions_led=2)], 100)
    assert rates(flows) == (T // 4, T // 5) and flows.on_lease
    relays.keep_time(WORKERS, 5_099)
    assert flows.on_lease
    relays.keep_time(WORKERS, 5_100)
    assert not flows.on_lease
    assert rates(flows) == (2 * T // 3 // WORKERS, 4 * T // 3 // WORKERS), "as much as any other worker"


def test_who_had_more_than_others_goes_on_with_it_where_the_brokers_quotas_stand() -> None:
    relays, flows = made()
    for stand, part, expected in (
        (True, T // 4, T // 4),
        (True, T, T // 3),
        (False, T // 4, T // 3 // WORKERS),
        (True, 1, T // 3 // WORKERS),
    ):
        relays.apply([lease(produce_rate_bytes_per_s=part, quotas_stand=stand)], 0)
        relays.keep_time(WORKERS, 5_000)
        assert flows.produce.rate_per_s == expected


def test_where_there_is_no_part_workers_share_f_whatever_they_had() -> None:
    relays, flows = made()
    relays.apply([lease()], 100)
    relays.apply([lease(lease_ms=0, quotas_stand=False)], 200)
    assert rates(flows) == (T // 3 // WORKERS, 2 * T // 3 // WORKERS)
    relays.apply([lease(produce_rate_bytes_per_s=0, consume_rate_bytes_per_s=0)], 300)
    assert not flows.on_lease and all(rates(flows)), "nobody is unlimited"


def test_a_broker_that_leads_nothing_has_a_share_all_the_same() -> None:
    relays, flows = made()
    relays.apply([lease(lease_ms=0, quotas_stand=False, partitions_led=0, partitions_total=4)], 100)
    assert rates(flows)[0] == T // 5 // WORKERS


def test_another_rate_is_followed() -> None:
    relays, flows = made()
    relays.set_spec(replace(SPEC, revision=2, produce_rate_bytes_per_s=2 * T), 10)
    assert rates(flows)[0] == 2 * T // 3 // WORKERS


def test_a_full_instance_is_refused_with_the_brokers_own_words_until_room_is_told() -> None:
    relays, _ = made()
    assert relays.full(ID) is None
    assert relays.apply([lease(blocked=True, stored_bytes=12_345)], 0) == {ID}
    assert relays.full(ID) == Full(
        f"instance {ID} is full: 12345 of 10000 bytes stored; delete data, shorten retention or resize",
        FullBehaviour.REJECT,
    )
    relays.keep_time(WORKERS, 60_000)
    assert relays.full(ID) is not None, "the end of a lease frees nobody"
    assert relays.apply([lease()], 60_000) == {ID}
    assert relays.full(ID) is None and not relays.apply([lease()], 60_000)


def test_reports_repeat_what_was_not_answered_and_ask_for_leases_while_clients_are_there() -> None:
    relays, flows = made()
    relays.report(full=False)
    relays.apply((), 0)
    assert relays.report(full=False) == ()
    flows.produce.charge(7, 0)
    for _ in range(2):
        [told] = relays.report(full=False)
        [traffic] = told.instances
        assert (told.cluster_id, told.node_id) == (CLUSTER, 1)
        assert (traffic.instance_id, traffic.produce.used, traffic.produce.requests) == (ID, 7, 1)
    relays.apply((), 0)
    assert relays.report(full=False) == () and len(relays.report(full=True)) == 1
    relays.apply((), 0)
    flows.connections += 1
    assert len(relays.report(full=False)) == 1


def test_time_that_several_connections_wait_at_once_counts_once() -> None:
    _, flows = made()
    flows.broker_throttles(Direction.PRODUCE, 500, 1_000)
    flows.broker_throttles(Direction.PRODUCE, 500, 1_200)
    flows.broker_throttles(Direction.PRODUCE, 100, 1_300)
    assert flows.produce.throttled_ms == 700
    flows.broker_throttles(Direction.CONSUME, 50, 1_300)
    assert flows.consume.throttled_ms == 50


def test_a_purged_instance_is_forgotten() -> None:
    relays, _ = made()
    relays.set_spec(replace(SPEC, state=InstanceState.PURGED), 0)
    assert relays.report(full=True) == () and relays.full(ID) is None


def test_who_has_little_yet_tells_clients_to_wait_as_long_as_an_equal_part_would_take() -> None:
    relays, flows = made()
    relays.apply([lease(produce_rate_bytes_per_s=T // 1000)], 0)
    flows.produce.charge(T, 0)
    assert flows.wait_ms(Direction.PRODUCE, 0) > 900_000
    assert 5_900 < flows.told_ms(Direction.PRODUCE, 0) <= 6_000
    relays.apply([lease(produce_rate_bytes_per_s=T // 3)], 0)
    assert flows.told_ms(Direction.PRODUCE, 0) == flows.wait_ms(Direction.PRODUCE, 0) <= 3_000
    flows.produce.charge(100 * T, 0)
    assert flows.told_ms(Direction.PRODUCE, 0) == REPORTED_THROTTLE_MS_MAX


RATE = 1_000
"""Bytes per second: one per millisecond, and 250 of them are there to begin with."""


def limited() -> RelayedFlows:
    flows = RelayedFlows(ID, 1)
    flows.produce.set_rate(RATE, 0)
    flows.consume.set_rate(RATE, 0)
    return flows


def test_produce_requests_are_carried_one_after_the_other_in_the_order_in_which_they_came() -> None:
    flows = limited()
    first, second, third = Place(flows), Place(flows), Place(flows)
    assert first.produce_wait_ms(1_250, 0) == 0, "nothing is owed"
    assert second.produce_wait_ms(500, 0) == 1_000
    assert third.produce_wait_ms(1, 0) == 1_500
    first.produced(1_250, 10)
    assert (first.produce_wait_ms(7, 10), flows.produce.used) == (1_491, 1_250), "behind those that wait"
    assert second.produce_wait_ms(500, 999) == 1 and second.produce_wait_ms(500, 1_000) == 0
    second.produced(500, 1_100)
    assert third.produce_wait_ms(1, 1_499) == 1 and third.produce_wait_ms(1, 1_500) == 0


def test_who_leaves_while_it_waits_has_cost_nothing_and_holds_nobody_up() -> None:
    flows = limited()
    first, leaving, last = Place(flows), Place(flows), Place(flows)
    first.produce_wait_ms(1_250, 0)
    first.produced(1_250, 0)
    leaving.produce_wait_ms(100_000, 0)
    leaving.cut(0, 0)
    assert (flows.produce.used, flows.produce.overhead) == (1_250, 0)
    assert last.produce_wait_ms(1, 0) == 1_000
    last.cut(0, 0)
    cut_short = Place(flows)
    cut_short.produce_wait_ms(500, 1_000)
    cut_short.cut(200, 1_000)
    assert (flows.produce.used, flows.produce.overhead) == (1_250, 200), "as far as it came"
    assert Place(flows).produce_wait_ms(1, 1_000) == 200


def test_a_fetch_waits_for_what_the_answer_before_cost_and_a_late_one_for_all_that_is_owed() -> None:
    flows = limited()
    first, second = Place(flows), Place(flows)
    assert first.fetch_wait_ms(0) == second.fetch_wait_ms(0) == 0
    first.fetched(1_250, 0)
    second.fetched(500, 0)
    assert (first.fetch_wait_ms(0), second.fetch_wait_ms(0)) == (1_000, 1_500)
    assert Place(flows).fetch_wait_ms(0) == 1_500, "a new connection is no way round it"
    assert (first.fetch_wait_ms(1_000), second.fetch_wait_ms(1_000)) == (0, 500)
    first.fetched(0, 1_000)
    first.fetched(0, 1_000)
    assert second.fetch_wait_ms(1_500) == 0
    second.fetched(3_000, 1_500)
    late = first.fetch_wait_ms(1_600)
    assert late == 2_900 and first.fetch_wait_ms(4_499) == 1 and first.fetch_wait_ms(4_500) == 0


def test_over_any_time_no_more_is_carried_than_the_rate_a_burst_and_what_is_under_way() -> None:
    flows = limited()
    places = [Place(flows) for _ in range(8)]
    carried = []
    for now_ms in range(0, 60_000, 10):
        for place in places:
            if place.produce_wait_ms(300, now_ms) == 0:
                place.produced(300, now_ms)
                carried.append((now_ms, 300))
    for begins_ms in range(0, 30_000, 1_000):
        size = sum(size for at_ms, size in carried if begins_ms <= at_ms < begins_ms + 30_000)
        assert 0.98 * 30_000 <= size <= 30_000 + 250 + 300
