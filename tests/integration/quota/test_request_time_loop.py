"""Request time over many rounds: what a tenant gets that obeys no one, whatever restarts, hops or dies."""

import pytest

from contracts.quota import Direction
from tests.integration.quota.cpu_world import ID, CpuWorld

GREEDY = 10**9
POLICIES = ["seed", "capped", "fair"]


def world(policy: str = "seed", gateways: int = 4, brokers: int = 3) -> CpuWorld:
    return CpuWorld(brokers=brokers, gateways=gateways, percent=80, policy=policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_broker_and_one_worker_get_all_that_was_bought(policy: str) -> None:
    made = world(policy)
    made.want(GREEDY, "broker-1", "gateway-0")
    made.run(5_000)
    assert 0.95 <= made.run(20_000) <= 1.05, "static shares give them 0.29 T"


@pytest.mark.parametrize("policy", [*POLICIES, "static"])
def test_all_points_at_once_get_what_was_bought(policy: str) -> None:
    made = world(policy)
    made.want(GREEDY)
    made.run(5_000)
    assert 0.95 <= made.run(20_000) <= 1.06


@pytest.mark.parametrize("policy", POLICIES)
def test_who_wakes_up_everywhere_is_bounded_at_once(policy: str) -> None:
    made = world(policy, gateways=8)
    made.want(GREEDY, "gateway-0")
    made.run(10_000)
    made.want(GREEDY)
    seconds = [made.run(1_000) for _ in range(8)]
    print([round(second, 2) for second in seconds])
    assert seconds[0] <= 3.3, "a second's burst of T, and idle shares besides the lease"
    assert seconds[1] <= 1.8 and max(seconds[4:]) <= 1.25


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("period_ms", [200, 500, 1_000, 2_000])
def test_hopping_between_workers_buys_nothing(policy: str, period_ms: int) -> None:
    made = world(policy)

    def hop() -> None:
        for number in range(2):
            is_turn = made.now_ms // period_ms % 2 == number
            made.processes[f"gateway-{number}"].wants_us_per_s = GREEDY if is_turn else 0

    made.run(10_000, hop)
    assert made.run(20_000, hop) <= 1.06


@pytest.mark.parametrize("policy", POLICIES)
def test_restarts_of_workers_forgive_nothing(policy: str) -> None:
    made = world(policy)
    made.want(GREEDY)
    made.run(5_000)

    def restart() -> None:
        if made.now_ms % 700 == 0:
            made.processes[f"gateway-{made.now_ms // 700 % 4}"].restart()

    assert 0.9 <= made.run(20_000, restart) <= 1.1


def test_without_a_master_shares_apply_never_more_than_t_and_never_nothing() -> None:
    made = world()
    made.want(GREEDY, "gateway-0")
    made.run(10_000)
    made.master = None
    made.run(6_000)
    rates = [process.rate_us_per_s for process in made.processes.values()]
    assert min(rates) > 0 and sum(rates) <= made.purchased
    made.want(GREEDY)
    made.run(5_000)
    assert 0.95 <= made.run(10_000) <= 1.01


def test_a_new_master_jolts_nobody() -> None:
    made = world()
    made.want(GREEDY, "gateway-0")
    made.run(10_000)
    made.master = None
    made.run(2_000)
    made.start_master()
    lowest = made.purchased
    for _ in range(100):
        made.run(100)
        lowest = min(lowest, made.processes["gateway-0"].rate_us_per_s)
    assert lowest >= 0.95 * made.purchased


def test_honest_clients_within_the_default_are_never_held_back() -> None:
    """A worker and a broker that carry what was bought in requests of 16 kB, as measured."""
    made = CpuWorld(brokers=3, gateways=4, percent=96)  # the default of 10 MB/s each way
    made.want(20 * 5_500, "gateway-0")
    made.want(20 * 6_250, "broker-1")
    made.run(20_000)
    flows = [process.point.flow(ID, Direction.CPU) for process in made.processes.values()]
    assert [flow.throttled_ms for flow in flows if flow is not None] == [0] * 7


def test_a_dead_workers_share_comes_back_to_the_others() -> None:
    made = world(gateways=2, brokers=1)
    made.want(GREEDY)
    made.run(10_000)
    gone = made.processes.pop("gateway-1")
    assert gone.rate_us_per_s > 0
    made.run(10_000)
    assert made.run(10_000) <= 0.85, "reserved: it may be alive"
    made.run(50_000)
    assert made.run(10_000) >= 0.95
    assert made.master is not None
    view = made.master.view(ID)
    assert view is not None and {each.point for each in view.cpu.points} == {"broker-1", "gateway-0"}
