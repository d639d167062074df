"""Puts one gateway worker together and runs it: specs in, listeners and connections out."""

import asyncio
import gc
from typing import Final

import msgspec
from prometheus_client.registry import Collector

from contracts.specs import ClusterSpec, ConsumerKind, InstanceSpec
from gateway.causes import DisconnectCause
from gateway.config import GatewayConfig
from gateway.listeners import ListenerSet
from gateway.metrics import WorkerCollector
from gateway.reporter import Reporter
from gateway.shared_table import SharedTable
from gateway.worker import Worker
from runtime import metrics
from runtime.config import environment
from runtime.feed import FeedFollower
from runtime.holdings import HoldingsTeller
from runtime.internal_http import InternalClient
from runtime.life import LIFE
from runtime.logs import get_logger
from runtime.machine import THIS_MACHINE, Machine
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


class StaticSpecs(msgspec.Struct, frozen=True, kw_only=True):
    """The file of `--specs`."""

    instances: tuple[InstanceSpec, ...] = ()
    clusters: tuple[ClusterSpec, ...] = ()


class Gateway:
    """A running worker."""

    def __init__(self, config: GatewayConfig, machine: Machine = THIS_MACHINE) -> None:
        check_kio_version()
        self.config = config
        secret = read_secret(config.secret_file)
        self.worker = Worker(config, secret, SharedTable(config.shared_table, config.worker), machine)
        self.listeners = ListenerSet(self.worker)
        self._tasks = Supervised()
        self._client = (
            InternalClient(config.control_url, secret)
            if config.control_url is not None and secret is not None
            else None
        )
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

    def _changed(self, changed: Changed) -> None:
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


async def serve(config: GatewayConfig) -> None:
    """Run a worker until it is cancelled."""
    gateway = Gateway(config)
    collectors: list[Collector] = [WorkerCollector(gateway.worker)]
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
    # What is loaded by now stays: the collector need not look at it again and again.
    gc.freeze()
    if config.run_file is not None:
        write_run_file(config.run_file, {"name": config.name, **metrics.facts(endpoint)})
    LIFE.serving()
    _log.info("gateway worker started", name=config.name, **metrics.facts(endpoint))
    try:
        await asyncio.Event().wait()
    finally:
        await gateway.aclose()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)
        _log.info("gateway worker stopped", name=config.name)
