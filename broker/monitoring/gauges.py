"""What a broker measures of itself when it is asked: names and meanings of its gauges."""

from typing import Protocol

from broker.controller.api import ControllerApi
from broker.coordinators.producer_ids import ProducerIds
from broker.fetches.fetch_sessions import FetchSessionCache
from broker.metadata.metadata_cache import MetadataCache
from broker.net.server import Server
from broker.records.fetching import Fetches
from broker.replication.replicas import Replicas
from broker.requests.metrics import BrokerMetrics
from broker.scanning.scanner import Scanner
from broker.storage.manager import LogManager


class Measured(Protocol):
    """What is looked at when gauges are asked for."""

    controller: ControllerApi
    fetch_sessions: FetchSessionCache
    fetches: Fetches
    logs: LogManager
    metadata: MetadataCache
    producer_ids: ProducerIds
    replicas: Replicas
    scanner: Scanner
    server: Server


def register_gauges(metrics: BrokerMetrics, of: Measured) -> None:
    """Fill `metrics` with them."""
    gauges = metrics.gauges
    server, replicas, metadata, logs = of.server, of.replicas, of.metadata, of.logs
    gauges["connections"] = ("Open connections.", lambda: len(server.connections))
    gauges["connections_muted"] = ("Muted for quota.", lambda: len(server.muted))
    gauges["receive_memory_bytes"] = ("Receive buffers in use.", lambda: server.memory.used_bytes)
    gauges["topics"] = ("Topics of the cluster.", lambda: len(metadata))
    gauges["replicas"] = ("Replicas hosted.", lambda: len(replicas))
    gauges["partitions"] = ("Partitions led.", lambda: sum(each.is_leader for each in replicas))
    gauges["log_bytes"] = ("Bytes of all logs.", lambda: logs.size_bytes)
    gauges["log_segments"] = (
        "Segments of all logs; each has three files and more.",
        lambda: logs.segment_count,
    )
    gauges["damaged_logs"] = (
        "Logs of which records are known to be lost or damaged.",
        lambda: len(logs.damaged()),
    )
    gauges["damaged_offsets"] = (
        "Offsets in the ranges that are lost or damaged.",
        lambda: sum(each.next_offset - each.first_offset for log in logs.damaged() for each in log.damage),
    )
    gauges["producers"] = (
        "Idempotent and transactional producers remembered, once per partition.",
        lambda: logs.shares.producers,
    )
    evicted = logs.shares.evicted
    metrics.totals = lambda: (
        (
            "producers_forgotten",
            evicted.forgotten,
            "Idle producers forgotten before they expired: their instance had too many.",
        ),
        (
            "producer_ids_refused",
            of.producer_ids.rates.refused,
            "Draws of a producer id that were put off: their instance draws too fast.",
        ),
        (
            "producers_refused",
            evicted.refused,
            "New producers refused: too many of their instance have a transaction open.",
        ),
    )
    gauges["fetches_delayed"] = ("Fetches that wait for data.", lambda: len(of.fetches))
    gauges["fetch_sessions"] = ("Incremental fetch sessions.", lambda: len(of.fetch_sessions))
    gauges["under_replicated_partitions"] = (
        "Partitions led with replicas out of the ISR.",
        lambda: sum(each.is_leader and len(each.isr) < len(each.replicas) for each in replicas),
    )
    gauges["under_min_isr_partitions"] = (
        "Partitions led with an ISR below min.insync.replicas.",
        lambda: sum(each.is_leader and len(each.isr) < each.min_isr for each in replicas),
    )
    gauges["offline_partitions"] = (
        "Partitions of the cluster without a live leader, on the controller.",
        lambda: _offline_partitions(metadata) if of.controller.is_active else 0,
    )
    gauges["active_controller"] = ("1 on the controller.", lambda: int(of.controller.is_active))
    gauges["live_brokers"] = ("Registered brokers.", lambda: len(metadata.brokers))
    scanner = of.scanner
    gauges["scans_waiting"] = ("Looks into records without a result.", lambda: scanner.waiting)
    metrics.labelled_gauges["follower_lag_records"] = (
        "Records the slowest partition of a follower lacks, by its broker.",
        "follower",
        lambda: _follower_lags(replicas),
    )


def _offline_partitions(metadata: MetadataCache) -> int:
    live = metadata.brokers
    return sum(
        state.leader not in live for topic in list(metadata) for state in list(topic.partitions.values())
    )


def _follower_lags(replicas: Replicas) -> list[tuple[str, float]]:
    lags: dict[int, int] = {}
    for partition in replicas:
        for replica_id in partition.replicas if partition.is_leader else ():
            remote = partition.remote(replica_id)
            if remote is not None:
                lag = partition.log.log_end_offset - max(remote.log_end_offset, 0)
                lags[replica_id] = max(lags.get(replica_id, 0), lag)
    return [(str(replica_id), lag) for replica_id, lag in sorted(lags.items())]
