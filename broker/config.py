"""Settings of one broker process."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Everything a broker is started with; none of it changes without a restart.

    What an acknowledgement survives:

    * acks=0: nothing is acknowledged. A batch that is refused closes the connection.
    * acks=1: the batch is in the page cache of the leader. It survives the death of the process (kill -9),
      not the election of a follower that had not fetched it. A power cut of the leader's machine loses at
      most what was written since the last flush: `flush_interval_ms`.
    * acks=all with several replicas: the batch is in the page caches of all replicas in sync, at least
      `min.insync.replicas` of them. It survives the loss of all but one of these, page cache included: a
      broker whose machine restarted uncleanly is taken out of the ISR before anyone is elected.
    * acks=all with one replica: as acks=1.
    * acks=1 and acks=all to a topic with `flush.messages=1` (operators only): the batch is also on the
      leader's disk (`fdatasync`) before the reply leaves. It survives a power cut.

    Producer ids are handed out only after their block is on the disk; a consumer's committed offsets are
    written like acks=all.
    """

    node_id: int
    """>= 0, unique in the cluster."""
    cluster_id: str
    """Non-empty; what Metadata and DescribeCluster answer."""
    data_dir: Path
    """Holds everything this broker keeps but the logs in `log_dirs`. One process per directory (locked)."""
    log_dirs: tuple[Path, ...] = ()
    """Where logs are kept, Kafka's log.dirs; empty: `data_dir`/logs. One that fails takes only its own
    partitions offline."""
    zookeeper: str | None = None
    """HOST:PORT[,HOST:PORT...][/chroot] of the cluster's metadata; needs `secret`. None: this broker is the
    cluster and keeps the same tree in a file of its own."""
    session_timeout_ms: int = 6_000
    """ZooKeeper's: a broker that is silent for so long is dead to the others. Kafka's is 18 s."""
    rack: str | None = None
    """Replicas of a partition are spread over racks."""
    listen_host: str = "127.0.0.1"
    """Address to bind. Anything but loopback needs `secret`."""
    listen_port: int = 9092
    """0 takes a free port, which the run file names."""
    advertised_host: str | None = None
    """What Metadata answers; None: the bound address."""
    advertised_port: int | None = None
    """What Metadata answers; None: the bound port."""
    control_url: str | None = None
    """The control plane's internal HTTP; None: a Kafka of its own, without feed and quota."""
    secret: str | None = field(default=None, repr=False)
    """The deployment's secret: password of SASL PLAIN and bearer token. None: no authentication."""

    request_bytes_max: int = 100 * MIB
    """Kafka's socket.request.max.bytes; a larger frame closes its connection."""
    request_bytes_max_before_auth: int = 512 * 1024
    """Kafka's sasl.server.max.receive.size."""
    request_memory_bytes: int = 256 * MIB
    """Buffers of all frames being received together; beyond it sockets stay unread.
    At least `request_bytes_max`."""
    instance_memory_bytes: int = 100 * MIB
    """Of these, what the frames of one instance may hold. At least `request_bytes_max`, and less than half
    of `request_memory_bytes` if one instance is not to be noticed by the others."""
    receive_buffer_bytes: int = MIB
    """The one buffer small frames are received into."""
    connections_max: int = 20_000
    """More are closed at accept."""
    connections_max_idle_ms: int = 600_000
    """Kafka's connections.max.idle.ms: closed after so long without a request."""
    auth_timeout_ms: int = 30_000
    """A connection that has not authenticated by then is closed (only with `secret`)."""
    frame_progress_timeout_ms: int = 30_000
    """A frame that gains no byte for so long, while we read, closes its connection."""
    frame_rate_min_bytes_per_s: int = 32 * 1024
    """A frame may take `frame_progress_timeout_ms` plus its size at this rate."""
    frame_time_max_ms: int = 60_000
    """Large frames have to be faster: their whole size within so long, beside `frame_progress_timeout_ms`."""

    fetch_sessions_max: int = 1_000
    """Kafka's max.incremental.fetch.session.cache.slots."""
    fetch_bytes_max: int = 55 * MIB
    """Kafka's fetch.max.bytes: bounds the max_bytes of a Fetch."""
    sendfile_bytes_min: int = 64 * 1024
    """Record slices of at least this size leave by sendfile, smaller ones by pread and sendmsg."""

    flush_interval_ms: int = 1_000
    """How often dirty segments are fdatasynced, off the reply path."""
    retention_check_interval_ms: int = 30_000
    """Kafka's log.retention.check.interval.ms, shorter because capacity is sold."""
    checkpoint_interval_ms: int = 5_000
    """How often recovery points and log starts are written: a killed broker reads again at most what was
    written since then. Kafka's 60 s would be gigabytes."""
    report_period_ms: int = 1_000
    """How often traffic is reported to the quota master (1-10 s)."""
    default_partitions: int = 1
    """num.partitions for CreateTopics with -1."""
    partitions_max: int = 20_000
    """Replicas on one broker; more are refused with POLICY_VIOLATION. Each costs file descriptors."""

    producers_per_instance_max: int = 20_000
    """Idempotent and transactional producers of one instance that this broker remembers, each once per
    partition that it writes to (about a kilobyte). Beyond it those idle for longest are forgotten early."""

    default_replication_factor: int | None = None
    """For CreateTopics with -1; None: three, or as many as there are brokers if there are fewer."""
    min_insync_replicas: int | None = None
    """Kafka's min.insync.replicas of topics that have none; None: two where a partition has three replicas or
    more, else one."""
    replica_lag_time_max_ms: int = 10_000
    """Kafka's replica.lag.time.max.ms (30 s there): a follower that has not caught up for so long leaves the
    ISR. acks=all waits no longer than that for one that hangs."""
    unclean_leader_election_enable: bool = False
    """Whether a replica out of sync may lead when no other is left, in topics that do not say."""
    delete_topic_enable: bool = True
    """Without it topics marked for deletion stay, and DeleteTopics is refused."""
    auto_leader_rebalance_enable: bool = True
    """Kafka's: the controller gives leadership back to preferred replicas."""
    leader_imbalance_check_interval_seconds: int = 300
    """How often it looks."""
    leader_imbalance_per_broker_percentage: int = 10
    """From which share of partitions led elsewhere it acts."""
    controlled_shutdown_timeout_ms: int = 5_000
    """How long a broker that stops asks the controller to take its leaders."""

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """Where logs are kept."""
        return self.log_dirs or (self.data_dir / "logs",)

    @property
    def reports(self) -> bool:
        """Whether there is a control plane to report to."""
        return self.control_url is not None and self.secret is not None

    @property
    def internal_replication_factor(self) -> int:
        """Of __consumer_offsets and __transaction_state, which wait for as many brokers."""
        return 1 if self.zookeeper is None else self.default_replication_factor or 3

    @property
    def static_layer(self) -> dict[str, str]:
        """What was set of the configs that can also be set per topic or while the broker runs."""
        layer = {"log.flush.interval.ms": str(self.flush_interval_ms)}
        if self.min_insync_replicas is not None:
            layer["min.insync.replicas"] = str(self.min_insync_replicas)
        if self.unclean_leader_election_enable:
            layer["unclean.leader.election.enable"] = "true"
        return layer

    def faults(self) -> list[str]:
        """Every rule the settings break, one sentence each."""
        loopback = self.listen_host in ("localhost", "::1") or self.listen_host.startswith("127.")
        rules = [
            (self.node_id >= 0, f"node id {self.node_id} is negative"),
            (self.cluster_id != "", "the cluster id is empty"),
            (0 <= self.listen_port <= 65535, f"port {self.listen_port} is not a port"),
            (
                loopback or self.secret is not None,
                f"{self.listen_host} is not loopback: a broker without a secret serves this machine only",
            ),
            (
                self.control_url is None or self.secret is not None,
                "the control plane's address is given, but no secret to talk to it",
            ),
            (
                self.request_memory_bytes >= self.request_bytes_max,
                "request_memory_bytes is smaller than one request of request_bytes_max",
            ),
            (
                self.instance_memory_bytes >= self.request_bytes_max,
                "instance_memory_bytes is smaller than one request of request_bytes_max",
            ),
            (self.receive_buffer_bytes >= 4096, "receive_buffer_bytes is below 4096"),
            (self.flush_interval_ms >= 10, "flush_interval_ms is below 10"),
            (1_000 <= self.report_period_ms <= 10_000, "report_period_ms is not between 1 s and 10 s"),
            (self.producers_per_instance_max >= 16, "producers_per_instance_max is below 16"),
            (self.default_partitions >= 1, "default_partitions is below 1"),
            *self._cluster_rules(),
        ]
        return [text for holds, text in rules if not holds]

    def _cluster_rules(self) -> list[tuple[bool, str]]:
        factor, insync = self.default_replication_factor, self.min_insync_replicas
        return [
            (
                self.zookeeper is None or self.secret is not None,
                "brokers of a cluster prove to each other that they know the secret: give a secret file",
            ),
            (len(set(self.log_directories)) == len(self.log_directories), "a log directory is named twice"),
            (
                1_000 <= self.session_timeout_ms <= 120_000,
                "session_timeout_ms is not between 1 s and 120 s",
            ),
            (factor is None or factor >= 1, "default_replication_factor is below 1"),
            (insync is None or insync >= 1, "min_insync_replicas is below 1"),
            (
                factor is None or insync is None or insync <= factor,
                f"min_insync_replicas {insync} is more than the replication factor {factor}",
            ),
            (self.replica_lag_time_max_ms >= 500, "replica_lag_time_max_ms is below 500"),
            (
                self.leader_imbalance_check_interval_seconds >= 1,
                "leader_imbalance_check_interval_seconds is below 1",
            ),
            (
                0 <= self.leader_imbalance_per_broker_percentage <= 100,
                "leader_imbalance_per_broker_percentage is not a percentage",
            ),
        ]
