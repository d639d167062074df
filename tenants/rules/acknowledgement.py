"""Whether gateways serve an instance, judged from what they acknowledged. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from contracts.specs import BrokerAddress, ConsumerKind, DamagedLog

SILENT_AFTER_MS: Final = 5_000
"""A consumer that neither polls nor has polled for this long is not waited for."""


@dataclass(slots=True)
class Consumer:
    """One process that follows the feed, as far as this control plane has heard of it."""

    kind: ConsumerKind
    applied_revision: int = 0
    feed_id: str = ""
    """The feed of the applied revision."""
    failures: dict[str, str] = field(default_factory=dict)
    """Instance id -> why it cannot be served."""
    objections: dict[str, str] = field(default_factory=dict)
    """Deleted instance id -> why it would not be purged."""
    seen_ms: int = 0
    polls_open: int = 0
    damaged_logs: tuple[DamagedLog, ...] = ()
    """Logs that a broker knows to be lost or damaged."""
    broker: tuple[str, BrokerAddress] | None = None
    """Cluster and address that a broker registered with."""

    def is_live(self, now_ms: int) -> bool:
        """Whether to wait for it. `now_ms` and `seen_ms` are monotonic."""
        return self.polls_open > 0 or now_ms - self.seen_ms <= SILENT_AFTER_MS


class Outcome(StrEnum):
    """What the live gateways make of a revision of an instance."""

    WAITING = "waiting"
    SERVED = "served"
    REFUSED = "refused"


def judge(
    instance_id: str, revision: int, consumers: Iterable[Consumer], now_ms: int
) -> tuple[Outcome, str | None]:
    """The outcome, with the reason when refused. At least one gateway must have applied the revision."""
    applied = 0
    waiting = False
    for consumer in consumers:
        if consumer.kind is not ConsumerKind.GATEWAY or not consumer.is_live(now_ms):
            continue
        if consumer.applied_revision < revision:
            waiting = True
            continue
        if instance_id in consumer.failures:
            return Outcome.REFUSED, consumer.failures[instance_id]
        applied += 1
    return (Outcome.WAITING if waiting or applied == 0 else Outcome.SERVED), None
