"""What a gateway worker counts and limits in place of brokers that are not ours."""

from msgspec.structs import replace

from contracts.quota import Direction, RelayedLease
from contracts.specs import FullBehaviour, InstanceSpec, InstanceState, Listener
from traffic.flow import UNLIMITED
from traffic.relayed import RelayedFlows, Relays
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


def test_with_a_lease_the_broker_limits_and_at_its_end_f_holds() -> None:
    relays, flows = made()
    relays.apply([lease(partitions_led=2)], 100)
    assert rates(flows) == (UNLIMITED, UNLIMITED)
    flows.produce.charge(10 * T, 200)
    assert flows.wait_ms(Direction.PRODUCE, 200) == 0
    relays.keep_time(WORKERS, 5_099)
    assert not flows.is_limited
    relays.keep_time(WORKERS, 5_100)
    assert rates(flows) == (2 * T // 3, 4 * T // 3), "the quotas at the broker bound all workers together"


def test_where_the_quotas_do_not_stand_workers_share_f() -> None:
    relays, flows = made()
    relays.apply([lease()], 100)
    relays.apply([lease(lease_ms=0)], 200)
    assert rates(flows) == (T // 3 // WORKERS, 2 * T // 3 // WORKERS)


def test_a_broker_that_leads_nothing_has_a_share_all_the_same() -> None:
    relays, flows = made()
    relays.apply([lease(lease_ms=0, partitions_led=0, partitions_total=4)], 100)
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
