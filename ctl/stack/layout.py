"""Where an embedded stack keeps its files."""

import errno
import json
import secrets
import socket
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runtime.process import write_json

_PORTS: Final = range(10_000, 20_000)
_PORT_DRAWS_MAX: Final = 100

_DRAWN_KEPT: Final = 256
_drawn: Final[deque[socket.socket]] = deque()
"""Each holds a name that says that this process drew a port; the kernel gives it back with the process."""

CONSOLE_VARIABLES: Final = ("PORTICO_URL", "PORTICO_API_KEY")
"""Of the environment: the console that commands speak to instead of their stack's, and the key."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below a data directory."""

    data_dir: Path

    @property
    def stack_file(self) -> Path:
        """Address and local operator key of the running stack, 0600."""
        return self.data_dir / "stack.json"

    @property
    def secret_file(self) -> Path:
        """The deployment's secret, 0600."""
        return self.data_dir / "internal.key"

    @property
    def credentials_dir(self) -> Path:
        """What clusters of Apache Kafka are entered with, a folder each by its name; files 0600."""
        return self.data_dir / "credentials"

    @property
    def lock_file(self) -> Path:
        """Held while a stack runs."""
        return self.data_dir / "stack.lock"

    @property
    def keeper_lock(self) -> Path:
        """Held while a detached stack is kept running."""
        return self.data_dir / "keeper.lock"

    @property
    def settings_file(self) -> Path:
        """Settings a person may edit."""
        return self.data_dir / "portico.toml"

    @property
    def ports_file(self) -> Path:
        """Ports of the inner processes, the same after a restart."""
        return self.data_dir / "ports.json"

    @property
    def control_dir(self) -> Path:
        """The store of the control plane and the master."""
        return self.data_dir / "control"

    @property
    def gateway_dir(self) -> Path:
        """Cached feed and shared connection table of the gateway workers."""
        return self.data_dir / "gateway"

    @property
    def prometheus_dir(self) -> Path:
        """Where Prometheus finds whom to scrape, unless it is told elsewhere."""
        return self.data_dir / "prometheus"

    @property
    def cluster_file(self) -> Path:
        """How many brokers the data directory holds and where their metadata is."""
        return self.data_dir / "cluster.json"

    @property
    def zookeeper_dir(self) -> Path:
        """What the stack's own ZooKeeper keeps."""
        return self.data_dir / "zookeeper"

    def broker_dir(self, node_id: int) -> Path:
        """The log directory of one broker."""
        return self.data_dir / f"broker-{node_id}"

    def log_directories(self) -> list[Path]:
        """Where the brokers of this data directory keep their logs."""
        return sorted(path for path in self.data_dir.glob("broker-*/logs") if path.is_dir())

    def run_file(self, process: str) -> Path:
        """What a serving process says of itself."""
        return self.data_dir / "run" / f"{process}.json"

    @property
    def logs_dir(self) -> Path:
        """What processes say."""
        return self.data_dir / "logs"

    def log_file(self, process: str) -> Path:
        """Where a child's stderr goes."""
        return self.logs_dir / f"{process}.log"

    def pid_of(self, process: str) -> int | None:
        """What its run file says."""
        try:
            return int(json.loads(self.run_file(process).read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None

    def ensure_secret(self) -> str:
        """The deployment's secret, drawn at the first start."""
        if not self.secret_file.exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            temporary = self.secret_file.with_suffix(".tmp")
            temporary.touch(mode=0o600)
            temporary.write_text(secrets.token_urlsafe(32) + "\n")
            temporary.replace(self.secret_file)
        return self.secret_file.read_text().strip()

    def ports(self, names: list[str]) -> dict[str, int]:
        """A loopback port for each name: the one of the last start while it is free, else a new one."""
        try:
            known: dict[str, Any] = json.loads(self.ports_file.read_text())
        except (OSError, ValueError):
            known = {}
        ports: dict[str, int] = {}
        for name in names:
            port = int(known.get(name, 0))
            while not is_free(port) or port in ports.values():
                port = free_port()
            ports[name] = port
        if ports != known:
            write_json(self.ports_file, known | ports)
        return ports


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether nobody listens on a port. Bound without SO_REUSEPORT, so a sharing listener counts too."""
    return port != 0 and bind_fault(port, host) is None


def bind_fault(port: int, host: str) -> str | None:
    """Why an address cannot be listened on, or None."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return "it is taken" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
    return None


def free_port() -> int:
    """A loopback port that is free now, and not one of those the kernel gives to outgoing connections: such
    a connection could take it while the process that it is for restarts. Nobody else on this machine draws it
    before the one it is for listens."""
    for _ in range(_PORT_DRAWS_MAX):
        port = secrets.choice(_PORTS)
        mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            mark.bind(f"\0portico-port-{port}")
        except OSError as error:
            mark.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        _drawn.append(mark)
        if len(_drawn) > _DRAWN_KEPT:
            _drawn.popleft().close()
        if is_free(port):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
