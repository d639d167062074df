"""The embedded stack: control plane and master, one broker, gateway workers, as supervised processes."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import Any, Final

from ctl.errors import CommandError
from ctl.stack.children import Child, ChildSpec
from ctl.stack.layout import Layout, bind_fault
from runtime.config import Resolved, format_host_port
from runtime.process import write_json

NODE_ID: Final = 1
CLUSTER_ID: Final = "builtin-1"
_STOP_GRACE_S: Final = {"gateway": 3.0, "broker": 4.0, "control": 2.0}
_REFRESH_S: Final = 0.5


class Stack:
    """One embedded stack on one data directory."""

    def __init__(self, layout: Layout, settings: dict[str, Resolved], say: Callable[[str], None]) -> None:
        self.layout = layout
        self._settings = settings
        self._say = say
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: Any = None

    def value(self, name: str) -> Any:
        """A setting's value."""
        return self._settings[name].value

    def lock(self) -> None:
        """Take the data directory. Raises: CommandError when another stack runs on it."""
        try:
            self.layout.data_dir.mkdir(parents=True, exist_ok=True)
            self._lock = self.layout.lock_file.open("a")
        except OSError as error:
            raise CommandError(
                f"the data directory {self.layout.data_dir} cannot be written: {error.strerror}; "
                "name another with --data-dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"a stack is already running on {self.layout.data_dir}: stop it, or name another --data-dir "
                "(with other --console and --vports)"
            ) from None

    async def start(self) -> dict[str, Any]:
        """Start everything; returns the stack file's content plus `admin_password` at the first start."""
        host, port = self.value("console")
        if fault := bind_fault(port, host):
            address = format_host_port(host, port)
            raise CommandError(
                f"the console cannot listen on {address}: {fault}; name another with --console HOST:PORT"
            )
        self.layout.ensure_secret()
        workers = range(self.value("workers"))
        ports = self.layout.ports(["internal", f"broker-{NODE_ID}"])
        internal = f"http://127.0.0.1:{ports['internal']}"
        self._spawn(self._control(ports["internal"]))
        # it looks whether another program holds a vport, which gateways must not hold yet
        control = await self._children[0].until_ready()
        self._spawn(self._broker(ports[f"broker-{NODE_ID}"], internal))
        for number in workers:
            self._spawn(self._gateway(number, internal))
        await asyncio.gather(*(child.until_ready() for child in self._children[1:]))
        content = self.describe(control)
        write_json(self.layout.stack_file, content, mode=0o600)
        self._tasks.append(asyncio.create_task(self._keep_stack_file(control)))
        password = control.pop("admin_password", None)
        if password is not None:  # shown once, kept nowhere but as its hash
            write_json(self.layout.run_file("control"), control, mode=0o600)
        return content | ({"admin_password": password} if password else {})

    def describe(self, control: dict[str, Any]) -> dict[str, Any]:
        """Addresses, local operator key and pids, as in the stack file."""
        pids: dict[str, list[int]] = {"control": [], "brokers": [], "gateways": []}
        metrics = {}
        groups = {"control": "control", "broker": "brokers", "gateway": "gateways"}
        for child in self._children:
            if child.pid is not None:
                pids[groups[child.spec.name.partition("-")[0]]].append(child.pid)
            if facts := child.facts():
                metrics[child.spec.name] = facts.get("metrics")
        host, port = self.value("console")
        return {
            "console": f"http://{format_host_port(host, port)}",
            "api_key": control["api_key"],
            "pids": pids,
            "metrics": metrics,
            "supervisor": os.getpid(),
        }

    async def _keep_stack_file(self, control: dict[str, Any]) -> None:
        """The pids in the stack file follow restarts."""
        written = self.describe(control)
        while True:
            await asyncio.sleep(_REFRESH_S)
            now = self.describe(control)
            if now != written:
                write_json(self.layout.stack_file, now, mode=0o600)
                written = now

    async def stop(self) -> None:
        """Stop gateways first, so that clients see closed connections and not errors, then the rest."""
        for group in ("gateway", "broker", "control"):
            members = [child for child in self._children if child.spec.name.startswith(group)]
            await asyncio.gather(*(child.stop(_STOP_GRACE_S[group]) for child in members))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            self.layout.stack_file.unlink()

    def _spawn(self, spec: ChildSpec) -> None:
        child = Child(spec, self.layout, self._say)
        self._children.append(child)
        self._tasks.append(asyncio.create_task(child.run(), name=spec.name))

    def _control(self, internal_port: int) -> ChildSpec:
        host, port = self.value("console")
        first, last = self.value("vports")
        arguments = (
            *("--data-dir", str(self.layout.data_dir), "--console", format_host_port(host, port)),
            *("--internal", f"127.0.0.1:{internal_port}", "--vip", str(self.value("vip"))),
            *("--vports", f"{first}-{last}", "--quota-policy", self.value("quota_policy")),
            *("--report-period-ms", str(self.value("report_period_ms"))),
        )
        return ChildSpec("control", "ctl.control", arguments)

    def _common(self, name: str, internal: str) -> tuple[str, ...]:
        return (
            *("--control", internal, "--secret-file", str(self.layout.secret_file)),
            *("--run-file", str(self.layout.run_file(name)), "--metrics", "127.0.0.1:0"),
        )

    def _broker(self, port: int, internal: str) -> ChildSpec:
        name = f"broker-{NODE_ID}"
        arguments = (
            *("--node-id", str(NODE_ID), "--cluster-id", CLUSTER_ID),
            *("--data-dir", str(self.layout.broker_dir(NODE_ID)), "--listen", f"127.0.0.1:{port}"),
            *("--report-period-ms", str(self.value("report_period_ms"))),
            *self._common(name, internal),
        )
        return ChildSpec(name, "broker", arguments)

    def _gateway(self, number: int, internal: str) -> ChildSpec:
        name = f"gateway-{number}"
        directory = self.layout.gateway_dir
        arguments = (
            *("--name", name, "--state-dir", str(directory / name)),
            *("--shared-table", str(directory / "connections.table")),
            *self._common(name, internal),
        )
        return ChildSpec(name, "gateway", arguments)
