"""One broker from top to bottom: what it holds, how it starts, what runs in the background, how it stops."""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.cluster.config_writer import ConfigWriter
from broker.cluster.member import ClusterMember, open_tree
from broker.config import BrokerConfig
from broker.configs.config_layers import ConfigLayers
from broker.configs.config_view import ConfigEntries
from broker.control.held import HeldInstances
from broker.control.instance_limits import InstanceLimits
from broker.control.traffic_leaders import TrafficLeaders
from broker.controller.api import ControllerApi
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.peers import Peers
from broker.coordinators.producer_ids import ProducerIds
from broker.coordinators.transactions import TransactionCoordinators
from broker.fetches.fetch_sessions import FetchSessionCache
from broker.log.files import LogFiles
from broker.log.load_report import LoadReport
from broker.log.log_config import LogConfig
from broker.metadata.metadata_cache import MetadataCache, MetadataChange
from broker.monitoring.damage_report import log_damage
from broker.monitoring.gauges import register_gauges
from broker.monitoring.group_lag import GroupLag
from broker.net.later import Later
from broker.net.rules.rate_limited import RateLimitedLog
from broker.net.server import Server
from broker.records.fetching import Fetches
from broker.replication.host import IsrChange
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.replicator.manager import ReplicaManager
from broker.replicator.service import Replication
from broker.requests.metrics import BrokerMetrics
from broker.scanning.messages import Answer
from broker.scanning.scanner import Scanner
from broker.storage.flusher import Flusher
from broker.storage.manager import LogManager
from broker.upkeep.maintenance import Maintenance
from broker.upkeep.purging import Purging
from contracts.names import owner_of
from contracts.specs import Limits
from contracts.tree import Tree
from runtime.config import format_host_port
from runtime.logs import get_logger
from runtime.machine import THIS_MACHINE, Machine
from runtime.tasks import Supervised
from traffic.point import TrafficPoint

if TYPE_CHECKING:
    from broker.control.reporting import Reporting

_log = get_logger(__name__)
_STOP_GRACE_S: Final = 1.0
_SESSION_ID_MAX: Final = 2**31 - 1
_LAYERS_KEPT: Final = 1_000


class Broker:
    """Makes the parts of the process, which live on one event loop, and has them hear of each other.

    Nobody but `__main__` imports it: handlers, and parts that need many others, get it as what they name in a
    Protocol of their own.
    """

    def __init__(
        self, config: BrokerConfig, machine: Machine = THIS_MACHINE, tree: Tree | None = None
    ) -> None:
        """`tree` (default: as `config` says) holds the cluster's metadata."""
        self.config = config
        self.machine = machine
        self.loop = asyncio.get_running_loop()
        self.metrics = BrokerMetrics()
        self.boot_id = machine.uuid4().hex
        self.now_ms = machine.clock.monotonic_ms
        self.epoch_ms = machine.clock.epoch_ms
        self._warnings = RateLimitedLog(_log)
        self.traffic = self._traffic_point()
        self.logs = self._log_manager()
        self.metadata = MetadataCache()
        self.layers = ConfigLayers({}, {}, config.static_layer)
        """What lies below a topic's configs."""
        self.limits = InstanceLimits()
        self.config_entries = ConfigEntries()
        self._log_configs: dict[tuple[Limits | None, tuple[tuple[str, str], ...]], LogConfig] = {}
        """By limits and a topic's own layer: thousands of partitions share few."""
        self.replicas = Replicas(config.node_id, self.metadata, config.replica_lag_time_max_ms)
        self.replica_manager = ReplicaManager(
            self.replicas,
            self.logs,
            configs_of=self.metadata.configs,
            log_config=self._log_config,
            now_ms=self.now_ms,
            epoch_ms=self.epoch_ms,
        )
        self.leaders = TrafficLeaders(self.traffic, self.replicas, self.metadata)
        self.held = HeldInstances(self.epoch_ms)
        self.groups = GroupCoordinators(
            self.metadata, on_written=self.charge_owner, is_held=self.held.owns, machine=machine
        )
        self.fetch_sessions = FetchSessionCache(
            config.fetch_sessions_max, lambda: machine.random.randrange(_SESSION_ID_MAX) + 1
        )
        self.fetches = Fetches(self.loop.call_soon)
        self.flusher = Flusher(self.logs, self.loop, self.epoch_ms, self.storage_failed)
        self.scanner = Scanner(self.loop, self._scanned)
        self.server = self._server()
        self.later = Later(
            self.loop, self.server.time, self.server.handler_failed, lambda: self.metadata.is_known
        )
        self.member = self._member(tree or open_tree(config))
        self.commands = self.member.commands
        self.controller: ControllerApi = self.member.controller
        """The controller as this broker sees it."""
        self.replication = self._replication()
        self.producer_ids = ProducerIds(self.member.tree, config.node_id)
        self.transactions = self._transactions()
        self.config_writer = ConfigWriter(self.member.tree, self.metadata)
        self._maintenance = Maintenance(self)
        self._purging = Purging(self.controller, self.metadata, self.groups, self.transactions)
        self.loaded: LoadReport
        """What starting found on the disk."""
        self.node: tuple[int, str, int]
        """Node id, advertised host and port; known when the listener is bound."""
        self._reporting: Reporting | None = None
        self._tasks = Supervised()

    def _traffic_point(self) -> TrafficPoint:
        config = self.config
        point = TrafficPoint(
            point=f"broker-{config.node_id}",
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            boot_id=self.boot_id,
            now_ms=self.now_ms(),
        )
        point.period_ms = config.report_period_ms
        return point

    def _log_manager(self) -> LogManager:
        config = self.config
        return LogManager(
            config.log_directories,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            files=LogFiles(sync=self.machine.sync_file),
            boot_id=self.machine.boot_id,
            full_is_failure=config.zookeeper is not None,
            producers_per_instance_max=config.producers_per_instance_max,
            on_offline=lambda path, keys, reason: self._on_loop(self._directory_failed, path, keys, reason),
        )

    def _server(self) -> Server:
        return Server(
            self.config,
            self.metrics,
            self.traffic,
            self.machine,
            deps=self,
            unserved=self.held,
            next_request_came=self._next_request_came,
            on_closed=self._connection_closed,
        )

    def _member(self, tree: Tree) -> ClusterMember:
        return ClusterMember(
            self.config,
            self.metadata,
            self.replica_manager,
            tree,
            self.machine,
            limits_of=self.limits.of_topic,
            storage_failed=self.storage_failed,
        )

    def _transactions(self) -> TransactionCoordinators:
        return TransactionCoordinators(
            self.replicas,
            self.groups,
            self.producer_ids,
            Peers(self.metadata, self.config.secret, self.member.who, self.machine.network),
            on_written=self.charge_owner,
            clock=self.machine.clock,
        )

    def _replication(self) -> Replication:
        replication = Replication(
            self.config,
            self.replicas,
            self.replica_manager,
            self.metadata,
            self.flusher,
            loop=self.loop,
            machine=self.machine,
            me=self.member.who,
            answered=self.metrics.replica_fetch.observe,
            storage_failed=self.storage_failed,
            handler_failed=self.server.handler_failed,
        )
        self.fetches.listen(self.replicas, replication.sessions)
        return replication

    @cached_property
    def group_lag(self) -> GroupLag:
        """How far consumer groups are behind, for who scrapes."""
        return GroupLag(self.groups.committed_offsets, self._high_watermark)

    async def start(self) -> int:
        """Reach the cluster, load, listen, join, and start the background tasks; the bound port.

        Raises: OSError, StorageFailed, and what `ClusterMember` raises; then the cluster is left again.
        """
        try:
            return await self._start()
        except BaseException:
            await self.member.stop_controlling()
            await self.member.leave()
            raise

    async def _start(self) -> int:
        await self.member.connect()
        await self._load()
        self._connect_parts()
        port = self.server.bind()
        self.node = (
            self.config.node_id,
            self.config.advertised_host or self.config.listen_host,
            self.config.advertised_port or port,
        )
        if self.config.zookeeper is not None:
            self.server.accept()  # the controller, which may be elsewhere, must reach us
        await self.member.join(*self.node[1:], is_unclean=self.loaded.is_unclean)
        self.logs.remember_boot()
        self.server.accept()
        self.leaders.measure_all()
        self._start_tasks()
        _log.info(
            "broker serves",
            address=format_host_port(self.config.listen_host, port),
            brokers=len(self.metadata.brokers),
            topics=len(self.metadata),
            replicas=len(self.replicas),
            recovered_bytes=self.loaded.recovered_bytes,
            truncated_bytes=self.loaded.truncated_bytes,
        )
        return port

    async def _load(self) -> None:
        """Open the logs found on the disk. Recovery may take long, and the session must live."""
        self._take_layers(await self.member.read_broker_configs())
        topics = await self.member.read_topic_configs()
        self.held.keep_all(await self.member.read_kept_until_ms())
        self.loaded = await asyncio.to_thread(
            self.logs.load, lambda name: self._log_config(name, topics.get(name, {})), self.epoch_ms()
        )
        self.loaded.forget_deleted(await self.member.read_topics())
        self.metrics.recovered_bytes = self.loaded.recovered_bytes
        _tell_loaded(self.loaded)

    def _connect_parts(self) -> None:
        """Who hears from whom."""
        replicas, metadata = self.replicas, self.metadata
        replicas.on_leadership(self.groups.leadership)
        replicas.on_leadership(self.transactions.leadership)
        replicas.on_isr_proposed(self._isr_proposed)
        metadata.on_change(self._metadata_changed)
        metadata.on_deleted(lambda topic: self.groups.topics_deleted([topic.name]))
        register_gauges(self.metrics, self)

    def _start_tasks(self) -> None:
        self._tasks.spawn("groups", self.groups.sweep)
        self._tasks.spawn("group lag", self.group_lag.run)
        self._tasks.spawn("transactions", self.transactions.sweep)
        self._tasks.spawn("sweep connections", self.server.sweep)
        self._tasks.spawn("registration", self.member.keep_registered)
        for name, work in (*self._maintenance.tasks(), *self.replication.tasks(self.member.tree)):
            self._tasks.spawn(name, work)
        self._tasks.spawn("purge", self._purging.run)
        if self.config.control_url is not None and self.config.secret is not None:
            self._start_reporting(self.config.control_url, self.config.secret)

    def _start_reporting(self, control_url: str, secret: str) -> None:
        from broker.control.reporting import (
            Reporting,  # its HTTP client costs as much start-up time as all the rest
        )

        self._reporting = Reporting(self, self.member.tree, self._purging.order, control_url, secret)
        self._reporting.start(self._tasks)

    # -- what changes around us --------------------------------------------------------------------------

    def _metadata_changed(self, change: MetadataChange) -> None:
        names: Iterable[str] = change.configs
        if change.broker_configs:
            self._take_layers(self.metadata.broker_configs)
            names = [topic.name for topic in self.metadata]
        for name in names:
            topic = self.metadata.topic(name)
            if topic is not None:
                self.replica_manager.reconfigure(name, len(topic.partitions), topic.configs)
        self.later.cluster_is_known()

    def hold(self, instance_id: str) -> None:
        """An instance is deleted or absent: nobody is served, nothing expires."""
        if instance_id not in self.held:
            self.held.hold(instance_id)
            self.server.cut(instance_id)

    def reconfigure_instances(self, instance_ids: Container[str | None]) -> None:
        """The limits of instances have changed: their topics follow."""
        for topic in self.metadata:
            if owner_of(topic.name) in instance_ids:
                self.replica_manager.reconfigure(topic.name, len(topic.partitions), topic.configs)

    def _log_config(self, topic: str, layer: Mapping[str, str]) -> LogConfig:
        limits = self.limits.of_topic(topic)
        key = limits, tuple(sorted(layer.items()))
        config = self._log_configs.get(key)
        if config is None:
            if len(self._log_configs) >= _LAYERS_KEPT:
                self._log_configs.clear()
            config = self._log_configs[key] = self.layers.log_config(layer, limits)
        return config

    def _take_layers(self, broker_configs: Mapping[str, Mapping[str, str]]) -> None:
        self.layers = ConfigLayers(
            broker_configs.get(str(self.config.node_id), {}),
            broker_configs.get("", {}),
            self.config.static_layer,
        )
        self._log_configs.clear()
        self.config_entries.forget()

    def charge_owner(self, key: str, size_bytes: int) -> None:
        """A coordinator wrote to an internal topic, or tells a member what others brought: the group's or
        transactional id's instance pays."""
        instance_id = owner_of(key)
        if instance_id is not None:
            self.traffic.charge_internal(instance_id, size_bytes, self.now_ms())

    def _high_watermark(self, topic: str, index: int) -> int | None:
        """Of a partition that has a replica here."""
        hosted = self.replicas.hosted(topic, index)
        return None if hosted is None else hosted.high_watermark

    def _isr_proposed(self, partition: Partition, change: IsrChange) -> None:
        direction = "shrink" if len(change.isr) < len(partition.isr) else "expand"
        self.metrics.isr_changes[direction] += 1

    # -- what parts tell ---------------------------------------------------------------------------------

    def _next_request_came(self, connection_id: int) -> None:
        self.replication.sessions.next_request_came(connection_id)

    def _connection_closed(self, connection_id: int) -> None:
        """Forget what waits for a connection."""
        self.fetches.connection_closed(connection_id)
        self.replication.connection_closed(connection_id)

    def _scanned(self, instance_id: str, answer: Answer) -> None:
        """The scanning process has worked for an instance."""
        self.metrics.scans += 1
        self.metrics.scan_steps += answer.steps
        self.metrics.scan_cpu_us += answer.cpu_us
        if instance_id:
            self.server.time.helped(instance_id, answer.cpu_us)

    def storage_failed(self, what: str, error: Exception) -> None:
        """The disk refused something; clients hear it as KAFKA_STORAGE_ERROR."""
        self.metrics.storage_errors += 1
        self._warnings.warning(f"storage: {what}", self.now_ms(), error=str(error))

    def _on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """From any thread, once what happens now is over."""
        self.loop.call_soon_threadsafe(partial(callback, *arguments))

    def _directory_failed(self, path: Path, keys: list[tuple[str, int]], reason: str) -> None:
        """Others lead its partitions, as soon as the controller knows."""
        _log.error("a log directory has failed", directory=str(path), replicas=len(keys), reason=reason)
        self.replica_manager.log_directory_failed(keys, f"log directory {path} has failed: {reason}")
        self._tasks.spawn("tell of a failed directory", self.member.tell_of_failed_directory)

    # -- the end -------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Hand leadership over, finish what is in flight, flush, leave the clean-shutdown marker, leave."""
        broker_epoch = self.member.membership.broker_epoch
        await self.member.hand_over()
        self.fetches.end_all()
        await self.server.stop(_STOP_GRACE_S)
        self.later.close()
        await self._tasks.aclose()
        if self._reporting is not None:
            await self._reporting.aclose()
        self.scanner.close()
        self.groups.close()
        self.transactions.close()
        self.producer_ids.close()
        await self.member.stop_controlling()
        self.replication.close()
        await self.flusher.aclose()
        for failure in self.logs.close(broker_epoch=broker_epoch):
            _log.error("a log could not be closed cleanly", error=str(failure))
        await self.member.leave()
        _log.info("broker stopped")


def _tell_loaded(report: LoadReport) -> None:
    """One line for each log that is not as it was left."""
    for (topic, partition), reason in report.failures.items():
        _log.error("a log cannot be opened", topic=topic, partition=partition, reason=reason)
    for (topic, partition), (end_offset, size_bytes) in report.truncated.items():
        _log.warning(
            "the torn or damaged end of a log was cut",
            topic=topic,
            partition=partition,
            log_end_offset=end_offset,
            truncated_bytes=size_bytes,
        )
    for (topic, partition), damage in report.damaged.items():
        log_damage(topic, partition, damage)
    for (topic, partition), (end_offset, committed) in report.short.items():
        _log.error(
            "a log lacks committed records: other replicas are preferred until it has fetched them",
            topic=topic,
            partition=partition,
            log_end_offset=end_offset,
            high_watermark=committed,
        )
