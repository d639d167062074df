"""The simulator: figures from known records, some of its scenarios, and the command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctl.errors import CommandError
from ctl.main import command_line
from ctl.quota_simulation.metrics import Metrics, Record, Round, jain_index, judge, max_min_fair
from ctl.quota_simulation.run import simulate
from ctl.quota_simulation.scenarios import SCENARIOS
from ctl.quota_simulation.table import BEGIN, END, cells, over_runs, replaced, run_all

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SEEDS = (1, 2)
NOTHING = 0.05
"""Of T, in one round or in sum: no overshoot to speak of."""


def figures(scenario: str, policy: str, rounds: int = 60) -> Metrics:
    print(f"{scenario} under {policy}, seeds {SEEDS}")
    return over_runs([simulate(BY_NAME[scenario], policy, seed, rounds).metrics for seed in SEEDS])


def a_round(demand: tuple[float, ...], delivered: tuple[float, ...], issued: float = 1.0) -> Round:
    return Round(demand, delivered, (issued,), churn=0.5, wrongful=0.25)


def test_max_min_fair_share() -> None:
    assert max_min_fair((2.0, 0.2, 0.2)) == pytest.approx((0.6, 0.2, 0.2))
    assert max_min_fair((0.1, 0.0, 0.3)) == pytest.approx((0.1, 0.0, 0.3))
    assert max_min_fair((2.0, 2.0, 2.0, 0.1)) == pytest.approx((0.3, 0.3, 0.3, 0.1))


def test_jain_index() -> None:
    assert jain_index((0.5, 0.5)) == 1
    assert jain_index((1.0, 0.0, 0.0, 0.0)) == 0.25
    assert jain_index((0.0, 0.0)) == 1


def test_the_seven_figures() -> None:
    greedy = (2.0, 2.0)
    rounds = [
        a_round(greedy, (1.5, 0.0)),  # the first: its overshoot is of full buckets
        a_round(greedy, (0.9, 0.3), issued=1.4),
        *[a_round(greedy, (0.5, 0.48))] * 3,
        *[a_round((0.2, 0.2), (0.1, 0.2), issued=0.6)] * 3,
    ]
    found = judge(Record(rounds, disturbed_at=(0, 5)))
    assert found.utilisation == pytest.approx((1 + 1 + 3 * 0.98 + 3 * 0.3) / (5 + 3 * 0.4))
    assert (found.overshoot_peak, found.overshoot_integral) == pytest.approx((0.2, 0.2))
    assert (found.over_issue_peak, found.over_issue_mean) == pytest.approx((1.4, (5.4 + 1.8) / 8))
    assert (found.churn, found.wrongful) == (0.5, 0.25)
    assert found.convergence_rounds is None, "after the second change a quarter is missing for ever"
    found = judge(Record(rounds[:5], disturbed_at=(0,)))
    assert found.convergence_rounds == 2
    assert found.jain == pytest.approx((0.5 + 1.2**2 / (2 * 0.9) + 3 * 0.9996) / 5, rel=1e-3)


def test_a_record_is_repeatable() -> None:
    first, second = (simulate(BY_NAME["loss"], "fair", 7, 30).record for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "scenario", ["even-full", *(pytest.param(each, marks=pytest.mark.long) for each in ("moving", "moved"))]
)
def test_fair_is_never_worse_than_seed_where_it_counts(scenario: str) -> None:
    seed, fair = figures(scenario, "seed"), figures(scenario, "fair")
    assert fair.utilisation >= seed.utilisation - 0.001
    assert fair.overshoot_peak <= max(NOTHING, seed.overshoot_peak)
    assert fair.overshoot_integral <= max(NOTHING, seed.overshoot_integral)
    assert fair.jain >= seed.jain - 0.001
    assert seed.convergence_rounds is None or (
        fair.convergence_rounds is not None and fair.convergence_rounds <= seed.convergence_rounds
    )


def test_each_policy_does_what_it_is_for() -> None:
    static, seed, capped, fair = (
        simulate(BY_NAME["greedy-12"], name, 1, 45).metrics for name in ("static", "seed", "capped", "fair")
    )
    assert static.over_issue_peak <= 1 and static.utilisation < 0.75
    assert seed.over_issue_mean > capped.over_issue_mean and seed.utilisation > 0.97
    assert capped.over_issue_mean <= 1.11
    assert fair.overshoot_integral < 0.3 * seed.overshoot_integral
    assert fair.convergence_rounds is not None and fair.convergence_rounds <= 3


def test_a_dead_brokers_share_is_free_once_its_partition_has_moved() -> None:
    record = simulate(BY_NAME["leaves"], "seed", 1, 60).record
    silent = [sum(each.delivered) for each in record.rounds[23:26]]
    moved = [sum(each.delivered) for each in record.rounds[29:36]]
    assert max(silent) < 0.72, "a third of T stays reserved while it may come back"
    assert min(moved) > 0.95, "the cluster gave its partition to another broker"


def test_failover_keeps_to_t_until_the_leases_end() -> None:
    record = simulate(BY_NAME["failover"], "seed", 1, 60).record
    without_master = record.rounds[40:48]
    assert max(sum(each.delivered) for each in without_master) <= 1.01
    assert without_master[-1].allocated == pytest.approx((1 / 3, 1 / 3, 1 / 3)), "each on its share"
    assert sum(record.rounds[52].delivered) > 0.95


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command_line(), ["quota", "simulate", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_command_prints_writes_and_draws(tmp_path: Path) -> None:
    found, page, plots = tmp_path / "found.json", tmp_path / "page.md", tmp_path / "plots"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    output = run(
        *("--scenario", "hot", "--policy", "static", "--policy", "fair", "--runs", "1", "--rounds", "30"),
        *("--json", str(found), "--markdown", str(page), "--plots", str(plots)),
    )
    assert "hot" in output and "fair" in output and "seed" not in output
    results = json.loads(found.read_text())["results"]
    assert [row["policy"] for row in results] == ["static", "fair"]
    assert results[0]["utilisation"] < 0.5 < 0.9 < results[1]["utilisation"]
    assert page.read_text().startswith(f"before\n{BEGIN}\n| scenario | policy |")
    assert page.read_text().endswith(f"{END}\nafter\n") and "old" not in page.read_text()
    assert (plots / "hot.svg").read_text().startswith("<?xml")


def test_command_names_what_there_is() -> None:
    with pytest.raises(CommandError, match="no scenario 'cold': choose from even"):
        run("--scenario", "cold")
    with pytest.raises(CommandError, match="no policy 'best': choose from static, seed, capped, fair"):
        run("--policy", "best")


def test_a_page_without_marks_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="begin"):
        replaced("text", "table")


@pytest.mark.long
def test_the_documented_table_is_what_the_command_prints() -> None:
    page = (Path(__file__).parents[3] / "docs" / "quota.md").read_text()
    lines = run_all(["single"], ["static", "seed"], range(1, 6), 60, lambda _: None)
    for line in lines:
        assert " | ".join(cells(line)[1:]) in page, "run `portico quota simulate --markdown docs/quota.md`"
    for scenario in SCENARIOS:
        assert f"| `{scenario.name}` | {scenario.title} |" in page
