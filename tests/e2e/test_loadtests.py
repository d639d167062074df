"""Load tests in a short form, as an operator runs them: through the launcher, on a running stack.

What is measured on a machine that does other things is nobody's bound: the runs are held to what must always
hold, and then to what cannot.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stack import ROOT, Stack

pytestmark = pytest.mark.long
"""Their packages are an environment of their own, which takes a minute to install."""
SHORT_TURNS = "--turns 1 --turn-s 2 --warm-turns 0 --equal-s 4 --flood-priority normal"
SHORT = {
    "noisy-neighbour-produce": f"--kind produce {SHORT_TURNS}",
    "noisy-neighbour-metadata": f"--kind metadata {SHORT_TURNS} --topics 10",
    "noisy-neighbour-reconnect": f"--kind reconnect {SHORT_TURNS}",
    "noisy-neighbour-rebalance": f"--kind rebalance {SHORT_TURNS}",
    "noisy-neighbour-cold-reads": f"--kind cold-reads {SHORT_TURNS}",
    "connection-storm": "--clients 20 --waves 2",
    "many-tenants": "--tenants 5 --seconds 3",
    "rate-sweep-produce": "--rate 1000000 --step-s 1.5",
    "rate-sweep-consume": "--rate 1000000 --step-s 1.5 --direction consume",
    "soak": "--instances 2 --rate 50000 --seconds 4",
    "console-users": "--users 3 --seconds 4 --wait-s 0.2",
}
ALWAYS = {
    "connection-storm": {"served_share": {"at_least": 1}, "left_open": {"at_most": 0}},
    "many-tenants": {"failures": {"at_most": 0}, "answered_share_min": {"at_least": 0.3}},
    "rate-sweep": {"unanswered": {"at_most": 0}, "above_delivered_max": {"at_most": 2}},
    "soak": {"lost": {"at_most": 0}, "repeated": {"at_most": 0}, "delivered_share": {"at_least": 0.1}},
    "console-users": {"failures": {"at_most": 0}, "requests_per_s": {"at_least": 0.1}},
    "noisy-neighbour": {"unanswered": {"at_most": 0}, "flood_requests_per_s": {"at_least": 0.1}},
}
IMPOSSIBLE = {
    "connection-storm": {"all_served_s": {"at_most": 0}},
    "many-tenants": {"produce_p99_ms": {"at_most": 0}},
    "rate-sweep": {"below_delivered_min": {"at_least": 2}},
    "soak": {"p99_ms": {"at_most": 0}},
    "console-users": {"read_p99_ms": {"at_most": 0}},
    "noisy-neighbour": {"p99_beside_ms": {"at_most": 0}},
}


def portico(stack: Stack | None, *arguments: str) -> "subprocess.CompletedProcess[str]":
    variables = {}
    if stack is not None:
        variables = {"PORTICO_URL": stack.console_url, "PORTICO_API_KEY": stack.api_key}
    return subprocess.run(
        [str(ROOT / "portico"), "loadtest", *arguments],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )


def _bounds(path: Path, bounds: dict[str, Any]) -> str:
    path.write_text(json.dumps({"bounds": bounds}))
    return str(path)


def _instances(stack: Stack) -> set[str]:
    return {one["id"] for one in stack.api("GET", "instances", limit=1000, tenant="*")["items"]}


@pytest.mark.parametrize("run", SHORT)
def test_a_scenario_reports_and_its_exit_code_is_the_verdict(stack: Stack, tmp_path: Path, run: str) -> None:
    name = next(name for name in ALWAYS if run.startswith(name))
    report, data = tmp_path / "report", tmp_path / "data"
    before = _instances(stack)
    always, impossible = _bounds(tmp_path / "a", ALWAYS[name]), _bounds(tmp_path / "i", IMPOSSIBLE[name])
    done = portico(
        stack,
        name,
        *SHORT[run].split(),
        "--report-dir",
        str(report),
        "--data-dir",
        str(data),
        "--baseline",
        always,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: passed" in done.stdout
    assert (report / "report.html").exists()
    content = json.loads((report / "figures.json").read_text())
    assert content["scenario"] == run
    assert list(report.glob("*.png")), "plots"
    again = portico(None, "judge", str(report), "--baseline", impossible)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "DOES NOT HOLD" in again.stdout
    assert _instances(stack) <= before, "what was made is removed"


def test_a_run_that_fails_its_bounds_ends_with_1_and_a_kept_run_binds_later_ones(
    stack: Stack, tmp_path: Path
) -> None:
    options = [*SHORT["noisy-neighbour-produce"].split(), "--data-dir", str(tmp_path)]
    impossible = _bounds(tmp_path / "impossible", IMPOSSIBLE["noisy-neighbour"])
    failed = portico(stack, "noisy-neighbour", *options, "--baseline", impossible)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "p99_beside_ms" in failed.stdout and "DOES NOT HOLD" in failed.stdout
    kept_file = tmp_path / "kept.json"
    kept = portico(stack, "noisy-neighbour", *options, "--baseline", str(kept_file), "--update-baseline")
    content = json.loads(kept_file.read_text())
    assert "p99_beside_ms" in content["bounds"], kept.stdout + kept.stderr
    assert content["options"]["turn_s"] == 2.0
    reports = sorted((tmp_path / "loadtests" / "noisy-neighbour-produce").iterdir())
    again = portico(stack, "judge", str(reports[-1]), "--baseline", str(kept_file))
    assert again.returncode == 0, "a run holds the bounds that it made"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["moon"], "invalid choice"),
        (["noisy-neighbour", "--kind", "moon"], "invalid choice"),
        (["noisy-neighbour", "--baseline", "/none"], "there is no baseline /none"),
        (["judge", "/none"], "holds no report"),
    ],
)
def test_wrong_usage_makes_no_load(arguments: list[str], says: str) -> None:
    done = portico(None, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_console_of_another_machine_is_not_loaded_unless_it_is_named(tmp_path: Path) -> None:
    variables = {"PORTICO_URL": "http://192.0.2.1:8080", "PORTICO_API_KEY": "k"}
    done = subprocess.run(
        [str(ROOT / "portico"), "loadtest", "noisy-neighbour", "--data-dir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "192.0.2.1 is not on this machine" in done.stderr
