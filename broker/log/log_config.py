"""Settings of one partition's log, named and defaulted as Kafka's topic configs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

MIB: Final = 1024 * 1024
NEVER: Final = 2**63 - 1
LOG_APPEND_TIME: Final = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's log settings; replaced as a whole by `PartitionLog.reconfigure`."""

    segment_bytes: int = 1024 * MIB
    segment_ms: int = 7 * 24 * 3_600_000
    segment_index_bytes: int = 10 * MIB
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3_600_000
    """-1: for ever."""
    retention_bytes: int = -1
    """-1: no limit."""
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_cleanable_dirty_ratio: float = 0.5
    """Share of bytes that the last compaction did not see from which on the next one is worth it."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    """A record older than that and not yet compacted makes it worth it too."""
    delete_retention_ms: int = 24 * 3_600_000
    """How long tombstones and transaction markers stay after the first compaction that met them."""
    max_message_bytes: int = MIB + 12
    """Largest batch, header included (Kafka's default)."""
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = NEVER
    message_timestamp_after_max_ms: int = 3_600_000
    """One hour since Kafka 4.0 (KIP-1030): a timestamp far ahead would keep its segment for ever."""
    flush_messages: int = NEVER
    flush_ms: int = 1_000
    """Kafka leaves syncing to the operating system; with one replica we do not."""
    producer_id_expiration_ms: int = 24 * 3_600_000
    min_insync_replicas: int = 0
    """Members the ISR must have for acks=all and for the high watermark to move. 0: two where a partition has
    three replicas or more, else one."""
    unclean_leader_election_enable: bool = False
    """Kept and reported here; the controller acts on it."""
    compression_type: str = "producer"
    """Kept and reported; batches are stored as received whatever it says."""

    roll_ms: int = field(init=False, default=0)
    """When the active segment is closed: what is in it is not compacted, whatever its lag."""

    is_compacted: bool = field(init=False, default=False)
    stamps_append_time: bool = field(init=False, default=False)
    """Records get our time, whatever their producers say."""

    def __post_init__(self) -> None:
        lag_ms = self.max_compaction_lag_ms
        object.__setattr__(self, "is_compacted", "compact" in self.cleanup_policy)
        object.__setattr__(self, "stamps_append_time", self.message_timestamp_type == LOG_APPEND_TIME)
        rolls_early = self.is_compacted and lag_ms > 0
        object.__setattr__(self, "roll_ms", min(self.segment_ms, lag_ms) if rolls_early else self.segment_ms)

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    def overridden(self, configs: Mapping[str, str | None]) -> "LogConfig":
        """This with a topic's configs (Kafka's names) on top; keys that are not the log's are left out.

        Raises: ValueError for a value that is no number.
        """
        changes: dict[str, Any] = {}
        for each in fields(self):
            value = configs.get(each.name.replace("_", "."))
            if value is None or not each.init:
                continue
            if each.name == "cleanup_policy":
                changes[each.name] = frozenset(part.strip() for part in value.split(",") if part.strip())
            elif isinstance(getattr(self, each.name), bool):
                changes[each.name] = value == "true"
            elif isinstance(getattr(self, each.name), int):
                changes[each.name] = int(value)
            elif isinstance(getattr(self, each.name), float):
                changes[each.name] = float(value)
            else:
                changes[each.name] = value
        return replace(self, **changes)
