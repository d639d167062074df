"""What starting found in the log directories, and whether committed records may be missing."""

from collections.abc import Container
from dataclasses import dataclass, field

from broker.log.damage import Damage
from broker.log.partition_log import PartitionLog


@dataclass(slots=True)
class LoadReport:
    """What starting found."""

    clean: bool = True
    """Every directory was left by a clean shutdown."""
    broker_epoch: int = -1
    """That the last clean shutdown noted, -1 without one."""
    page_cache_lost: bool = False
    """No clean shutdown, and the machine is not known to be the same since: what was not synced is gone."""
    short: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Logs that end in front of their checkpointed high watermark, or are gone: (log end offset, high
    watermark)."""
    partitions: int = 0
    recovered_bytes: int = 0
    truncated_bytes: int = 0
    truncated: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Logs of which a torn or damaged end was cut: (log end offset, bytes cut)."""
    damaged: dict[tuple[str, int], tuple[Damage, ...]] = field(default_factory=dict)
    """Logs of which ranges of offsets are lost or damaged."""
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    """Partitions that could not be opened, and why; they are offline."""

    @property
    def is_unclean(self) -> bool:
        """Whether committed records may be missing here, so that other replicas must be preferred."""
        return self.page_cache_lost or bool(self.short) or self._has_holes

    @property
    def _has_holes(self) -> bool:
        return any(each.kind.is_hole for ranges in self.damaged.values() for each in ranges)

    def opened(self, log: PartitionLog) -> None:
        """One more."""
        self.partitions += 1
        self.recovered_bytes += log.recovered_bytes
        self.truncated_bytes += log.truncated_bytes
        if log.truncated_bytes:
            self.truncated[log.topic, log.partition] = (log.log_end_offset, log.truncated_bytes)

    def check_end(self, key: tuple[str, int], log_end_offset: int, committed: int) -> None:
        """Compare where a log ends with the high watermark that it once had."""
        if log_end_offset < committed:
            self.short[key] = (log_end_offset, committed)

    def found_damage(self, log: PartitionLog) -> None:
        """What is known of it once it is open."""
        if log.damage:
            self.damaged[log.topic, log.partition] = log.damage

    def forget_deleted(self, topics: Container[str]) -> None:
        """A checkpoint may be older than the deletion of a topic."""
        self.short = {key: ends for key, ends in self.short.items() if key[0] in topics}
        self.damaged = {key: ranges for key, ranges in self.damaged.items() if key[0] in topics}
