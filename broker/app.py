"""One broker from top to bottom: what it holds, how it starts, what runs in the background, how it stops."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from broker.call import Call
from broker.config import BrokerConfig
from broker.coordination import GroupCoordination
from broker.fetch_sessions import FetchSessionCache
from broker.fetching import Fetches
from broker.flusher import Flusher
from broker.groups.config import GroupConfig
from broker.log.manager import LoadReport, LogManager
from broker.maintenance import Maintenance
from broker.metadata_cache import MetadataCache
from broker.metrics import BrokerMetrics
from broker.producer_ids import ProducerIds
from broker.rate_limited import RateLimitedLog
from broker.replication.manager import ReplicaManager
from broker.replication.service import Replication
from broker.sasl import PeerBroker
from broker.server import Server
from broker.topic_configs import log_config
from broker.topic_store import StoredTopic, TopicStore
from broker.topics import Steps, Topic, Topics
from contracts.cluster import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from runtime.clock import epoch_ms, monotonic_ms
from runtime.config import format_host_port
from runtime.logs import get_logger
from runtime.tasks import Supervised
from traffic.point import TrafficPoint

if TYPE_CHECKING:
    from broker.reporting import Reporting

_log = get_logger(__name__)
OFFSETS_TOPIC: Final = "__consumer_offsets"
_STOP_GRACE_S: Final = 1.0
_SESSION_ID_MAX: Final = 2**31 - 1


class Broker:
    """The process. Handlers reach everything through it; all of it lives on one event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.metrics = BrokerMetrics()
        self.boot_id = uuid4().hex
        self.now_ms = monotonic_ms
        self.epoch_ms = epoch_ms
        self._warnings = RateLimitedLog(_log)
        self.traffic = TrafficPoint(
            point=f"broker-{config.node_id}",
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            boot_id=self.boot_id,
            now_ms=monotonic_ms(),
        )
        self.traffic.period_ms = config.report_period_ms
        self.logs = LogManager(
            [config.data_dir / "logs"], cluster_id=config.cluster_id, node_id=config.node_id
        )
        self.metadata = MetadataCache()
        self.replicas = ReplicaManager(
            config.node_id,
            self.logs,
            self.metadata,
            log_config=log_config,
            replica_lag_max_ms=config.replica_lag_time_max_ms,
            now_ms=monotonic_ms,
            epoch_ms=epoch_ms,
        )
        self.topics = Topics(TopicStore(config.data_dir / "topics"), self.logs, self._lead)
        self.producer_ids = ProducerIds(config.data_dir / "producer-ids.json", config.node_id)
        self.fetch_sessions = FetchSessionCache(
            config.fetch_sessions_max, lambda: secrets.randbelow(_SESSION_ID_MAX) + 1
        )
        self.fetches = Fetches(self.loop.call_soon)
        self.flusher = Flusher(self.logs, self.loop, epoch_ms, self.storage_failed)
        self.replication = Replication(self, lambda: PeerBroker(config.node_id, 0))
        self.server = Server(self)
        self.maintenance = Maintenance(self)
        self.coordination: GroupCoordination
        """The group coordinator; there when `start` has returned."""
        self.loaded: LoadReport
        """What starting found on the disk."""
        self.node: tuple[int, str, int]
        """Node id, advertised host and port; known when the listener is bound."""
        self.reporting: Reporting | None = None
        self._tasks = Supervised()

    def start(self) -> int:
        """Load, listen, and start the background tasks; the bound port. Raises: OSError, StorageFailed."""
        self.loaded = self.topics.load(epoch_ms())
        self.metrics.recovered_bytes = self.loaded.recovered_bytes
        self.groups = self.coordination = self._group_coordination()
        self.topics.on_deleted(self._topic_deleted)
        self.measure_all()
        port = self.server.listen()
        self.node = (
            self.config.node_id,
            self.config.advertised_host or self.config.listen_host,
            self.config.advertised_port or port,
        )
        self._register_gauges()
        self._tasks.spawn("groups", self.coordination.run)
        self._tasks.spawn("sweep connections", self.server.sweep)
        for name, work in self.maintenance.tasks():
            self._tasks.spawn(name, work)
        if self.config.control_url is not None and self.config.secret is not None:
            self._start_reporting(self.config.control_url, self.config.secret)
        _log.info(
            "broker serves",
            address=format_host_port(self.config.listen_host, port),
            topics=len(self.topics),
            partitions=self.topics.partition_count,
            recovered_bytes=self.loaded.recovered_bytes,
            truncated_bytes=self.loaded.truncated_bytes,
        )
        return port

    def _group_coordination(self) -> GroupCoordination:
        config = GroupConfig()
        topic = self.topics.get(OFFSETS_TOPIC)
        if topic is None:
            configs = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
            stored = StoredTopic(
                name=OFFSETS_TOPIC, topic_id=uuid4(), partitions=config.offsets_partitions, configs=configs
            )
            deque(self.topics.create(stored, epoch_ms()), maxlen=0)
            topic = self.topics.get(OFFSETS_TOPIC)
            assert topic is not None
        return GroupCoordination(topic.partitions, config)

    def _start_reporting(self, control_url: str, secret: str) -> None:
        from broker.reporting import Reporting  # its HTTP client costs as much start-up time as all the rest

        self.reporting = Reporting(self, control_url, secret)
        self.reporting.start(self._tasks)

    def _register_gauges(self) -> None:
        gauges = self.metrics.gauges
        gauges["connections"] = ("Open connections.", lambda: len(self.server.connections))
        gauges["connections_muted"] = ("Muted for quota.", lambda: len(self.server.muted))
        gauges["topics"] = ("Topics.", lambda: len(self.topics))
        gauges["partitions"] = ("Partitions led.", lambda: self.topics.partition_count)
        gauges["log_bytes"] = (
            "Bytes of all logs.",
            lambda: sum(each.size_bytes for each in list(self.topics)),
        )
        gauges["fetches_delayed"] = ("Fetches that wait for data.", lambda: len(self.fetches))
        gauges["fetch_sessions"] = ("Incremental fetch sessions.", lambda: len(self.fetch_sessions))
        gauges["receive_memory_bytes"] = ("Receive buffers in use.", lambda: self.server.memory.used_bytes)

    # -- what handlers use -------------------------------------------------------------------------------

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """A timer in milliseconds."""
        return self.loop.call_later(delay_ms / 1000, callback)

    def connection_closed(self, connection_id: int) -> None:
        """Forget what waits for a connection."""
        self.fetches.connection_closed(connection_id)
        self.replication.connection_closed(connection_id)

    def _lead(self, topic: Topic, index: int) -> None:
        """One broker leads what there is."""
        alone = (self.config.node_id,)
        state = LeaderAndIsrPartitionState(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=index,
            controller_epoch=0,
            leader=self.config.node_id,
            leader_epoch=0,
            isr=alone,
            partition_epoch=0,
            replicas=alone,
        )
        self.replicas.become_leader_or_follower(
            LeaderAndIsrRequest(
                controller_id=self.config.node_id,
                controller_epoch=0,
                broker_epoch=0,
                partition_states=(state,),
                topic_configs={topic.name: dict(topic.configs)},
            )
        )

    def in_turns(self, call: Call, steps: Steps) -> None:
        """Drive the steps of a call to their end, one per turn of the loop, also when the client is gone."""
        try:
            next(steps)
        except StopIteration:
            return
        except Exception:  # noqa: BLE001 - as in dispatch: a bug costs one connection
            self.server.handler_failed(call.channel, call.header.api_key)
            return
        self.loop.call_soon(self.in_turns, call, steps)

    def measure(self, topics: Iterable[Topic]) -> None:
        """Tell the traffic point what is led and stored: deletion lifts a block without waiting a second."""
        for instance_id in {topic.instance_id for topic in topics}:
            if instance_id is not None:
                self.traffic.set_led(instance_id, *self.topics.led_by(instance_id))

    def measure_all(self) -> None:
        """The same for every instance."""
        self.traffic.set_all_led(self.topics.led_by_instance())

    def storage_failed(self, what: str, error: Exception) -> None:
        """The disk refused something; clients hear it as KAFKA_STORAGE_ERROR."""
        self.metrics.storage_errors += 1
        self._warnings.warning(f"storage: {what}", self.now_ms(), error=str(error))

    def _topic_deleted(self, topic: Topic) -> None:
        self.measure([topic])
        for index in range(len(topic.partitions)):
            self.replicas.forget(topic.name, index)
        self.coordination.on_topics_deleted([topic.name])

    # -- the end -------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop accepting, finish what is in flight, flush, leave the clean-shutdown marker."""
        self.fetches.end_all()
        await self.server.stop(_STOP_GRACE_S)
        await self._tasks.aclose()
        if self.reporting is not None:
            await self.reporting.aclose()
        self.coordination.close()
        await self.flusher.aclose()
        for failure in self.logs.close():
            _log.error("a log could not be closed cleanly", error=str(failure))
        _log.info("broker stopped")
