"""Puts one gateway worker together and runs it: specs in, listeners and connections out."""

import asyncio
import gc
import socket
from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client.registry import Collector

from contracts.specs import ClusterSpec, ConsumerKind, InstanceSpec
from gateway.causes import DisconnectCause
from gateway.config import GatewayConfig
from gateway.draining import let_go
from gateway.handover import Giver, take
from gateway.listeners import ListenerSet
from gateway.metrics import WorkerCollector
from gateway.reporter import Reporter
from gateway.shared_buckets import SharedBuckets
from gateway.shared_ports import Place
from gateway.shared_table import SharedTable
from gateway.worker import Worker
from runtime import metrics
from runtime.config import environment
from runtime.feed import FeedFollower
from runtime.holdings import HoldingsTeller
from runtime.internal_http import InternalClient
from runtime.life import LIFE
from runtime.logs import get_logger
from runtime.machine import THIS_MACHINE, Machine, machine_boot_id
from runtime.master_address import ReferredAddress
from runtime.process import read_secret, write_run_file
from runtime.spec_book import Changed
from runtime.tasks import Supervised
from runtime.trace_start import tracing_of
from runtime.traffic_reports import TrafficReports
from wire.classify import check_kio_version

_log = get_logger(__name__)
_TICK_S: Final = 0.5
_REBIND_TICKS: Final = 4
_RESOLVE_EVERY_S: Final = 5.0
_LOOK_EVERY_S: Final = 5.0
_READY_S: Final = 30.0
_LOOK_S: Final = 0.05


class StaticSpecs(msgspec.Struct, frozen=True, kw_only=True):
    """The file of `--specs`."""

    instances: tuple[InstanceSpec, ...] = ()
    clusters: tuple[ClusterSpec, ...] = ()


class Gateway:
    """A running worker."""

    def __init__(
        self,
        config: GatewayConfig,
        machine: Machine = THIS_MACHINE,
        inherited: dict[Place, socket.socket] | None = None,
    ) -> None:
        check_kio_version()
        self.config = config
        secret = read_secret(config.secret_file)
        table = SharedTable(config.shared_table, config.worker)
        boot_id = machine_boot_id() if machine.boot_id is None else machine.boot_id
        self.worker = Worker(config, secret, table, SharedBuckets(config.shared_buckets, boot_id), machine)
        self.listeners = ListenerSet(self.worker, inherited)
        self._tasks = Supervised()
        self._client = (
            InternalClient(config.control_url, secret)
            if config.control_url is not None and secret is not None
            else None
        )
        self.worker.control = self._client
        self._traffic = self._traffic_reports(secret)
        cache = None if config.state_dir is None else config.state_dir / f"{config.name}-specs.json"
        self.follower = FeedFollower(self._client, config.name, ConsumerKind.GATEWAY, cache)
        self.follower.on_change(self._changed)

    def start(self) -> None:
        """Begin to serve; specs from the disk or the file are applied before this returns."""
        if self._traffic is not None:
            self._traffic.restore()
        if self._client is not None:
            self.follower.load_cache()
            self._tasks.spawn("feed", self.follower.run)
            reporter = Reporter(self.worker, self._client, self.config.name, self.worker.point.boot_id)
            self._tasks.spawn("reports", reporter.run)
            teller = HoldingsTeller(self.follower, self._client, self.config.name, ConsumerKind.GATEWAY)
            self._tasks.spawn("holdings", teller.run)
            self._tasks.spawn("other people's clusters", self._keep_looking)
        if self._traffic is not None:
            self._tasks.spawn("traffic reports", self._traffic.run)
        if self.config.specs_file is not None:
            self._load_specs()
            self._tasks.spawn("specs file", self._watch_specs)
        self._tasks.spawn("ticks", self._tick)
        self._tasks.spawn("broker names", self._keep_resolved)

    def _traffic_reports(self, secret: str | None) -> TrafficReports | None:
        """Request time is told to the quota master; without a control plane the static share applies."""
        config = self.config
        if config.control_url is None or secret is None:
            return None
        return TrafficReports(
            self.worker.point,
            ReferredAddress(config.control_url),
            secret,
            None if config.state_dir is None else config.state_dir / f"{config.name}-leases.json",
            before_report=self.worker.bill_all,
            rates_changed=self.worker.rates_changed,
            offload=asyncio.to_thread,
        )

    def _changed(self, changed: Changed) -> Iterator[None]:
        if changed.clusters:
            for cluster in self.follower.clusters.values():
                backend = self.worker.apply_cluster(cluster)
                self._tasks.spawn("resolve brokers", backend.resolve)
        for instance_id in sorted(changed.instance_ids):
            spec = self.follower.instances.get(instance_id)
            if spec is None:
                purged = instance_id in changed.purged
                cause = DisconnectCause.INSTANCE_DELETED if purged else DisconnectCause.INSTANCE_ABSENT
                self.listeners.stop(instance_id, cause)
                if purged:
                    self.worker.limit(changed.purged[instance_id])
            else:
                self.worker.limit(spec)
                self.listeners.apply(spec)
            yield
        self._tell_failures()

    def unready(self) -> str | None:
        """Why clients should not be sent here yet; None: they may."""
        if self.config.specs_file is None and not self.follower.position[0]:
            return "the control plane has not told which instances there are"
        return None

    def _tell_failures(self) -> None:
        self.follower.failures.clear()
        self.follower.failures.update(self.listeners.failures)

    async def _keep_resolved(self) -> None:
        """A broker that was moved to another machine keeps its name, not its address."""
        while True:
            await asyncio.sleep(_RESOLVE_EVERY_S)
            for backend in self.worker.backends:
                await backend.resolve()

    async def _keep_looking(self) -> None:
        """The control plane hears of a cluster that lets this worker in no more, before clients tell."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.gather(*(backend.look() for backend in self.worker.backends))

    async def _tick(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_S)
            ticks += 1
            self.worker.tick()
            if self.listeners.failures and ticks % _REBIND_TICKS == 0:
                self.listeners.retry_failed()
                self._tell_failures()

    def _load_specs(self) -> None:
        assert self.config.specs_file is not None
        specs = msgspec.json.decode(self.config.specs_file.read_bytes(), type=StaticSpecs)
        self.follower.apply_static(specs.instances, specs.clusters)

    async def _watch_specs(self) -> None:
        """Apply the file again when it was replaced."""
        path = self.config.specs_file
        assert path is not None
        seen = path.stat().st_mtime_ns
        while True:
            await asyncio.sleep(_TICK_S)
            changed = path.stat().st_mtime_ns
            if changed != seen:
                seen = changed
                self._load_specs()

    async def aclose(self) -> None:
        """Stop: tasks, listeners, connections."""
        await self._tasks.aclose()
        self.listeners.close()
        self.worker.close()
        if self._traffic is not None:
            await self._traffic.aclose()
        if self._client is not None:
            await self._client.aclose()


async def _until_ready(gateway: Gateway) -> None:
    """Raises: SystemExit when that takes too long; the worker before goes on then."""
    for _ in range(round(_READY_S / _LOOK_S)):
        if gateway.unready() is None:
            return
        await asyncio.sleep(_LOOK_S)
    raise SystemExit(f"the listeners stay where they are: {gateway.unready()}")


async def serve(config: GatewayConfig) -> None:
    """Run a worker until it is cancelled."""
    taken = None if config.take_over is None else await asyncio.to_thread(take, config.take_over)
    gateway = Gateway(config, inherited=None if taken is None else taken.sockets)
    collectors: list[Collector] = [WorkerCollector(gateway.worker, gateway.listeners.names)]
    tracing = tracing_of(environment(), "gateway", config.name)
    if tracing is not None:
        from gateway.tracing import GatewayTraces  # imports OpenTelemetry

        gateway.worker.traces = GatewayTraces(tracing, config.name)
        collectors.append(tracing.collector)
    secret = read_secret(config.secret_file)
    endpoint = None
    if config.metrics is not None:
        endpoint = metrics.serve(*config.metrics, secret, gateway.unready, collectors=collectors)
    gateway.start()
    if taken is not None:
        await _until_ready(gateway)
        taken.serves()
    # What is loaded by now stays: the collector need not look at it again and again.
    gc.freeze()
    if config.run_file is not None:
        write_run_file(config.run_file, {"name": config.name, **metrics.facts(endpoint)})
    LIFE.serving()
    _log.info("gateway worker started", name=config.name, **metrics.facts(endpoint))
    replaced = asyncio.Event()

    def give_way() -> None:
        gateway.listeners.give_way()
        replaced.set()

    giver = Giver(asyncio.get_running_loop(), gateway.listeners.sockets, give_way)
    giver.start()
    try:
        await replaced.wait()
        _log.info("another worker has taken over: connections are closed when they are idle")
        await let_go(gateway.worker, config.drain_ms, gateway.listeners.nameless)
    finally:
        giver.close()
        await gateway.aclose()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)
        _log.info("gateway worker stopped", name=config.name)
