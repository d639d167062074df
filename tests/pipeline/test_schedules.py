"""`portico up --pipeline`: what is due runs beside the stack, and again when its runner was killed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.stack import Stack, running_stack

WITHIN_S = 240


def _schedule(stack: Stack, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = stack.api("GET", "pipeline/schedules")["items"]
    return next((one for one in found if one["name"] == name), {})


def _until(stack: Stack, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + WITHIN_S
    while not holds(one := _schedule(stack, name)):
        assert time.monotonic() < deadline, one
        time.sleep(0.2)
    return one


def _has(state: str) -> Callable[[dict[str, Any]], bool]:
    return lambda one: bool(one.get("last")) and one["last"]["state"] == state


def test_what_is_asked_for_runs_also_when_its_runner_is_killed(tmp_path: Path) -> None:
    with running_stack(tmp_path / "data", "--pipeline") as own:
        _until(own, "meter", bool)
        own.api("PUT", "pipeline/schedules/meter", {"job": "meter", "cron": "0 0 1 1 *"})
        own.api("POST", "pipeline/schedules/meter/runs")
        _until(own, "meter", _has("running"))
        own.wait_for_restart("pipeline", own.kill("pipeline"))
        one = _until(own, "meter", _has("succeeded"))
        assert one["due_at"] is None
        assert own.api("GET", f"instances/{own.create_instance('metered')['id']}/usage")["available"]
