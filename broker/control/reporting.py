"""The broker's side of the control plane: follow the feed, report traffic, apply leases.

A thin shell: `TrafficPoint` decides. Without a control plane none of it runs and nothing is limited.
"""

from typing import TYPE_CHECKING

from broker.control.strays import Holdings
from broker.monitoring.damage_report import damaged_logs
from contracts.specs import BrokerAddress, ConsumerKind, InstanceSpec
from runtime.feed import FeedFollower
from runtime.holdings import HoldingsTeller
from runtime.internal_http import InternalClient
from runtime.logs import get_logger
from runtime.master_address import WatchedAddress
from runtime.spec_book import Changed
from runtime.tasks import Supervised
from runtime.traffic_reports import TrafficReports

if TYPE_CHECKING:
    from broker.app import Broker

_log = get_logger(__name__)


class Reporting:
    """One broker's conversation with the control plane."""

    def __init__(self, broker: "Broker", control_url: str, secret: str) -> None:
        self._broker = broker
        config = broker.config
        node_id, host, port = broker.node
        self._client = InternalClient(control_url, secret)
        self._address = WatchedAddress(broker.member.tree, control_url)
        self._reports = TrafficReports(
            broker.traffic,
            self._address,
            secret,
            config.data_dir / "leases.json",
            before_report=self._before_report,
            rates_changed=lambda _: broker.server.check_mutes(),
            offload=broker.flusher.run,
            now_ms=broker.now_ms,
            epoch_ms=broker.epoch_ms,
        )
        self.feed = FeedFollower(
            self._client,
            f"broker-{node_id}",
            ConsumerKind.BROKER,
            config.data_dir / "specs.json",
            broker=BrokerAddress(node_id=node_id, host=host, port=port),
            cluster_id=config.cluster_id,
            damaged_logs=lambda: damaged_logs(broker),
        )
        self.feed.on_change(self._specs_changed)
        self._holdings = HoldingsTeller(
            self.feed,
            self._client,
            f"broker-{node_id}",
            ConsumerKind.BROKER,
            cluster_id=config.cluster_id,
            measure=Holdings(broker, self.feed, broker.epoch_ms),
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
        broker = self._broker
        if changed.clusters:
            cluster = self.feed.clusters.get(broker.config.cluster_id)
            if cluster is not None:
                broker.traffic.broker_count = max(1, len(cluster.brokers))
        rates_changed = False
        bounded_anew: set[str | None] = set()
        for instance_id in changed.instance_ids:
            spec = self.feed.instances.get(instance_id)
            if instance_id in changed.purged:
                self._purge(changed.purged[instance_id])
            elif spec is None:
                self._hold(instance_id)
            elif spec.cluster_id == broker.config.cluster_id or spec.state.is_gone:
                rates_changed |= self._follow(spec)
                if broker.limits.take(spec):
                    bounded_anew.add(instance_id)
        if bounded_anew:
            broker.reconfigure_instances(bounded_anew)
        if rates_changed:
            broker.server.check_mutes()

    def _follow(self, spec: InstanceSpec) -> bool:
        """Whether a rate or the block changed."""
        if spec.state.is_gone:
            self._broker.hold(spec.instance_id)
        else:
            self._broker.held.release(spec.instance_id)
        return self._broker.traffic.set_spec(spec, self._broker.now_ms())

    def _hold(self, instance_id: str) -> None:
        """The feed tells of it no more: its data and its limits stay as they are."""
        broker, spec = self._broker, self.feed.absent[instance_id].spec
        if spec.cluster_id == broker.config.cluster_id:
            broker.hold(instance_id)
            broker.traffic.hold(instance_id, spec, broker.now_ms())

    def _purge(self, order: InstanceSpec) -> None:
        broker = self._broker
        _log.warning("an instance is purged", instance=order.instance_id, deletion=str(order.deletion))
        broker.held.release(order.instance_id)
        broker.traffic.set_spec(order, broker.now_ms())
        broker.maintenance.purge_instance(order.instance_id)

    def _before_report(self) -> None:
        self._broker.leaders.measure_all()
        self._broker.server.bill()

    async def aclose(self) -> None:
        """Keep the leases and close the connections."""
        await self._reports.aclose()
        await self._client.aclose()
