"""What this broker tells of its damaged logs: to the log, to Prometheus, and to the console."""

from broker.log.damage import Damage
from broker.log.partition_log import PartitionLog
from broker.replication.replicas import Replicas
from broker.storage.manager import LogManager
from contracts.specs import DAMAGED_LOGS_TOLD, DamagedLog
from runtime.logs import get_logger

_log = get_logger(__name__)


def damaged_logs(logs: LogManager, replicas: Replicas) -> tuple[DamagedLog, ...]:
    """For the console: the first ones, by name."""
    told = [
        _told(replicas, log, each)
        for log in sorted(logs.damaged(), key=lambda log: (log.topic, log.partition))
        for each in log.damage
    ]
    return tuple(told[:DAMAGED_LOGS_TOLD])


def _told(replicas: Replicas, log: PartitionLog, damage: Damage) -> DamagedLog:
    partition = replicas.hosted(log.topic, log.partition)
    return DamagedLog(
        topic=log.topic,
        partition=log.partition,
        first_offset=damage.first_offset,
        next_offset=damage.next_offset,
        kind=damage.kind.value,
        replicas=1 if partition is None else max(1, len(partition.replicas)),
    )


def log_damage(topic: str, partition: int, damage: tuple[Damage, ...]) -> None:
    """One line for each range."""
    for each in damage:
        _log.error(
            "records of a log are lost or damaged",
            topic=topic,
            partition=partition,
            first_offset=each.first_offset,
            next_offset=each.next_offset,
            kind=each.kind.value,
        )
