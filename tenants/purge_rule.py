"""Whether a deleted instance may be purged now, from what the store knows of who follows its feed. Pure.

Times are epoch ms. Everything here may only delay a purge: what is not known is waited for (ADR-0015).
"""

from dataclasses import dataclass
from typing import Final

from contracts.specs import ConsumerKind
from tenants.rules.model import Instance
from tenants.store.followers import Follower

HEARD_EVERY_MS: Final = 15_000
"""How often the store is told that a follower lives, when nothing else changes."""
LATELY_MS: Final = 60_000
"""Heard of within this: it lives. Several times `HEARD_EVERY_MS` and a long poll."""
FORGET_AFTER_MS: Final = 600_000
"""A gateway that was not heard of for so long is gone, and serves nobody."""
LEARN_MS: Final = 10_000
"""After a start, gateways get this long to be heard of: none may still serve what is purged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is known when a purge is considered."""

    feed_id: str
    started_at_ms: int
    """When this control plane began to listen: what was heard before may be from another history."""
    now_ms: int
    brokers: frozenset[tuple[str, int]]
    """Cluster and node id of every registered broker."""
    followers: tuple[Follower, ...]


def hindrance(instance: Instance, world: World) -> str | None:
    """Why what is due, or was ordered, is not purged yet, in a sentence; None: nothing stands against it.

    All registered brokers must have taken this revision, in this feed, since we listen: one that was away may
    know of a history in which the instance was taken back. An operator's word (`confirmed`) waits for nobody
    but who lives now.
    """
    deletion = instance.deletion
    if deletion is None:
        return "nobody is known to have deleted it"
    if deletion.lineage != world.feed_id:
        return (
            "it was deleted before the control plane's database was restored or exchanged: "
            "take it back (undelete), or purge it by hand"
        )
    if world.now_ms - world.started_at_ms < LEARN_MS:
        return "the control plane has just started"
    heard = [one for one in world.followers if one.kind in (ConsumerKind.GATEWAY, ConsumerKind.BROKER)]
    if not deletion.confirmed:
        for one in heard:
            if instance.id in one.objections and _counts(one, world):
                return f"{one.consumer} objects: {one.objections[instance.id]}"
        reason = _missing_broker(instance, world)
        if reason is not None:
            return reason
    late = [one.consumer for one in heard if _is_waited_for(one, instance, world)]
    return f"{', '.join(late)} must hear of it first" if late else None


def _counts(follower: Follower, world: World) -> bool:
    """Whether a follower's word still counts: a broker's always, others' until they are forgotten."""
    return follower.kind is ConsumerKind.BROKER or world.now_ms - follower.heard_at_ms < FORGET_AFTER_MS


def _missing_broker(instance: Instance, world: World) -> str | None:
    since_ms = max(world.started_at_ms, world.now_ms - LATELY_MS)
    here = {
        (one.cluster_id, one.node_id)
        for one in world.followers
        if one.kind is ConsumerKind.BROKER and one.feed_id == world.feed_id and one.heard_at_ms >= since_ms
    }
    wanted = {one for one in world.brokers if one[0] == instance.cluster_id}
    missing = sorted(node_id for _cluster_id, node_id in wanted - here)
    if not missing:
        return None
    return f"broker {', '.join(map(str, missing))} was not heard of: it may know more than we do"


def _is_waited_for(follower: Follower, instance: Instance, world: World) -> bool:
    """Whether a live follower has not taken the instance's revision yet."""
    confirmed = instance.deletion is not None and instance.deletion.confirmed
    is_broker = follower.kind is ConsumerKind.BROKER
    patience_ms = LATELY_MS if is_broker or confirmed else FORGET_AFTER_MS
    if world.now_ms - follower.heard_at_ms >= patience_ms:
        return False
    if is_broker and follower.cluster_id != instance.cluster_id:
        return False
    return follower.feed_id != world.feed_id or follower.applied_revision < instance.revision
