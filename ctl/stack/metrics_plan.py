"""Where the processes of a stack are scraped: the plan of ports, and the files that Prometheus needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from runtime.process import write_json

METRICS_DEFAULT: Final = ("127.0.0.1", 9400)
_GATEWAYS_FROM: Final = 10
"""Before them are control, at the first port, and nine brokers, at the ports of their ids."""
_READABLE: Final = {"targets": 0o644, "token": 0o640}


def ports_needed(workers: int) -> int:
    """How many ports the plan has, from the first on."""
    return _GATEWAYS_FROM + workers


def planned_port(first: int, process: str) -> int:
    """The port of a process: control FIRST, broker-N FIRST + N, gateway-N FIRST + 10 + N. 0: any."""
    group, _, number = process.partition("-")
    offset = {"control": 0, "broker": 0, "gateway": _GATEWAYS_FROM}[group] + int(number or 0)
    return first + offset if first else 0


def targets(endpoints: Mapping[str, str], cluster_id: str) -> list[dict[str, Any]]:
    """Prometheus' file_sd format: one group per process, with labels that tell them apart."""
    groups = []
    for process, url in sorted(endpoints.items()):
        parts = urlsplit(url)
        kind = process.partition("-")[0]
        labels = {"__metrics_path__": parts.path, "process": process, "kind": kind, "cluster": cluster_id}
        groups.append({"targets": [parts.netloc], "labels": labels})
    return groups


class PrometheusFiles:
    """What a Prometheus beside the stack reads: whom to scrape, and the token to do it with."""

    def __init__(self, directory: Path, cluster_id: str, *, is_shared: bool) -> None:
        """`is_shared`: the directory was named by whoever runs Prometheus as another user: files in it are
        for its group, too."""
        self.targets_file = directory / "targets.json"
        self.token_file = directory / "token"
        self._cluster_id = cluster_id
        self._modes = _READABLE if is_shared else dict.fromkeys(_READABLE, 0o600)

    def write_token(self, token: str) -> None:
        """Once per start. Raises: OSError."""
        self.token_file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.token_file.with_suffix(".tmp")
        temporary.touch(mode=0o600)
        temporary.write_text(token + "\n")
        temporary.chmod(self._modes["token"])
        temporary.replace(self.token_file)

    def write_targets(self, endpoints: Mapping[str, str]) -> None:
        """Prometheus reads the file anew when it was replaced. Raises: OSError."""
        groups = targets(endpoints, self._cluster_id)
        write_json(self.targets_file, groups, mode=self._modes["targets"])

    def scrape_config(self) -> str:
        """For `scrape_configs` of a prometheus.yml."""
        return f"""- job_name: portico
  honor_labels: true
  authorization:
    credentials_file: {self.token_file}
  file_sd_configs:
    - files: [{self.targets_file}]
"""
