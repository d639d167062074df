"""The embedded stack as supervised processes: ZooKeeper, control plane and master, brokers, gateways."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from contracts.tree import TreeUnavailable
from ctl.errors import CommandError
from ctl.stack.children import Child, ChildSpec
from ctl.stack.cluster import OWN, Cluster, planned, remember, remembered
from ctl.stack.holding import hold
from ctl.stack.layout import Layout, bind_fault
from ctl.stack.leftovers import left, until_ended
from ctl.stack.log_files import rotate
from ctl.stack.metrics_plan import PrometheusFiles
from ctl.stack.moving import move_local_metadata
from ctl.stack.processes import CLUSTER_ID, Processes, broker_name
from ctl.stack.registration import until_registered
from ctl.stack.rollover import Rollover, Upgrades
from ctl.stack.settings import to_json
from ctl.stack.steps import Teller, until_all_serve
from runtime.config import Resolved, format_host_port
from runtime.metrics import scrape_token
from runtime.process import write_json

_STOP_GRACE_S: Final = {"pipeline": 15.0, "gateway": 3.0, "broker": 4.5, "control": 2.0, "zookeeper": 1.5}
_PIDS: Final = {"control": "control", "broker": "brokers", "gateway": "gateways"}
"""Groups of processes as the stack file names them; others by their own name, when there are any."""
_REFRESH_S: Final = 0.5
_LOOK_AT_LOGS_S: Final = 5.0


class Stack:
    """One embedded stack on one data directory."""

    def __init__(self, layout: Layout, settings: dict[str, Resolved], teller: Teller) -> None:
        self.layout = layout
        self._settings = settings
        self._teller = teller
        self._say = teller.say
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: Any = None
        self._zookeeper: str | None = None
        self._rollover: Rollover | None = None
        """Once gateways are started."""
        directory = self.value("prometheus_dir")
        self._prometheus = PrometheusFiles(
            Path(directory) if directory else layout.prometheus_dir, CLUSTER_ID, is_shared=bool(directory)
        )
        self._upgrades = Upgrades(0, "")
        self._upgrading = asyncio.Lock()
        self._endpoints: dict[str, str] = {}
        """Where each process is scraped, or was before it ended: who watches has to see that it is gone."""

    def value(self, name: str) -> Any:
        """A setting's value."""
        return self._settings[name].value

    def lock(self) -> None:
        """Take the data directory. Raises: CommandError when another stack runs on it."""
        self._lock = hold(self.layout, "a stack", " (with other --console and --vports)")

    async def start(self) -> dict[str, Any]:
        """Start everything; returns the stack file's content plus `admin_password` at the first start."""
        if left(self.layout):
            self._teller.step("waiting for the processes of a supervisor that was killed to end")
        if stubborn := await until_ended(self.layout):
            self._say(f"{', '.join(stubborn)} of a supervisor that was killed did not end: killed")
        host, port = self.value("console")
        if fault := bind_fault(port, host):
            address = format_host_port(host, port)
            raise CommandError(
                f"the console cannot listen on {address}: {fault}; name another with --console HOST:PORT"
            )
        self._write_secrets()
        kept = remembered(self.layout)
        cluster = planned({name: found.value for name, found in self._settings.items()}, kept)
        processes = self._processes(cluster)
        jobs = [processes.pipeline()] if self.value("pipeline") else []
        first = [processes.zookeeper()] if cluster.zookeeper == OWN else []
        remember(self.layout, cluster)
        own = [self._spawn(spec) for spec in first]
        control_child = self._spawn(processes.control())
        if cluster.zookeeper is not None:
            await until_all_serve(own, self._teller)
            await move_local_metadata(self.layout, self._zookeeper, self._say)
        children = [self._spawn(processes.broker(node_id)) for node_id in range(1, cluster.brokers + 1)]
        # it looks whether another program holds a vport, which gateways must not hold yet
        await until_all_serve([control_child], self._teller)
        control = await control_child.until_ready()
        children += [self._spawn(processes.gateway(number)) for number in range(self.value("workers"))]
        self._rollover = Rollover(self.layout, processes, self.value("workers"), self._spawn, self._say)
        await until_all_serve(children, self._teller)
        content = self.describe(control)
        self._teller.step("waiting until the control plane knows all brokers")
        if trouble := await until_registered(content["console"], content["api_key"], cluster.brokers):
            self._say(f"instances cannot be served now: {trouble}")
        self._teller.clear()
        if cluster.zookeeper == OWN:
            await self._close_zookeeper()
        write_json(self.layout.stack_file, content, mode=0o600)
        for spec in jobs:
            self._spawn(spec)  # a client of the stack, which it finds by its file
        self._tell_prometheus(self._endpoints)
        self._tasks.append(asyncio.create_task(self._keep_files(control)))
        self._tasks.append(asyncio.create_task(self._keep_logs_small()))
        password = control.pop("admin_password", None)
        if password is not None:  # shown once, kept nowhere but as its hash
            write_json(self.layout.run_file("control"), control, mode=0o600)
        return content | ({"admin_password": password} if password else {})

    async def _close_zookeeper(self) -> None:
        """Our own server is ours to its root: nobody else creates or deletes there."""
        from runtime.tree.access import Access, take_over  # kazoo: only where there is a ZooKeeper

        assert self._zookeeper is not None, "started with the stack"
        access = Access(self.layout.ensure_secret())
        try:
            await asyncio.to_thread(take_over, self._zookeeper, "", access, root=True)
        except TreeUnavailable as error:
            raise CommandError(f"ZooKeeper cannot be closed to others: {error}") from error

    def _write_secrets(self) -> None:
        try:
            secret = self.layout.ensure_secret()
        except OSError as error:
            raise CommandError(f"{self.layout.secret_file} cannot be used: {error.strerror}") from error
        try:
            self._prometheus.write_token(scrape_token(secret))
        except OSError as error:
            raise CommandError(
                f"{self._prometheus.token_file} cannot be written: {error.strerror}; "
                "name another directory with --prometheus-dir"
            ) from error

    def _tell_prometheus(self, endpoints: Mapping[str, str]) -> None:
        """A stack serves without being watched, too."""
        try:
            self._prometheus.write_targets(endpoints)
        except OSError as error:
            self._say(f"{self._prometheus.targets_file} cannot be written: {error.strerror}")

    def _processes(self, cluster: Cluster) -> Processes:
        own = ["zookeeper"] if cluster.zookeeper == OWN else []
        names = ["internal", *own, *(broker_name(node_id) for node_id in range(1, cluster.brokers + 1))]
        ports = self.layout.ports(names)
        self._zookeeper = f"127.0.0.1:{ports['zookeeper']}" if own else cluster.zookeeper
        return Processes(self.layout, self._settings, ports, self._zookeeper)

    def describe(self, control: dict[str, Any]) -> dict[str, Any]:
        """Addresses, local operator key and pids, as in the stack file."""
        pids: dict[str, list[int]] = {name: [] for name in _PIDS.values()}
        brokers = []
        for child in self._children:
            running = pids.setdefault(
                _PIDS.get(child.spec.group, child.spec.group), []
            )  # empty while it is started again
            if child.pid is not None:
                running.append(child.pid)
            if facts := child.facts():
                if facts.get("metrics"):
                    self._endpoints[child.spec.name] = facts["metrics"]
                if child.spec.group == "broker":
                    brokers.append({name: facts[name] for name in ("node_id", "port", "pid")})
        host, port = self.value("console")
        return {
            "console": f"http://{format_host_port(host, port)}",
            "api_key": control["api_key"],
            "pids": pids,
            "brokers": brokers,
            "zookeeper": self._zookeeper,
            "internal": control["internal"],
            "metrics": dict(self._endpoints),
            "settings": to_json(self._settings),
            "supervisor": os.getpid(),
            "upgrades": self._upgrades._asdict(),
            "restarts": {
                child.spec.name: {"count": child.restarts, **asdict(child.last_restart)}
                for child in self._children
                if child.last_restart is not None
            },
        }

    async def upgrade_gateways(self) -> None:
        """Exchange every gateway worker for a new process, one after the other."""
        if self._rollover is None or self._upgrading.locked():
            return
        async with self._upgrading:
            trouble = ""
            try:
                for old in [child for child in self._children if child.spec.group == "gateway"]:
                    await self._rollover.exchange(old)
                    self._tasks.append(asyncio.create_task(self._forget(old)))
            except CommandError as error:
                trouble = error.sentence
                self._children = [child for child in self._children if not child.ended.is_set()]
                self._say(f"gateways were not all exchanged: {trouble}")
            self._upgrades = Upgrades(self._upgrades.ended + 1, trouble)

    async def _forget(self, old: Child) -> None:
        """A worker that was replaced ends when its connections have."""
        await old.ended.wait()
        self._children.remove(old)
        self._endpoints.pop(old.spec.name, None)
        self.layout.run_file(old.spec.name).unlink(missing_ok=True)

    async def _keep_files(self, control: dict[str, Any]) -> None:
        """Pids in the stack file and addresses for Prometheus follow restarts."""
        written = self.describe(control)
        while True:
            await asyncio.sleep(_REFRESH_S)
            now = self.describe(control)
            if now != written:
                write_json(self.layout.stack_file, now, mode=0o600)
                if now["metrics"] != written["metrics"]:
                    self._tell_prometheus(now["metrics"])
                written = now

    async def _keep_logs_small(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AT_LOGS_S)
            for path in sorted(self.layout.logs_dir.glob("*.log")):
                try:
                    await asyncio.to_thread(rotate, path)
                except OSError as error:
                    self._say(f"{path} cannot be cut: {error}")

    async def stop(self) -> None:
        """Stop jobs first; gateways before brokers, so that clients see closed connections and not errors."""
        for groups in (("pipeline",), ("gateway",), ("broker", "control"), ("zookeeper",)):
            members = [child for child in self._children if child.spec.group in groups]
            await asyncio.gather(*(child.stop(_STOP_GRACE_S[child.spec.group]) for child in members))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tell_prometheus({})  # what was stopped on purpose is no target that is down
        for path in (self.layout.stack_file, self.layout.run_file("supervisor")):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def _spawn(self, spec: ChildSpec) -> Child:
        child = Child(spec, self.layout, self._say, self.value("hang_timeout_ms"))
        self._children.append(child)
        self._tasks.append(asyncio.create_task(child.run(), name=spec.name))
        return child
