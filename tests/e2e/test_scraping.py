"""Whoever follows docs/monitoring.md sees every process of a stack, and sees when one is gone."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.test_commands import answer, portico
from tests.integration.stack import ROOT, Stack, running_stack


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose processes may be killed."""
    place = tmp_path_factory.mktemp("scraped")
    with running_stack(place / "data", "--workers", "2", "--prometheus-dir", str(place / "sd")) as running:
        yield running


def prometheus(config_text: str) -> dict[str, tuple[int, str]]:
    """What a Prometheus with this scrape config does: read the target files and the token, scrape all."""
    (job,) = yaml.safe_load(config_text)
    token = Path(job["authorization"]["credentials_file"]).read_text().strip()
    found: dict[str, tuple[int, str]] = {}
    for pattern in job["file_sd_configs"][0]["files"]:
        for group in json.loads(Path(pattern).read_text()):
            labels = group["labels"]
            for target in group["targets"]:
                url = f"http://{target}{labels['__metrics_path__']}"
                try:
                    headers = {"Authorization": f"Bearer {token}"}
                    response = httpx.get(url, headers=headers, trust_env=False, timeout=20)
                    found[labels["process"]] = (response.status_code, response.text)
                except httpx.TransportError:
                    found[labels["process"]] = (0, "")
    return found


def until(holds: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def test_the_printed_scrape_config_finds_every_process(own: Stack) -> None:
    printed = portico(own, "metrics", "--scrape-config").stdout
    found = prometheus(printed)
    assert set(found) == {"control", "broker-1", "gateway-0", "gateway-1"} == set(own.facts["metrics"])
    for process, (status, text) in found.items():
        assert status == 200, process
        assert "# TYPE process_cpu_seconds_total counter" in text
        assert f"portico_{'feed' if process == 'control' else process.partition('-')[0]}_" in text
    assert stat.S_IMODE((own.data_dir.parent / "sd" / "token").stat().st_mode) == 0o640


def test_the_token_opens_metrics_and_nothing_else(own: Stack) -> None:
    token = portico(own, "metrics", "--token").stdout.strip()
    secret = (own.data_dir / "internal.key").read_text().strip()
    assert token and token != secret
    headers = {"Authorization": f"Bearer {token}"}
    internal = f"{own.facts['internal']}/internal/v1/feed"
    assert httpx.post(internal, headers=headers, trust_env=False, timeout=20).status_code == 401
    for url in own.facts["metrics"].values():
        assert httpx.get(url, trust_env=False, timeout=20).status_code == 401


def test_the_command_lists_and_prints(own: Stack) -> None:
    listed = answer(own, "metrics")
    assert {each["process"]: each["state"] for each in listed} == dict.fromkeys(own.facts["metrics"], "up")
    printed = portico(own, "metrics", "gateway-1", "--grep", "portico_gateway_backlog_bytes")
    assert printed.returncode == 0 and printed.stdout.splitlines()[-1].startswith(
        "portico_gateway_backlog_bytes "
    )
    wrong = portico(own, "metrics", "gateway-7")
    assert wrong.returncode == 2 and "gateway-1" in wrong.stderr


def test_a_process_that_was_killed_stays_a_target_and_comes_back(own: Stack) -> None:
    (broker,) = own.facts["brokers"]
    os.kill(broker["pid"], signal.SIGKILL)
    printed = portico(own, "metrics", "--scrape-config").stdout
    assert "broker-1" in prometheus(printed), "whoever watches has to see that it is down"
    until(lambda: own.facts["brokers"] and own.facts["brokers"][0]["pid"] != broker["pid"])
    until(lambda: prometheus(printed)["broker-1"][0] == 200)


def test_config_show_tells_what_the_running_stack_has(own: Stack) -> None:
    shown = answer(own, "config", "show")
    assert shown["workers"] == {"value": 2, "origin": "--workers"}
    assert shown["console"]["origin"] == "--console" and shown["vports"]["origin"] == "--vports"
    (own.data_dir / "portico.toml").write_text("report_period_ms = 2000\nworkers = 1\n")
    try:
        shown = answer(own, "config", "show")
        assert shown["report_period_ms"] == {"value": 1000, "origin": "default", "next": 2000}
        assert shown["workers"]["value"] == 2 and "next" not in shown["workers"]
        text = portico(own, "config", "show").stdout
        assert "report_period_ms is 2000" in text and "from the next start on" in text
    finally:
        (own.data_dir / "portico.toml").unlink()


def test_a_start_says_what_it_waits_for_and_a_stop_leaves_no_target(tmp_path: Path) -> None:
    with running_stack(tmp_path / "data") as running:
        said = (running.data_dir / "up.log").read_text()
        assert running.facts["metrics"]
    waits = [line for line in said.splitlines() if line.startswith("portico: ")]
    assert waits[0] == "portico: waiting for control"
    assert any(line.startswith("portico: broker-1 serves after ") for line in waits)
    assert "\x1b" not in said
    assert json.loads((tmp_path / "data" / "prometheus" / "targets.json").read_text()) == []


def test_errors_are_about_options_and_sizes_people_write(own: Stack) -> None:
    rates = ("--produce-rate", "20MB/s", "--consume-rate", "40MB/s", "--allow-all")
    small = portico(own, "instance", "create", "tiny", *rates, "--capacity", "1kB")
    assert small.returncode == 2 and "--capacity: at least 1 MB, not 1 kB" in small.stderr
    assert "capacity_bytes" not in small.stderr
    result = portico(
        own, "instance", "create", "odd", *rates, "--capacity", "1GB", "--partitions-max", "1000000"
    )
    assert result.returncode == 2 and "--partitions-max: must be between 1 and 100,000" in result.stderr


@pytest.mark.long
def test_the_hint_about_passwords_names_the_data_directory(tmp_path: Path) -> None:
    with running_stack(tmp_path / "data"):
        pass
    with running_stack(tmp_path / "data") as again:
        said = (again.data_dir / "up.log").read_text()
        hint = next(line for line in said.splitlines() if "reset-password" in line)
        command = hint.partition("`./portico ")[2].partition("`")[0].split()
        reset = subprocess.run(
            [sys.executable, "-m", "runtime.start", "ctl.main", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert reset.returncode == 0, reset.stderr
