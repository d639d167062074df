"""What a partition needs of the broker around it, and what it tells it. Pure."""

from typing import NamedTuple, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from broker.log.errors import LogError

P_contra = TypeVar("P_contra", contravariant=True)
"""The partition: it is handed through, so nothing is known of it here."""


class NotLeader(LogError):  # noqa: N818 - Kafka's word
    """This broker does not lead the partition."""

    def __init__(self, topic: str, index: int) -> None:
        super().__init__(ErrorCode.not_leader_or_follower, f"{topic}-{index} is not led here")


class Joining(NamedTuple):
    """Who enters the ISR: this incarnation of a broker, and no later one."""

    replica_id: int
    broker_epoch: int


class IsrChange(NamedTuple):
    """An ISR the leader wants in the state node. One per partition is under way at a time."""

    leader_id: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """Version of the state node the change is based on: the write is a compare-and-set."""
    joining: Joining | None = None


class PartitionHost(Protocol[P_contra]):
    """The broker, as a partition sees it."""

    broker_id: int
    replica_lag_max_ms: int
    """Kafka's replica.lag.time.max.ms."""

    def may_join_isr(self, replica_id: int, broker_epoch: int) -> bool:
        """Whether this incarnation of a broker is the registered one and not shutting down (KIP-841, 903)."""

    def propose_isr(self, partition: P_contra, change: IsrChange) -> None:
        """Write the ISR; `isr_written` or `isr_refused` follows."""

    def appended(self, partition: P_contra) -> None:
        """The leader's log grew: followers that wait may fetch."""

    def high_watermark_moved(self, partition: P_contra, committed_bytes: int) -> None:
        """Records were committed, of about so many bytes: consumers that wait may read."""
