"""Points, master and clients together on a virtual clock: what a tenant and an operator would measure."""

import pytest

from contracts.quota import BYTE_DIRECTIONS, Direction
from contracts.quota_view import Rule
from tests.integration.quota.world import ID, Client, World, measure

MB = 1_000_000
T = 5 * MB


def three_brokers(rate: int = 30 * MB, seed: int = 1, **settings: object) -> World:
    world = World(seed, **settings)
    for node_id in (1, 2, 3):
        world.add_broker(node_id)
    world.add_instance(rate)
    world.run(3_000)
    return world


@pytest.mark.parametrize("direction", BYTE_DIRECTIONS)
@pytest.mark.parametrize("connections", [1, 8])
@pytest.mark.parametrize("size_bytes", [16_384, MB])
def test_thirty_seconds_at_full_load_are_what_was_bought(
    direction: Direction, connections: int, size_bytes: int
) -> None:
    world = World(7)
    broker = world.add_broker(1, partitions_led=3)
    world.add_instance(T)
    clients = [Client(broker, size_bytes, direction=direction) for _ in range(connections)]
    world.run(5_000)
    for _window in range(4):
        rate = measure(world, clients, 30_000)
        print(f"{direction} {connections} x {size_bytes}: {rate / T:.4f} T")
        assert 0.95 * T <= rate <= 1.02 * T
    shares = sorted(client.delivered for client in clients)
    assert shares[0] > 0.8 * shares[-1], "connections of one instance share alike"


def test_throttle_is_told_and_never_above_thirty_seconds() -> None:
    world = World(3)
    broker = world.add_broker(1)
    world.add_instance(100_000)
    clients = [Client(broker, MB) for _ in range(8)]
    rate = measure(world, clients, 600_000)
    assert 0.9 * 100_000 <= rate <= 1.2 * 100_000
    assert max(t for client in clients for t in client.throttles) == 30_000


@pytest.mark.parametrize("policy", ["seed", "capped", "fair"])
def test_a_hot_partition_gets_nearly_all_within_five_rounds(policy: str) -> None:
    world = three_brokers(policy=policy)
    hot = [Client(world.brokers[1], 64_000) for _ in range(4)]
    world.run(5_000)
    rate = measure(world, hot, 10_000)
    assert rate > 0.95 * 30 * MB, "a static split would give it a third"
    assert world.master is not None
    view = world.master.view(ID)
    assert view is not None
    assert view.produce.rule is (Rule.LEVEL if policy == "fair" else Rule.HEADROOM)
    assert [b.produce.proportion_per_s for b in view.brokers] == [30 * MB, 0, 0]
    others = 3 * MB if policy == "seed" else MB * 3 // 2
    assert [b.produce.allocated_per_s for b in view.brokers] == [30 * MB, others, others]


def test_static_policy_gives_the_hot_partition_its_third() -> None:
    world = three_brokers(policy="static")
    hot = [Client(world.brokers[1], 64_000) for _ in range(4)]
    world.run(5_000)
    assert measure(world, hot, 10_000) == pytest.approx(10 * MB, rel=0.03)


def test_rebalance_when_the_others_wake_up() -> None:
    world = three_brokers()
    hot = [Client(world.brokers[1], 64_000) for _ in range(4)]
    world.run(10_000)
    others = [Client(world.brokers[n], 64_000) for n in (2, 3) for _ in range(4)]
    world.run(30_000)
    per_broker = [measure(world, hot, 10_000), measure(world, others, 10_000) / 2]
    assert per_broker[0] == pytest.approx(10 * MB, rel=0.35)
    assert per_broker[1] == pytest.approx(10 * MB, rel=0.35)


@pytest.mark.parametrize(
    ("policy", "bound"), [("seed", 1.25), ("capped", 1.15), ("fair", 1.02), ("static", 1.05)]
)
def test_greedy_everywhere_stays_within_the_policys_bound(policy: str, bound: float) -> None:
    world = three_brokers(policy=policy)
    clients = [Client(world.brokers[n], 64_000) for n in (1, 2, 3) for _ in range(3)]
    world.run(10_000)
    rate = measure(world, clients, 30_000)
    print(f"{policy}: {rate / (30 * MB):.3f} T")
    assert 0.95 * 30 * MB <= rate <= bound * 30 * MB


@pytest.mark.parametrize("seed", range(3))
def test_lost_reports_do_not_jolt_anyone(seed: int) -> None:
    world = three_brokers(seed=seed)
    world.report_loss = 0.2
    hot = [Client(world.brokers[1], 64_000) for _ in range(4)]
    world.run(10_000)
    rate = measure(world, hot, 60_000)
    assert 0.75 * 30 * MB <= rate <= 1.05 * 30 * MB


def test_no_master_at_all_leaves_the_share_never_more_never_nothing() -> None:
    world = three_brokers()
    hot = [Client(world.brokers[1], 64_000) for _ in range(4)]
    world.run(5_000)
    world.stop_master()
    world.run(2_000)
    assert world.brokers[1].applied_rate == 30 * MB, "the lease is still good"
    world.run(5_000)
    assert [broker.applied_rate for broker in world.brokers.values()] == [10 * MB] * 3
    assert measure(world, hot, 10_000) == pytest.approx(10 * MB, rel=0.05)


def test_failover_starts_from_the_rates_in_force() -> None:
    world = three_brokers()
    hot = [Client(world.brokers[1], 64_000) for _ in range(4)]
    world.run(5_000)
    epoch = world.master.view(ID).brokers[0].lease_epoch  # type: ignore[union-attr]
    world.stop_master()
    world.run(1_500)
    world.start_master()
    lowest, highest = 30 * MB, 0
    for _ in range(60):
        world.run(100)
        lowest = min(lowest, world.brokers[1].applied_rate)
        highest = max(highest, world.allocated())
    assert lowest >= 0.95 * 30 * MB
    assert highest <= 1.21 * 30 * MB
    assert measure(world, hot, 5_000) > 0.95 * 30 * MB
    assert world.master.view(ID).brokers[0].lease_epoch > epoch  # type: ignore[union-attr]


def test_failover_while_a_broker_is_gone_reserves_its_share() -> None:
    world = three_brokers()
    clients = [Client(world.brokers[n], 64_000) for n in (1, 2) for _ in range(3)]
    world.run(5_000)
    world.brokers[3].stop()
    world.stop_master()
    world.start_master()
    world.run(5_000)
    view = world.master.view(ID)  # type: ignore[union-attr]
    assert view is not None
    assert [broker.silent for broker in view.brokers] == [False, False, True]
    assert view.produce.reserved_per_s == 10 * MB
    assert measure(world, clients, 20_000) == pytest.approx(20 * MB, rel=0.11)
    world.brokers[3].start()
    world.run(3_000)
    view = world.master.view(ID)  # type: ignore[union-attr]
    assert view is not None and view.produce.reserved_per_s == 0


def test_broker_restart_forgets_neither_the_block_nor_the_lease() -> None:
    world = World(5)
    broker = world.add_broker(1)
    world.add_instance(T, capacity=20 * MB)
    clients = [Client(broker, 100_000) for _ in range(2)]
    world.run(10_000)
    assert broker.stored_bytes >= 20 * MB
    world.stop_master()
    broker.stop()
    world.run(60_000)
    broker.start()
    stored = broker.stored_bytes
    world.run(10_000)
    assert broker.stored_bytes == stored and clients[0].refused > 0


@pytest.mark.parametrize("with_master", [True, False])
def test_full_blocks_at_once_and_deleting_lifts_it_within_a_period(with_master: bool) -> None:
    world = World(2)
    broker = world.add_broker(1)
    world.add_instance(T, capacity=20 * MB)
    producers = [Client(broker, 100_000) for _ in range(4)]
    consumer = Client(broker, 100_000, direction=Direction.CONSUME)
    world.run(10_000)
    assert 20 * MB <= broker.stored_bytes < 20 * MB + 4 * 100_000, "one request per connection at most"
    assert all(client.refused for client in producers)
    view = world.master.view(ID)  # type: ignore[union-attr]
    assert view is not None and view.blocked and "blocked" in view.produce.explanation
    assert measure(world, [consumer], 10_000) == pytest.approx(T, rel=0.05), "consume is untouched"
    if not with_master:
        world.stop_master()
    broker.stored_bytes = 19_600_000
    world.run(2_000)
    assert broker.stored_bytes == 19_600_000, "98 % is not below 98 %"
    broker.stored_bytes = 10 * MB
    world.run(2_000)
    assert broker.stored_bytes > 10 * MB


def test_capacity_over_several_brokers_overshoots_by_one_period_at_most() -> None:
    world = World(4)
    for node_id in (1, 2, 3):
        world.add_broker(node_id)
    world.add_instance(30 * MB, capacity=200 * MB)
    for node_id in (1, 2, 3):
        Client(world.brokers[node_id], 64_000)
    world.run(20_000)
    stored = sum(broker.stored_bytes for broker in world.brokers.values())
    assert 200 * MB <= stored <= 200 * MB + 2 * 36 * MB
    before = world.brokers[2].stored_bytes
    world.brokers[1].stored_bytes = 0
    world.run(3_000)
    assert world.brokers[2].stored_bytes > before, "what one broker freed another may fill"


def test_resize_takes_effect_within_two_periods() -> None:
    world = World(6)
    broker = world.add_broker(1)
    world.add_instance(T)
    clients = [Client(broker, 64_000) for _ in range(4)]
    world.run(10_000)
    world.add_instance(2 * T)
    world.run(2_050)
    assert broker.applied_rate == 2 * T
    assert measure(world, clients, 10_000) == pytest.approx(2 * T, rel=0.05)
    world.add_instance(T // 2)
    world.run(2_050)
    assert broker.applied_rate == T // 2


def test_moved_partition_moves_the_share_within_two_periods() -> None:
    world = three_brokers()
    world.move_leaders(1, 1, 2)
    world.run(2_050)
    view = world.master.view(ID)  # type: ignore[union-attr]
    assert view is not None
    assert [(b.node_id, b.produce.share_per_s) for b in view.brokers] == [(2, 20 * MB), (3, 10 * MB)]


def test_polite_clients_are_never_throttled() -> None:
    world = three_brokers()
    clients = [Client(world.brokers[n], 16_384, rate_bytes_per_s=6 * MB) for n in (1, 2, 3)]
    world.run(60_000)
    assert sum(t for client in clients for t in client.throttles) == 0


def test_the_same_seed_is_the_same_run() -> None:
    def run() -> tuple[int, int]:
        world = three_brokers(seed=11)
        world.report_loss = 0.3
        clients = [Client(world.brokers[n], 64_000) for n in (1, 2)]
        world.run(20_000)
        return clients[0].delivered, clients[1].delivered

    assert run() == run()
