"""A gateway worker as a subprocess in front of a real broker."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec
from gateway.app import StaticSpecs
from tests.scenarios.fake_broker import NODE_ID
from tests.scenarios.harness import CLUSTER_ID

ROOT: Final = Path(__file__).resolve().parents[3]


class GatewayProcess:
    """One worker that follows a file of specs."""

    def __init__(self, directory: Path, broker_port: int, *options: str) -> None:
        self._options = options
        self._specs_file = directory / "specs.json"
        self._run_file = directory / "gateway.json"
        self._log = directory / "gateway.log"
        self._process: subprocess.Popen[bytes] | None = None
        brokers = (BrokerAddress(node_id=NODE_ID, host="127.0.0.1", port=broker_port),)
        self._cluster = ClusterSpec(revision=1, cluster_id=CLUSTER_ID, brokers=brokers)
        self.specs: dict[str, InstanceSpec] = {}

    def serve(self, *specs: InstanceSpec) -> None:
        """Write the file; a running worker takes it within half a second."""
        self.specs.update({spec.instance_id: spec for spec in specs})
        written = StaticSpecs(instances=tuple(self.specs.values()), clusters=(self._cluster,))
        temporary = self._specs_file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(written))
        temporary.replace(self._specs_file)

    def start(self) -> None:
        """Start and wait until it serves."""
        self._run_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "gateway", "--name", "gateway-0", "--specs", str(self._specs_file)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--run-file", str(self._run_file), "--metrics", "127.0.0.1:0", *self._options],
                cwd=ROOT,
                stderr=log,
            )
        deadline = time.monotonic() + 30
        while not self._run_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the gateway did not start:\n{self._log.read_text()}")
            time.sleep(0.01)

    @property
    def pid(self) -> int:
        """The running process's."""
        assert self._process is not None
        return self._process.pid

    def wait(self) -> int:
        """Until it has ended by itself; the exit code."""
        assert self._process is not None
        return self._process.wait(60)

    @property
    def metrics_url(self) -> str:
        """Where its metrics are."""
        return f"http://127.0.0.1:{json.loads(self._run_file.read_text())['metrics_port']}/metrics"

    @property
    def log(self) -> str:
        """What it has said."""
        return self._log.read_text()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(10)

    def bootstrap(self, instance_id: str) -> str:
        """What a client of an instance is given."""
        port = next(one.port for one in self.specs[instance_id].listeners if one.node_id is None)
        return f"127.0.0.1:{port}"


@contextmanager
def running_gateway_process(
    directory: Path, broker_port: int, *specs: InstanceSpec, options: tuple[str, ...] = ()
) -> Iterator[GatewayProcess]:
    """A worker that serves `specs`; `options` are more of its command line."""
    gateway = GatewayProcess(directory, broker_port, *options)
    gateway.serve(*specs)
    gateway.start()
    try:
        yield gateway
    finally:
        assert gateway.stop() == 0
