"""A whole product for tests: `portico up` as a subprocess on ports and a data directory of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx

from ctl.stack.layout import free_port
from runtime.trusted import verify_of
from tests.vports import Vports

ROOT: Final = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S: Final = 180.0
_STARTS_MAX: Final = 3


class Stack:
    """A running stack. `api` speaks as its local operator."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        directory: Path = ROOT,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`directory` and `environment` are the processes', for those that run another tree than this."""
        self.data_dir = data_dir
        self.admin_password: str | None = None
        self._console_port = free_port()
        self._vports = Vports()
        # A tree of before 0.2.0 has ports of metrics that nobody plans.
        planned = ("--metrics", "127.0.0.1:0") if directory == ROOT else ()
        self._arguments = (*planned, *arguments)
        self._directory, self._environment = directory, environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Stack":
        """Start it and wait for the ready file."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        output = self.data_dir / "up.log"
        starts = 1
        while not self._starts(output):  # a stack of the tests beside these may have drawn the same port
            said = output.read_text()
            assert "address already in use" in said.lower() and starts < _STARTS_MAX, f"no stack:\n{said}"
            starts += 1
        while "Ctrl-C stops" not in output.read_text():
            time.sleep(0.02)
        room = {"instances": 1_000} | dict.fromkeys(
            ("produce_rate_bytes_per_s", "consume_rate_bytes_per_s", "capacity_bytes"), 10**15
        )
        room |= {"partitions": 10**6, "connections": 10**9}
        clusters = [one["name"] for one in self.api("GET", "clusters")["items"]]
        for path in ("tenants/default", *(f"clusters/{one}" for one in clusters)):  # ordered generously
            self.api("PATCH", f"{path}/ceilings", room)
        self.admin_password = None
        for line in output.read_text().splitlines():
            if "login     admin / " in line:
                self.admin_password = line.split("admin / ")[1].split()[0]
        return self

    def _starts(self, output: Path) -> bool:
        """False when it ended instead."""
        ready = self.data_dir / "ready.json"
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "runtime.start", "ctl.main", "up"),
                    *("--data-dir", str(self.data_dir)),
                    *("--console", f"127.0.0.1:{self._console_port}", "--vports", str(self._vports)),
                    *("--ready-file", str(ready), *self._arguments),
                ],
                cwd=self._directory,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONUNBUFFERED": "1", **self._environment},
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not ready.exists():
            if self._process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"the stack did not start:\n{output.read_text()}"
            time.sleep(0.05)
        return True

    @property
    def facts(self) -> dict[str, Any]:
        """The stack file as it is now: pids follow restarts."""
        facts: dict[str, Any] = json.loads((self.data_dir / "stack.json").read_text())
        return facts

    @property
    def console_url(self) -> str:
        """Where the console is."""
        return str(self.facts["console"])

    @property
    def api_key(self) -> str:
        """The local operator key."""
        return str(self.facts["api_key"])

    def api(
        self, method: str, path: str, body: Any = None, *, expect: int | None = None, **params: Any
    ) -> Any:
        """Call the console API; asserts success, or the status `expect`."""
        response = httpx.request(
            method,
            f"{self.console_url}/v1/{path}",
            json=body,
            params=params,
            headers={"Authorization": f"Bearer {self.api_key}"},
            timeout=30,
            trust_env=False,
            verify=verify_of(self.console_url),
        )
        if expect is None:
            assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        else:
            assert response.status_code == expect, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def create_instance(self, name: str, **changes: Any) -> dict[str, Any]:
        """Create an instance and wait until it serves."""
        body = {
            "name": name,
            "produce_rate_bytes_per_s": 200_000_000,
            "consume_rate_bytes_per_s": 200_000_000,
            "capacity_bytes": 10_000_000_000,
            "whitelist": ["127.0.0.1/32"],
        }
        created = self.api("POST", "instances", body | changes)
        return self.wait_for_state(created["id"], "running")

    def wait_for_state(self, instance_id: str, state: str, within_s: float = 90.0) -> dict[str, Any]:
        """Poll an instance until it is in a state."""
        deadline = time.monotonic() + within_s
        while True:
            instance: dict[str, Any] = self.api("GET", f"instances/{instance_id}")
            if instance["state"] == state:
                return instance
            assert time.monotonic() < deadline, (
                f"{instance_id} is {instance['state']}: {instance['state_reason']}"
            )
            time.sleep(0.05)

    def kill(self, group: str, position: int = 0) -> int:
        """kill -9 one process of `control`, `brokers`, `gateways` or `zookeeper`; returns its pid."""
        pid = int(self.facts["pids"][group][position])
        os.kill(pid, signal.SIGKILL)
        return pid

    def broker_pid(self, node_id: int) -> int | None:
        """The pid of a broker, None while it does not serve."""
        for broker in self.facts["brokers"]:
            if broker["node_id"] == node_id:
                return int(broker["pid"])
        return None

    def kill_broker(self, node_id: int) -> int:
        """kill -9 a broker; returns its pid. The supervisor starts it again."""
        return self.signal_broker(node_id, signal.SIGKILL)

    def signal_broker(self, node_id: int, number: int) -> int:
        """Send a signal (SIGSTOP and SIGCONT pause and resume) to a broker; returns its pid."""
        pid = self.broker_pid(node_id)
        assert pid is not None, f"broker {node_id} does not serve"
        os.kill(pid, number)
        return pid

    def wait_for_broker(self, node_id: int, *, other_than: int = 0, within_s: float = 90.0) -> None:
        """Until a broker serves, in another process than a killed one."""
        deadline = time.monotonic() + within_s
        while self.broker_pid(node_id) in (None, other_than):
            assert time.monotonic() < deadline, f"broker {node_id} did not come back"
            time.sleep(0.05)

    def wait_for_restart(self, group: str, killed: int, within_s: float = 90.0) -> None:
        """Until another process has taken the place of a killed one."""
        deadline = time.monotonic() + within_s
        while True:
            pids = self.facts["pids"][group]
            if pids and killed not in pids:
                return
            assert time.monotonic() < deadline, f"{group} did not come back"
            time.sleep(0.05)

    def stop(self) -> float:
        """SIGTERM; returns the seconds it took to stop."""
        assert self._process is not None
        started = time.monotonic()
        self._process.terminate()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
        return time.monotonic() - started


@contextmanager
def running_stack(
    data_dir: Path,
    *arguments: str,
    brokers: int | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Stack]:
    """A stack that is stopped at the end; several brokers come with a ZooKeeper of its own."""
    several = () if brokers is None else ("--brokers", str(brokers))
    stack = Stack(data_dir, *several, *arguments, environment=environment).start()
    try:
        yield stack
    finally:
        stack.stop()
