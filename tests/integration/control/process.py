"""A real `control` process, its second tenant, and a broker that reports to it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx
import psutil

from ctl.stack.layout import Layout, free_port
from runtime.trusted import verify_of
from tests.integration.stack import ROOT
from tests.vports import Vports

_START_S: Final = 60.0
PATIENCE_S: Final = 20.0
"""No call of a neighbour may take so long; calls are counted, this only ends a test that hangs."""


class ControlProcess:
    """`python -m ctl.control` on ports and a data directory of its own."""

    def __init__(self, data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment or {}
        self.layout = Layout(data_dir)
        self.public = ("127.0.0.1", free_port())
        self.internal = ("127.0.0.1", free_port())
        self._vports = Vports()
        self.vport = self._vports.first
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def arguments(self) -> list[str]:
        """Its command line."""
        return [
            *("--data-dir", str(self.layout.data_dir)),
            *("--console", f"127.0.0.1:{self.public[1]}", "--internal", f"127.0.0.1:{self.internal[1]}"),
            *("--vip", "127.0.0.1", "--vports", f"{self.vport}-{self.vport + 19}"),
            *("--quota-policy", "seed", "--report-period-ms", "1000", *self._arguments),
        ]

    def start(self) -> "ControlProcess":
        """Start it and wait until it serves."""
        data_dir = self.layout.data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        with (data_dir / "control.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runtime.start", "ctl.control", *self.arguments()],
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_S
        while not self.layout.run_file("control").exists():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        return self

    def log(self) -> str:
        """What it said."""
        return (self.layout.data_dir / "control.log").read_text(errors="replace")

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def wait(self) -> int:
        """Its exit code, once it ended by itself."""
        assert self._process is not None
        return self._process.wait(60)

    def kill(self) -> None:
        """End it if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def operator_key(self) -> str:
        """The local operator key."""
        return str(json.loads(self.layout.run_file("control").read_text())["api_key"])

    @property
    def admin_password(self) -> str:
        """As it was drawn at the first start."""
        return str(json.loads(self.layout.run_file("control").read_text())["admin_password"])

    def rss_bytes(self) -> int:
        """Resident memory."""
        assert self._process is not None
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def client(self, key: str, **headers: str) -> httpx.Client:
        """Calls of the console's API with a key."""
        url = f"http://127.0.0.1:{self.public[1]}/v1/"
        return httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}", **headers},
            timeout=PATIENCE_S,
            trust_env=False,
            verify=verify_of(url),
        )

    def internal_client(self) -> httpx.Client:
        """Calls of the internal port with the deployment's secret."""
        url = f"http://127.0.0.1:{self.internal[1]}/"
        return httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {self.layout.secret_file.read_text().strip()}"},
            timeout=PATIENCE_S,
            trust_env=False,
            verify=verify_of(url),
        )

    def tenant_key(self, tenant: str, role: str = "owner") -> str:
        """A new tenant's key; the tenant is made when there is none."""
        with self.client(self.operator_key) as operator:
            made = operator.post("tenants", json={"name": tenant})
            assert made.status_code in (201, 409), made.text
            key = operator.post("keys", params={"tenant": tenant}, json={"name": role, "role": role})
            assert key.status_code == 201, key.text
            return str(key.json()["secret"])

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels."""
        with self.internal_client() as client:
            lines = client.get("metrics").text.splitlines()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        found = (one for one in lines if one.startswith(name) and all(label in one for label in wanted))
        return sum(float(line.rpartition(" ")[2]) for line in found)


@contextlib.contextmanager
def running_control(
    data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[ControlProcess]:
    """One that serves."""
    process = ControlProcess(data_dir, *arguments, environment=environment).start()
    try:
        yield process
    finally:
        process.kill()


class Reporter:
    """A broker's reports and a gateway's polls: each round is two calls that count."""

    def __init__(self, control: ControlProcess) -> None:
        self._client = control.internal_client()
        self._boot_id = f"boot-{os.getpid()}-{time.monotonic_ns()}"
        self._sequence = 0
        self.answered = 0

    def round(self) -> None:
        """Each call is answered, or the test fails."""
        self._sequence += 1
        report = {
            "point": "broker-9",
            "node_id": 9,
            "cluster_id": "builtin-1",
            "boot_id": self._boot_id,
            "sequence": self._sequence,
            "window_ms": 1_000,
            "sent_at_ms": 1_700_000_000_000 + self._sequence * 1_000,
        }
        poll = {"consumer": "test", "kind": "gateway", "applied_revision": 0}
        for path, message in (("reports", report), ("feed", poll)):
            answer = self._client.post(f"internal/v1/{path}", json=message)
            assert answer.status_code == 200, answer.text
            self.answered += 1

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Neighbours:
    """A tenant that uses the console, and a broker and a gateway: each round is five calls that count."""

    def __init__(self, control: ControlProcess) -> None:
        self._tenant = control.client(control.tenant_key("neighbour"))
        self._reporter = Reporter(control)
        self._asked = 0

    @property
    def answered(self) -> int:
        """Calls, all of them answered."""
        return self._asked + self._reporter.answered

    def round(self) -> None:
        """Each call is answered, or the test fails."""
        for path in ("instances", "keys", "health"):
            answer = self._tenant.get(path)
            assert answer.status_code == 200, answer.text
            self._asked += 1
        self._reporter.round()

    def close(self) -> None:
        """Close the connections."""
        self._tenant.close()
        self._reporter.close()


def raw(address: tuple[str, int], source: str = "127.0.0.1") -> socket.socket:
    """A plain connection from an address of this machine."""
    return socket.create_connection(address, timeout=PATIENCE_S, source_address=(source, 0))


def is_closed(connection: socket.socket) -> bool:
    """Whether the peer has closed; what it says is skipped. Does not wait."""
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
