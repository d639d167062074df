"""The broker's side of the control plane: follow the feed, report traffic, apply leases, keep both on disk.

A thin shell: `TrafficPoint` decides. Without a control plane none of it runs and nothing is limited.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.log.files import write_atomically
from broker.strays import Holdings
from contracts.quota import ReportAnswer
from contracts.specs import BrokerAddress, ConsumerKind, InstanceSpec
from runtime.feed import FeedFollower
from runtime.holdings import HoldingsTeller
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger
from runtime.master_address import MasterAddress
from runtime.spec_book import Changed
from runtime.tasks import Supervised

if TYPE_CHECKING:
    from broker.app import Broker

_log = get_logger(__name__)
_TIMEOUT_S: Final = 4.0
_SAVE_EVERY_MS: Final = 1_000


class Reporting:
    """One broker's conversation with the control plane."""

    def __init__(self, broker: "Broker", control_url: str, secret: str) -> None:
        self._broker = broker
        config = broker.config
        node_id, host, port = broker.node
        self._client = InternalClient(control_url, secret)
        self._address = MasterAddress(broker.member.tree, control_url)
        self._to_master = InternalClient(lambda: self._address.url, secret)
        self._leases: Path = config.data_dir / "leases.json"
        self._is_heard = True
        self.feed = FeedFollower(
            self._client,
            f"broker-{node_id}",
            ConsumerKind.BROKER,
            config.data_dir / "specs.json",
            broker=BrokerAddress(node_id=node_id, host=host, port=port),
            cluster_id=config.cluster_id,
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
        self._restore()
        self.feed.load_cache()
        tasks.spawn("feed", self.feed.run)
        tasks.spawn("master's address", self._address.run)
        tasks.spawn("reports", self._report)
        tasks.spawn("holdings", self._holdings.run)

    def _restore(self) -> None:
        broker = self._broker
        try:
            broker.traffic.restore_leases(self._leases.read_bytes(), broker.now_ms(), broker.epoch_ms())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            _log.warning(
                "the kept leases cannot be read; shares apply until the master answers", error=str(error)
            )

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
            self._broker.held.hold(spec.instance_id)
        else:
            self._broker.held.release(spec.instance_id)
        return self._broker.traffic.set_spec(spec, self._broker.now_ms())

    def _hold(self, instance_id: str) -> None:
        """The feed tells of it no more: its data and its limits stay as they are."""
        broker, spec = self._broker, self.feed.absent[instance_id].spec
        if spec.cluster_id == broker.config.cluster_id:
            broker.held.hold(instance_id)
            broker.traffic.hold(instance_id, spec, broker.now_ms())

    def _purge(self, order: InstanceSpec) -> None:
        broker = self._broker
        _log.warning("an instance is purged", instance=order.instance_id, deletion=str(order.deletion))
        broker.held.release(order.instance_id)
        broker.traffic.set_spec(order, broker.now_ms())
        broker.maintenance.purge_instance(order.instance_id)

    async def _report(self) -> None:
        saved_ms = 0
        while True:
            await asyncio.sleep(self._broker.traffic.period_ms / 1000)
            await self._report_once()
            now_ms = self._broker.now_ms()
            if now_ms - saved_ms >= _SAVE_EVERY_MS:
                saved_ms = now_ms
                await self._broker.flusher.run(self._saver())

    async def _report_once(self) -> None:
        broker = self._broker
        broker.leaders.measure_all()
        report = broker.traffic.report(broker.now_ms(), broker.epoch_ms())
        try:
            answer = await self._to_master.post(
                "/internal/v1/reports", report, ReportAnswer, timeout_s=_TIMEOUT_S
            )
        except InternalError as error:
            if self._is_heard:
                _log.warning("the quota master does not answer; leases, then shares apply", error=str(error))
            self._is_heard = False
            return
        if not self._is_heard:
            _log.info("the quota master answers again")
        self._is_heard = True
        if broker.traffic.apply(answer, broker.now_ms()):
            broker.server.check_mutes()

    def _saver(self) -> "_Save":
        broker = self._broker
        return _Save(self._leases, broker.traffic.save_leases(broker.now_ms(), broker.epoch_ms()))

    async def aclose(self) -> None:
        """Keep the leases and close the connections."""
        with contextlib.suppress(OSError):
            self._saver()()
        await self._client.aclose()
        await self._to_master.aclose()


class _Save:
    """Write the leases, on a thread. A full disk costs memory of leases, nothing else."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content

    def __call__(self) -> None:
        try:
            write_atomically(self._path, self._content)
        except OSError as error:
            _log.warning("the leases cannot be kept on disk", error=str(error))
