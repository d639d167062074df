"""The broker's side of the control plane: follow the feed, report traffic, apply leases.

A thin shell: `TrafficPoint` decides. Without a control plane none of it runs and nothing is limited.
"""

from collections.abc import Callable, Container
from typing import Protocol

from broker.config import BrokerConfig
from broker.control.held import HeldInstances
from broker.control.instance_limits import InstanceLimits
from broker.control.strays import Holdings
from broker.control.traffic_leaders import TrafficLeaders
from broker.monitoring.damage_report import damaged_logs
from broker.net.server import Server
from broker.replication.replicas import Replicas
from broker.storage.flusher import Flusher
from broker.storage.manager import LogManager
from contracts.specs import BrokerAddress, ConsumerKind, InstanceSpec
from contracts.tree import Tree
from runtime.feed import FeedFollower
from runtime.holdings import HoldingsTeller
from runtime.internal_http import InternalClient
from runtime.logs import get_logger
from runtime.master_address import WatchedAddress
from runtime.spec_book import Changed
from runtime.tasks import Supervised
from runtime.traffic_reports import TrafficReports
from traffic.point import TrafficPoint

_log = get_logger(__name__)


class Reported(Protocol):
    """Of what is reported, and what follows the specs."""

    config: BrokerConfig
    epoch_ms: Callable[[], int]
    flusher: Flusher
    held: HeldInstances
    leaders: TrafficLeaders
    limits: InstanceLimits
    logs: LogManager
    node: tuple[int, str, int]
    now_ms: Callable[[], int]
    replicas: Replicas
    server: Server
    traffic: TrafficPoint

    def hold(self, instance_id: str) -> None: ...

    def reconfigure_instances(self, instance_ids: Container[str | None]) -> None: ...


class Reporting:
    """One broker's conversation with the control plane."""

    def __init__(
        self, deps: Reported, tree: Tree, purge: Callable[[str], None], control_url: str, secret: str
    ) -> None:
        self._deps = deps
        self._purge_instance = purge
        config = deps.config
        node_id, host, port = deps.node
        self._client = InternalClient(control_url, secret)
        self._address = WatchedAddress(tree, control_url)
        self._reports = TrafficReports(
            deps.traffic,
            self._address,
            secret,
            config.data_dir / "leases.json",
            before_report=self._before_report,
            rates_changed=lambda _: deps.server.check_mutes(),
            offload=deps.flusher.run,
            now_ms=deps.now_ms,
            epoch_ms=deps.epoch_ms,
        )
        self.feed = FeedFollower(
            self._client,
            f"broker-{node_id}",
            ConsumerKind.BROKER,
            config.data_dir / "specs.json",
            broker=BrokerAddress(node_id=node_id, host=host, port=port),
            cluster_id=config.cluster_id,
            damaged_logs=lambda: damaged_logs(deps.logs, deps.replicas),
        )
        self.feed.on_change(self._specs_changed)
        self._holdings = HoldingsTeller(
            self.feed,
            self._client,
            f"broker-{node_id}",
            ConsumerKind.BROKER,
            cluster_id=config.cluster_id,
            measure=Holdings(
                deps.replicas, self.feed, deps.epoch_ms, hold=self._hold_stray, release=deps.held.release
            ),
        )

    def start(self, tasks: Supervised) -> None:
        """Start from what the disk remembers, then follow and report."""
        self._reports.restore()
        self.feed.load_cache()
        tasks.spawn("feed", self.feed.run)
        tasks.spawn("master's address", self._address.run)
        tasks.spawn("reports", self._reports.run)
        tasks.spawn("holdings", self._holdings.run)

    def _specs_changed(self, changed: Changed) -> None:
        deps = self._deps
        if changed.clusters:
            cluster = self.feed.clusters.get(deps.config.cluster_id)
            if cluster is not None:
                deps.traffic.broker_count = max(1, len(cluster.brokers))
        rates_changed = False
        bounded_anew: set[str | None] = set()
        for instance_id in changed.instance_ids:
            spec = self.feed.instances.get(instance_id)
            if instance_id in changed.purged:
                self._purge(changed.purged[instance_id])
            elif spec is None:
                self._hold(instance_id)
            elif spec.cluster_id == deps.config.cluster_id or spec.state.is_gone:
                deps.leaders.lives_here(instance_id, True)
                rates_changed |= self._follow(spec)
                if deps.limits.take(spec):
                    bounded_anew.add(instance_id)
            else:
                deps.leaders.lives_here(instance_id, False)
                deps.hold(instance_id)
        if bounded_anew:
            deps.reconfigure_instances(bounded_anew)
        if rates_changed:
            deps.server.check_mutes()

    def _follow(self, spec: InstanceSpec) -> bool:
        """Whether a rate or the block changed."""
        if spec.state.is_gone:
            self._deps.hold(spec.instance_id)
        else:
            self._deps.held.release(spec.instance_id)
        return self._deps.traffic.set_spec(spec, self._deps.now_ms())

    def _hold(self, instance_id: str) -> None:
        """The feed tells of it no more: its data and its limits stay as they are."""
        deps, spec = self._deps, self.feed.absent[instance_id].spec
        if spec.cluster_id == deps.config.cluster_id:
            deps.hold(instance_id)
            deps.traffic.hold(instance_id, spec, deps.now_ms())

    def _hold_stray(self, instance_id: str) -> None:
        self._deps.hold(instance_id)
        self._deps.traffic.hold(instance_id, None, self._deps.now_ms())

    def _purge(self, order: InstanceSpec) -> None:
        deps = self._deps
        _log.warning("an instance is purged", instance=order.instance_id, deletion=str(order.deletion))
        deps.held.release(order.instance_id)
        deps.traffic.set_spec(order, deps.now_ms())
        self._purge_instance(order.instance_id)

    def _before_report(self) -> None:
        self._deps.leaders.measure_all()
        self._deps.server.bill()

    async def aclose(self) -> None:
        """Keep the leases and close the connections."""
        await self._reports.aclose()
        await self._client.aclose()
