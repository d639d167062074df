"""What a run makes on a stack, and removes: tenants and instances, by the console's API."""

import ipaddress
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from ctl.bench.load import Endpoint
from ctl.console_client import Console, remove_instance
from ctl.errors import CommandError, usage

BOUGHT: Final[Mapping[str, Any]] = {
    "produce_rate_bytes_per_s": 4_000_000,
    "consume_rate_bytes_per_s": 4_000_000,
    "capacity_bytes": 2_000_000_000,
    "whitelist": ["127.0.0.0/8"],
}
"""What every instance buys where a scenario says nothing else."""
_SERVE_S: Final = 60.0


class Made(NamedTuple):
    """An instance of this run."""

    id: str
    endpoint: Endpoint
    """Its bootstrap address."""


class Place:
    """One console, as its operator; used as a context manager that removes what was made.

    Only addresses of this machine are loaded, and those whose hosts an operator named.
    """

    def __init__(self, console: Console, named_hosts: Iterable[str]) -> None:
        self.console = console
        self._named = frozenset(named_hosts)
        self._made: list[str] = []
        self._keys: list[str] = []
        self.check(console.url.partition("//")[2].partition("/")[0].rpartition(":")[0] or console.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.remove_all()

    def check(self, host: str) -> None:
        """Raises: CommandError for a host that may not be loaded."""
        if host not in self._named and not is_loopback(host):
            raise usage(
                f"{host} is not on this machine: load goes there only when an operator says so with "
                f"--bootstrap {host}"
            )

    def tenant(self, name: str, ceilings: Mapping[str, int]) -> str:
        """A tenant of that name with room for a run, made where there is none. Tenants stay."""
        known = {tenant["name"] for tenant in self.console.all_items("tenants")}
        if name not in known:
            self.console.call("POST", "tenants", {"name": name})
        self.console.call("PATCH", f"tenants/{name}/ceilings", dict(ceilings))
        return name

    def instance(self, name: str, bought: Mapping[str, Any] = BOUGHT, *, tenant: str | None = None) -> Made:
        """An instance that serves."""
        return self.serving(self.order(name, bought, tenant=tenant))

    def order(self, name: str, bought: Mapping[str, Any] = BOUGHT, *, tenant: str | None = None) -> str:
        """Order an instance of that name and a number; returns its id."""
        body = {**BOUGHT, **bought, "name": f"{name}-{time.time_ns() % 10**9}"}
        params = {} if tenant is None else {"tenant": tenant}
        created = self.console.call("POST", "instances", body, params)
        self._made.append(created["id"])
        return str(created["id"])

    def serving(self, instance_id: str) -> Made:
        """An ordered instance, once it serves. Raises: CommandError."""
        found = self.console.wait_until_serving(instance_id, _SERVE_S)
        host, _, port = found["bootstrap_servers"].partition(",")[0].rpartition(":")
        self.check(host)
        return Made(instance_id, Endpoint(int(port), None, host))

    def key(self, tenant: str | None = None, role: str = "owner") -> str:
        """An API key of this run, its secret."""
        params = {} if tenant is None else {"tenant": tenant}
        created = self.console.call("POST", "keys", {"name": "loadtest", "role": role}, params)
        self._keys.append(created["id"])
        return str(created["secret"])

    def remove_all(self) -> None:
        """Revoke the keys of this run, delete and purge its instances; all are tried.

        Raises: CommandError for the first.
        """
        faults = []
        for key in self._keys:
            try:
                self.console.call("DELETE", f"keys/{key}")
            except CommandError as fault:
                faults.append(fault)
        self._keys.clear()
        for instance_id in self._made:
            try:
                remove_instance(self.console, instance_id)
            except CommandError as fault:
                faults.append(fault)
        self._made.clear()
        if faults:
            raise faults[0]


def is_loopback(host: str) -> bool:
    """Whether a host is an address of this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
