"""This broker in its cluster: the metadata tree, its registration, its controller; joining and leaving."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.cluster import peer
from broker.cluster.commands import CommandReceiver
from broker.cluster.controller import Controller
from broker.cluster.earlier_session import EarlierSession
from broker.cluster.membership import Membership
from broker.cluster.state_change_log import StateChangeLog
from broker.config import BrokerConfig
from broker.controller.context import LimitsOf
from broker.controller.controller_config import ControllerConfig, InternalTopic
from broker.metadata import znode_paths
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.topic_names import INTERNAL_CONFIGS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.metadata.znodes import Registration, decode_config, decode_kept_until, encode_log_dir_event
from broker.replicator.manager import ReplicaManager
from broker.requests.login import PeerBroker
from contracts.cluster import ControlledShutdownRequest, ControlledShutdownResponse
from contracts.tree import Create, Tree, TreeUnavailable
from runtime.kafka_client import KafkaUnavailable
from runtime.logs import get_logger
from runtime.machine import Machine

_log = get_logger(__name__)
_INTERNAL_PARTITIONS: Final = 12
_KNOWN_TIMEOUT_S: Final = 60.0
_ASK_AGAIN_S: Final = 0.05
_ASK_TIMEOUT_S: Final = 2.0


def open_tree(config: BrokerConfig) -> Tree:
    """ZooKeeper, or a file of this broker. Each is imported only where it is used."""
    if config.zookeeper is None:
        from runtime.tree.local import LocalTree

        return LocalTree(config.data_dir / "metadata.sqlite")
    from runtime.tree.zookeeper import ZooKeeperTree

    return ZooKeeperTree(config.zookeeper, config.session_timeout_ms, config.secret)


def controller_config(config: BrokerConfig) -> ControllerConfig:
    """What a controller on this broker decides by."""
    return ControllerConfig(
        default_partitions=config.default_partitions,
        default_replication_factor=config.default_replication_factor,
        partitions_per_broker_max=config.partitions_max,
        internal_topics=tuple(
            InternalTopic(name, _INTERNAL_PARTITIONS, INTERNAL_CONFIGS)
            for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        ),
        internal_replication_factor=config.internal_replication_factor,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        delete_topic_enable=config.delete_topic_enable,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
        leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
    )


class ClusterMember:
    """Joins at start, leaves at the end; in between the tree and the controller do the work."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        replica_manager: ReplicaManager,
        tree: Tree,
        machine: Machine,
        *,
        limits_of: LimitsOf,
        storage_failed: Callable[[str, OSError], None],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self.tree = tree
        self._clock = machine.clock
        self._network = machine.network
        self.membership = Membership(
            self.tree,
            config.node_id,
            config.cluster_id,
            config.session_timeout_ms,
            EarlierSession(config.data_dir),
        )
        log_failed = partial(storage_failed, "the state-change log cannot be written")
        state_changes = StateChangeLog(config.data_dir, config.node_id, self._clock.epoch_ms, log_failed)
        self.commands = CommandReceiver(
            asyncio.get_running_loop(), self.membership, metadata, replica_manager, state_changes
        )
        self.controller = Controller(
            config.node_id,
            controller_config(config),
            self.tree,
            secret=config.secret,
            deliver=self.commands.deliver,
            state_changes=state_changes,
            limits_of=limits_of,
            machine=machine,
        )
        self._address: tuple[str, int]
        """As others reach us; known when we join."""
        self._is_unclean = False
        self._known = asyncio.Event()
        metadata.on_change(lambda _: self._known.set())

    def who(self) -> PeerBroker:
        """This broker in its present life."""
        return PeerBroker(self._config.node_id, max(self.broker_epoch, 0))

    # -- joining -----------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Reach the tree and see that it is our cluster's.

        Raises: TreeUnavailable, ForeignCluster, ZnodeDamaged.
        """
        await self.tree.start()
        await self.membership.prepare()
        await self.tree.close_to_others()

    async def read_topics(self) -> list[str]:
        """The names of all topics. Raises: as `connect`."""
        return await self.tree.children(znode_paths.TOPICS) or []

    async def read_topic_configs(self) -> dict[str, dict[str, str]]:
        """Every topic's own layer: logs need them before a controller tells. Raises: as `connect`."""
        names = await self.tree.children(znode_paths.TOPIC_CONFIGS) or []
        nodes = await self.tree.get_many([znode_paths.topic_config_path(name) for name in names])
        return {
            name: decode_config(node.data)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    async def read_kept_until_ms(self) -> int:
        """Until when time alone removes nothing; 0: it may. Raises: as `connect`."""
        node = await self.tree.get(znode_paths.KEPT_UNTIL)
        return 0 if node is None else decode_kept_until(node.data)

    async def read_broker_configs(self) -> dict[str, dict[str, str]]:
        """Dynamic configs by broker id. Raises: as `connect`."""
        children = await self.tree.children(znode_paths.BROKER_CONFIGS) or []
        names = [znode_paths.broker_config_name(child) for child in children]
        nodes = await self.tree.get_many([znode_paths.broker_config_path(name) for name in names])
        return {
            name: decode_config(node.data)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    async def join(self, host: str, port: int, *, is_unclean: bool) -> None:
        """Register under this address, and wait until a controller has described the cluster.

        Raises: BrokerIdTaken, TreeUnavailable.
        """
        self._address = host, port
        self._is_unclean = is_unclean
        await self.membership.register(self.registration())
        self.controller.start()
        try:
            async with asyncio.timeout(_KNOWN_TIMEOUT_S):
                await self._known.wait()
        except TimeoutError as error:
            raise TreeUnavailable(f"no controller has spoken within {_KNOWN_TIMEOUT_S:.0f} s") from error
        self._is_unclean = False

    def registration(self) -> Registration:
        """What we say of ourselves."""
        host, port = self._address
        config = self._config
        return Registration(
            host=host,
            port=port,
            rack=config.rack,
            listener="PLAINTEXT" if config.secret is None else "SASL_PLAINTEXT",
            is_unclean=self._is_unclean,
            timestamp_ms=self._clock.epoch_ms(),
        )

    async def keep_registered(self) -> None:
        """Register again whenever the session has expired, for ever."""
        await self.membership.keep(self.registration)

    async def tell_of_failed_directory(self) -> None:
        """The controller then asks which of our replicas are lost. Raises: TreeUnavailable."""
        event = encode_log_dir_event(self._config.node_id)
        await self.tree.commit([Create(znode_paths.LOG_DIR_EVENT_PREFIX, event, sequential=True)])

    @property
    def broker_epoch(self) -> int:
        """Of this life; -1 while we are not registered."""
        return self.membership.broker_epoch

    @property
    def last_epoch(self) -> int:
        """Of this life, or while we are not registered of the one before."""
        return self.membership.last_epoch

    # -- leaving -----------------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Have the controller lead our partitions elsewhere, as long as there is an elsewhere."""
        deadline_ms = self._clock.monotonic_ms() + self._config.controlled_shutdown_timeout_ms
        has_told = False
        while self._has_others() and self._clock.monotonic_ms() < deadline_ms:
            try:
                async with asyncio.timeout(_ASK_TIMEOUT_S):
                    response = await self._ask_controller()
            except (KafkaUnavailable, TimeoutError) as error:
                if not has_told:  # the others may be stopping too
                    reason = str(error) or f"nothing came within {_ASK_TIMEOUT_S:g} s"
                    _log.warning("controlled shutdown: the controller gives no answer", reason=reason)
                has_told, response = True, None
            if response is not None and response.error_code == 0 and not response.remaining_partitions:
                return
            await asyncio.sleep(_ASK_AGAIN_S)

    def _has_others(self) -> bool:
        """Whether a broker is left that could lead: not when the whole cluster stops."""
        return self.membership.broker_epoch >= 0 and any(
            not each.in_controlled_shutdown
            for each in self._metadata.brokers.values()
            if each.broker_id != self._config.node_id
        )

    async def stop_controlling(self) -> None:
        """Another broker may take over."""
        await self.controller.aclose()

    async def leave(self) -> None:
        """End the session: our registration goes at once."""
        await self.tree.aclose()

    async def _ask_controller(self) -> ControlledShutdownResponse:
        """Raises: KafkaUnavailable."""
        me = self.who()
        request = ControlledShutdownRequest(broker_id=me.broker_id, broker_epoch=me.broker_epoch)
        controller_id = self.controller.controller_id
        if controller_id == me.broker_id:
            return await self.controller.controlled_shutdown(request)
        address = self._metadata.brokers.get(controller_id)
        if address is None:
            raise KafkaUnavailable("there is no controller")
        assert self._config.secret is not None, "a cluster has a secret"
        connection = await peer.connect(address, self._config.secret, me, self._network)
        try:
            response = await peer.ask(connection, request)
        finally:
            connection.close()
        assert isinstance(response, ControlledShutdownResponse), "decoded as the answer to this request"
        return response
