"""Settings of one gateway worker. All need a restart; what may change while it runs is in the specs."""

from dataclasses import dataclass, field
from pathlib import Path

from contracts.server_names import NamedPort
from gateway.certificates import TlsFiles
from gateway.session.timers import Timeouts
from gateway.shared_table import WORKERS_MAX


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """What the command line says."""

    name: str
    """`gateway-<n>`; n is the worker's number in the shared table."""
    control_url: str | None = None
    specs_file: Path | None = None
    """Serve these specs instead of following a control plane (benchmarks, tests)."""
    secret_file: Path | None = None
    state_dir: Path | None = None
    """Where the last specs are kept."""
    run_file: Path | None = None
    credentials_dir: Path | None = None
    """What clusters of Apache Kafka are entered with: a folder each, by its name."""
    metrics: tuple[str, int] | None = None
    shared_table: Path | None = None
    """Where workers of this machine count connections together; beside it is what they share of buckets."""
    take_over: int | None = None
    """The process id of a worker whose listening sockets this one goes on with (ADR-0051)."""
    drain_ms: int = 10_000
    """Over how long a worker that was replaced closes its idle connections."""
    wildcard_for: tuple[str, ...] = ()
    """CIDRs of vips that share one socket a port (ADR-0050)."""
    proxy_protocol_from: tuple[str, ...] = ()
    """Addresses and CIDRs of load balancers that say by PROXY protocol, version 2, who their client is."""
    tls: TlsFiles | None = None
    """The certificate of vports that speak TLS."""
    named_port: NamedPort | None = None
    """Where all instances with TLS are served, by the name in a client's hello (ADR-0075)."""
    named_tls: TlsFiles | None = None
    """The certificate there; None: that of vports."""
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def shared_buckets(self) -> Path | None:
        """Where they share buckets."""
        table = self.shared_table
        return None if table is None else table.with_name(f"{table.name}.buckets")

    @property
    def worker(self) -> int:
        """The worker's number."""
        return int(self.name.rpartition("-")[2])

    def faults(self) -> list[str]:
        """Everything that is wrong, one sentence each."""
        found = []
        number = self.name.rpartition("-")[2]
        if not (number.isascii() and number.isdigit() and int(number) < WORKERS_MAX):
            found.append(f"--name '{self.name}' must end in a number below {WORKERS_MAX}, like gateway-0")
        if (self.control_url is None) == (self.specs_file is None):
            found.append("exactly one of --control and --specs is needed")
        if self.control_url is not None and self.secret_file is None:
            found.append("--control needs --secret-file")
        if self.named_port is not None and self.tls is None:
            found.append("--sni-domain needs --tls-cert and --tls-key")
        if self.named_tls is not None and self.named_port is None:
            found.append("--sni-cert needs --sni-domain")
        return found
