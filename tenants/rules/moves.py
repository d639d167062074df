"""How an instance goes from one cluster to another: phases, and what is decided in each. Pure (ADR 71).

Units: times `_ms` are epoch ms, sizes bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from tenants.rules.errors import Unavailable
from tenants.rules.model import Instance


class Phase(StrEnum):
    """Where a move is. Rows stay: they say where an instance was."""

    COPYING = "copying"
    """Clients are served from the source; the copy at the target grows."""
    SWITCHING = "switching"
    """Gateways hold the instance's clients; the last records, groups and transactions go over."""
    SWITCHED = "switched"
    """Clients are served from the target. The source's copy is kept until it is ordered to be removed."""
    PURGING = "purging"
    """The source's copy is being removed."""
    DONE = "done"
    CANCELLING = "cancelling"
    """Clients stay at the source; the copy at the target is being removed."""
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What happens to a move."""

    HOLD = "hold"
    """Little is left to copy: gateways are told to hold the instance."""
    RELEASE = "release"
    """It cannot be switched now: the instance is served from the source again."""
    SWITCH = "switch"
    CANCEL = "cancel"
    PURGE = "purge"
    """The source's copy is to go: somebody ordered so, or the instance was ordered to be purged."""
    REMOVED = "removed"
    """Nothing is left of the copy that was to go."""


TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.COPYING, Event.HOLD): Phase.SWITCHING,
    (Phase.COPYING, Event.CANCEL): Phase.CANCELLING,
    (Phase.SWITCHING, Event.RELEASE): Phase.COPYING,
    (Phase.SWITCHING, Event.SWITCH): Phase.SWITCHED,
    (Phase.SWITCHING, Event.CANCEL): Phase.CANCELLING,
    (Phase.SWITCHED, Event.PURGE): Phase.PURGING,
    (Phase.PURGING, Event.REMOVED): Phase.DONE,
    (Phase.CANCELLING, Event.REMOVED): Phase.CANCELLED,
}
"""The whole machine; a pair that is absent is not possible. Behind the switch there is no way back but
another move: what was written since is at the target alone."""

OVER: Final = frozenset({Phase.DONE, Phase.CANCELLED})
WORKED_ON: Final = frozenset({Phase.COPYING, Phase.SWITCHING, Phase.PURGING, Phase.CANCELLING})
"""Phases in which somebody has to do something."""

HOLD_MAX_MS: Final = 1_800
"""From the order to hold to the switch; what takes longer is given up, and tried again later."""
RETRY_FIRST_MS: Final = 1_000
RETRY_LAST_MS: Final = 60_000
"""How soon a switch that was given up is tried again, doubled each time: each costs clients a moment."""
RATE_MIN_BYTES_PER_S: Final = 20_000_000
RATE_FACTOR: Final = 2
"""A copy is read this much faster than its instance may write, or it would never end; one that writes little
is read at the least rate. No more: neighbours of both clusters have their disks and networks from it."""
NEARLY_S: Final = 0.25
"""When a round of copying found no more than this much time's worth, the rest is small enough to hold for."""
EPOCHS_AHEAD: Final = 1_000
"""Leader epochs at a target of ours begin so far behind those of the source: elections there meanwhile are
fewer, and clients take the change for one more election."""
PRODUCER_IDS_AHEAD: Final = 3_000
"""Beyond the newest producer id that a source's broker gives, others may have taken blocks of 1,000: one that
is used and one ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move as stored."""

    id: str
    instance_id: str
    source: str
    target: str
    phase: Phase
    reason: str | None = None
    """Why it stands still, or was cancelled; None: it goes on, or is over as it was ordered."""
    started_by: str
    started_at_ms: int
    updated_at_ms: int
    held_at_ms: int | None = None
    """Since when gateways are told to hold the instance."""
    tries: int = 0
    """Switches that were given up."""
    copied_bytes: int = 0
    total_bytes: int = 0
    """Of the source's logs when it was looked last."""
    switched_at_ms: int | None = None
    gap_ms: int | None = None
    """From the order to hold to the order to serve from the target."""
    fills_gaps: bool = False
    """Whether offsets that have no record may be filled at a target that leaves none out."""
    copies: dict[str, str] = field(default_factory=dict)
    """Topic at the target -> id of the one at the source that it is a copy of, where it has one."""

    def with_(self, **changes: object) -> "Move":
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def is_over(self) -> bool:
        """Whether neither cluster has anything that the move would have to see to."""
        return self.phase in OVER

    def after(self, event: Event, now_ms: int, reason: str | None = None) -> "Move | None":
        """The move after an event; None when it is not possible in this phase."""
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            return None
        moved = replace(self, phase=phase, reason=reason, updated_at_ms=now_ms)
        if event is Event.HOLD:
            return replace(moved, held_at_ms=now_ms)
        if event is Event.RELEASE:
            return replace(moved, held_at_ms=None, tries=self.tries + 1)
        if event is Event.SWITCH:
            assert self.held_at_ms is not None
            return replace(moved, held_at_ms=None, switched_at_ms=now_ms, gap_ms=now_ms - self.held_at_ms)
        return replace(moved, held_at_ms=None)

    @property
    def retry_at_ms(self) -> int:
        """When a switch may be tried: at once, or some time after the last that was given up."""
        if not self.tries:
            return 0
        return self.updated_at_ms + min(RETRY_FIRST_MS << min(self.tries - 1, 10), RETRY_LAST_MS)


def copy_rate(produce_rate_bytes_per_s: int) -> int:
    """Bytes per second at which an instance is copied."""
    return max(RATE_MIN_BYTES_PER_S, RATE_FACTOR * produce_rate_bytes_per_s)


def is_nearly_there(found_bytes: int, rate_bytes_per_s: int) -> bool:
    """Whether a round that came to the end of every log found so little that the rest can be held for."""
    return found_bytes <= rate_bytes_per_s * NEARLY_S


class Topic(NamedTuple):
    """A topic on one of the two clusters."""

    topic_id: UUID | None
    partitions: int
    leader_epoch: int = 0
    """The highest of its leaders."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What has to become of topics at the target, by the tenant's names."""

    delete: tuple[str, ...]
    create: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.delete or self.create)


def plan_topics(
    source: Mapping[str, Topic], target: Mapping[str, Topic], copied_from: Mapping[str, UUID | None]
) -> TopicPlan:
    """A topic that was deleted, made anew, or given partitions since it was made at the target is made there
    anew, and copied from its beginning. `copied_from`: of which topic of the source each is a copy."""
    stale = {
        name
        for name, there in target.items()
        if name not in source
        or copied_from.get(name) != source[name].topic_id
        or there.partitions != source[name].partitions
    }
    missing = {name for name in source if name not in target} | (stale & source.keys())
    return TopicPlan(tuple(sorted(stale)), tuple(sorted(missing)))


def cluster_to_write(instance: Instance) -> str:
    """Where whoever changes something there asks. Raises: Unavailable while it is about to change."""
    if instance.is_held:
        raise Unavailable("the instance is just now being moved: try again in a second")
    return instance.cluster_id
