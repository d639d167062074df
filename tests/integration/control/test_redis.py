"""A real control process with a Redis: what outlives it there, and what it does when that is gone."""

import time
from pathlib import Path
from typing import Any

import pytest

from master.kept_series import KeptSeries
from master.quota.history import InstanceHistory, Row
from runtime.redis_link import RedisLink
from tests.integration.control.process import PATIENCE_S, ControlProcess, running_control
from tests.servers.redis_server import RedisServer, running_redis

_ORDER = {
    "name": "shop",
    "produce_rate_bytes_per_s": 1_000_000,
    "consume_rate_bytes_per_s": 1_000_000,
    "capacity_bytes": 1_000_000_000,
    "allow_all": True,
}


def _get(control: ControlProcess, path: str) -> Any:
    """As an operator, until it is answered."""
    deadline = time.monotonic() + 3 * PATIENCE_S
    while True:
        with control.client(control.operator_key) as client:
            answer = client.get(path)
        if answer.status_code == 200:
            return answer.json()
        # 409: the quota master has not read of the instance yet.
        assert answer.status_code in (409, 503) and time.monotonic() < deadline, answer.text
        time.sleep(0.1)


def _until_redis_is(control: ControlProcess, state: str) -> None:
    deadline = time.monotonic() + 3 * PATIENCE_S
    while (now := _get(control, "health")["redis"]) != state:
        assert time.monotonic() < deadline, now
        time.sleep(0.05)


def _keep_a_past(server: RedisServer, instance_id: str, until_ms: int) -> list[int]:
    """What a master before this one would have kept; its times."""
    link = RedisLink(server.url, budget_ms=5_000)
    link.start()
    series, history = KeptSeries(link), InstanceHistory()
    times = list(range(until_ms - until_ms % 10_000 - 100_000, until_ms - until_ms % 10_000, 1_000))
    for at_ms in [*times, times[-1] + 1_000]:
        ended = history.record(at_ms, Row(at_ms // 1_000, False, {1: (at_ms // 1_000 % 1_000,) * 10}, {}))
        if ended is not None:
            series.keep({instance_id: ended})
    link.close()
    return times


def test_series_outlive_the_process_and_redis_may_go_at_any_time(tmp_path: Path) -> None:
    with running_redis() as server:
        arguments = ("--redis-url", f"redis://127.0.0.1:{server.port}/0")
        with running_control(tmp_path / "data", *arguments) as control:
            _until_redis_is(control, "ok")
            with control.client(control.tenant_key("acme")) as owner:
                made = owner.post("instances", json=_ORDER)
                assert made.status_code == 201, made.text
            instance_id = made.json()["id"]
            assert control.metric("portico_redis_up", part="reach") == 1
        control.layout.run_file("control").unlink()
        times = _keep_a_past(server, instance_id, time.time_ns() // 1_000_000)
        with running_control(tmp_path / "data", *arguments) as control:
            path = f"instances/{instance_id}/quota"
            shown: list[int] = []
            deadline = time.monotonic() + 3 * PATIENCE_S
            while not shown:
                assert time.monotonic() < deadline
                shown = _get(control, f"{path}?seconds=600")["history"]["at_ms"]
            assert set(times[1:]) <= set(shown)
            server.kill()
            _until_redis_is(control, "connection")
            assert control.metric("portico_redis_up", part="reach") == 0
            assert control.metric("portico_redis_calls_failed_total", cause="connection") > 0
            server.start()
            _until_redis_is(control, "ok")


@pytest.mark.long
def test_a_password_is_in_no_command_line_and_no_log(tmp_path: Path) -> None:
    with running_redis("--requirepass", "hunter2") as server:
        url = f"redis://:hunter2@127.0.0.1:{server.port}/0"
        with running_control(tmp_path / "data", environment={"PORTICO_REDIS_URL": url}) as control:
            _until_redis_is(control, "ok")
            assert "hunter2" not in control.log()
        control.layout.run_file("control").unlink()
        wrong = {"PORTICO_REDIS_URL": url.replace("hunter2", "hunter3")}
        with running_control(tmp_path / "data", environment=wrong) as control:
            _until_redis_is(control, "refused")
            assert "hunter3" not in control.log()
