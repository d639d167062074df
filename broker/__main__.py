"""`python -m broker`: one broker process."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.app import Broker
from broker.cluster.membership import BrokerIdTaken, ForeignCluster
from broker.config import PRODUCERS_PER_INSTANCE_MAX, BrokerConfig
from broker.log.errors import LogDirectoryUnusable, StorageFailed
from broker.metadata.znodes import ZnodeDamaged
from broker.monitoring.readiness import unready
from runtime import logs, process
from runtime.config import environment, parse_host_port
from runtime.life import LIFE
from runtime.trace_start import tracing_of
from runtime.tree import TreeUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.registry import Collector

_START_FAILURES: Final = (
    OSError,
    LogDirectoryUnusable,
    StorageFailed,
    BrokerIdTaken,
    ForeignCluster,
    TreeUnavailable,
    ZnodeDamaged,
)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m broker", description="Portico's built-in Kafka broker")
    parser.add_argument("--node-id", type=int, default=1)
    parser.add_argument("--cluster-id", default="portico")
    parser.add_argument("--data-dir", type=Path, required=True, help="everything the broker keeps")
    parser.add_argument("--listen", default="127.0.0.1:9092", metavar="HOST:PORT", help="port 0 takes any")
    parser.add_argument("--advertised", metavar="HOST:PORT", help="what clients are told; default: --listen")
    parser.add_argument("--control", metavar="URL", help="the control plane; without it a Kafka of its own")
    parser.add_argument("--secret-file", type=Path, help="the deployment's secret")
    parser.add_argument("--run-file", type=Path, help="written when the broker serves")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics")
    parser.add_argument("--flush-interval-ms", type=int, default=1_000)
    parser.add_argument("--retention-check-interval-ms", type=int, default=30_000)
    parser.add_argument("--checkpoint-interval-ms", type=int, default=5_000)
    parser.add_argument("--report-period-ms", type=int, default=1_000)
    parser.add_argument("--request-memory-bytes", type=int, default=256 * 1024 * 1024)
    parser.add_argument("--frame-progress-timeout-ms", type=int, default=30_000)
    parser.add_argument("--connections-max-idle-ms", type=int, default=600_000)
    parser.add_argument(
        "--producers-per-instance-max", type=int, default=PRODUCERS_PER_INSTANCE_MAX, metavar="N",
        help="producers of one instance that are remembered, once per partition",
    )  # fmt: skip
    parser.add_argument("--default-partitions", type=int, default=1)
    parser.add_argument("--log-json", action="store_true", default=None)
    _add_cluster_arguments(parser)
    return parser.parse_args(arguments)


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Kafka's names."""
    parser.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="without it: a cluster of one")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    parser.add_argument("--rack")
    parser.add_argument("--log-dirs", type=Path, nargs="+", default=[], help="default: DATA_DIR/logs")
    parser.add_argument("--default-replication-factor", type=int)
    parser.add_argument("--min-insync-replicas", type=int)
    parser.add_argument("--replica-lag-time-max-ms", type=int, default=10_000)
    parser.add_argument("--unclean-leader-election-enable", action="store_true")
    parser.add_argument("--delete-topic-enable", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--auto-leader-rebalance-enable", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--leader-imbalance-check-interval-seconds", type=int, default=300)
    parser.add_argument("--leader-imbalance-per-broker-percentage", type=int, default=10)


def _config(options: argparse.Namespace) -> BrokerConfig:
    """The settings. Raises: SystemExit with one sentence per fault."""
    try:
        host, port = parse_host_port(options.listen)
        advertised = (None, None) if options.advertised is None else parse_host_port(options.advertised)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    config = BrokerConfig(
        node_id=options.node_id,
        cluster_id=options.cluster_id,
        data_dir=options.data_dir,
        listen_host=host,
        listen_port=port,
        advertised_host=advertised[0],
        advertised_port=advertised[1],
        control_url=options.control,
        secret=process.read_secret(options.secret_file),
        request_memory_bytes=options.request_memory_bytes,
        flush_interval_ms=options.flush_interval_ms,
        retention_check_interval_ms=options.retention_check_interval_ms,
        checkpoint_interval_ms=options.checkpoint_interval_ms,
        report_period_ms=options.report_period_ms,
        frame_progress_timeout_ms=options.frame_progress_timeout_ms,
        connections_max_idle_ms=options.connections_max_idle_ms,
        default_partitions=options.default_partitions,
        producers_per_instance_max=options.producers_per_instance_max,
        zookeeper=options.zookeeper,
        session_timeout_ms=options.session_timeout_ms,
        rack=options.rack,
        log_dirs=tuple(options.log_dirs),
        default_replication_factor=options.default_replication_factor,
        min_insync_replicas=options.min_insync_replicas,
        replica_lag_time_max_ms=options.replica_lag_time_max_ms,
        unclean_leader_election_enable=options.unclean_leader_election_enable,
        delete_topic_enable=options.delete_topic_enable,
        auto_leader_rebalance_enable=options.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=options.leader_imbalance_check_interval_seconds,
        leader_imbalance_per_broker_percentage=options.leader_imbalance_per_broker_percentage,
    )
    faults = config.faults()
    if faults:
        raise SystemExit("; ".join(faults))
    return config


async def _serve(config: BrokerConfig, options: argparse.Namespace) -> None:
    serves = asyncio.Event()
    tracing = tracing_of(environment(), "broker", f"broker-{config.node_id}")
    try:
        broker = Broker(config)
        if tracing is not None:
            from broker.requests.tracing import BrokerTraces  # imports OpenTelemetry

            broker.server.traces = BrokerTraces(tracing, config.node_id)
        spans = () if tracing is None else (tracing.collector,)
        metrics = _serve_metrics(broker, options.metrics, config.secret, serves, spans)
        port = await broker.start()
    except _START_FAILURES as error:
        raise SystemExit(f"the broker cannot start: {error}") from error
    try:
        if options.run_file is not None:
            process.write_run_file(options.run_file, {"node_id": config.node_id, "port": port, **metrics})
        serves.set()
        LIFE.serving()
        await asyncio.Event().wait()
    finally:
        await broker.stop()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)


def _serve_metrics(
    broker: Broker,
    address: str | None,
    secret: str | None,
    serves: asyncio.Event,
    spans: "Iterable[Collector]",
) -> dict[str, Any]:
    """What the run file says of them."""
    from runtime import metrics

    if address is None:
        return metrics.facts(None)
    host, port = parse_host_port(address)
    endpoint = metrics.serve(
        host,
        port,
        secret,
        lambda: unready(broker, serves=serves.is_set()),
        collectors=[broker.metrics, broker.group_lag, *spans],
    )
    return metrics.facts(endpoint)


def main(arguments: list[str] | None = None) -> None:
    """Run until a signal comes."""
    options = _arguments(arguments)
    logs.configure(f"broker-{options.node_id}", json=options.log_json)
    config = _config(options)
    process.run(lambda: _serve(config, options))


if __name__ == "__main__":
    main(sys.argv[1:])
