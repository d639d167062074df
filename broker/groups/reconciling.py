"""One member's next step towards its target assignment: it lets go first, then it is given what is free.

Source: KIP-848, "Member assignment reconciliation"; Kafka's CurrentAssignmentBuilder.
"""

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

from broker.groups.consumer_records import NO_PARTITIONS, CurrentAssignment, MemberState, Partitions

Owner: TypeAlias = Callable[[UUID, int], str | None]
"""Who has a partition, or may still read it; None: it is free."""


def next_assignment(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    owner: Owner,
) -> CurrentAssignment:
    """What the member has been given after a heartbeat in which it owns `owned`; None: it did not say.

    The same object when nothing changes.
    """
    if current.state is MemberState.STABLE:
        if current.member_epoch == target_epoch:
            return current
        return _step(current, current.member_epoch, target_epoch, target, owned, owner)
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns(owned, current.pending_revocation):
            return current
        return _step(current, current.member_epoch + 1, target_epoch, target, owned, owner)
    stepped = _step(current, current.member_epoch, target_epoch, target, owned, owner)
    return current if stepped == current else stepped


def _owns(owned: Partitions | None, partitions: Partitions) -> bool:
    """Whether the member still has some of these; one that does not say has all."""
    if owned is None:
        return True
    return any(indexes & owned.get(topic_id, frozenset()) for topic_id, indexes in partitions.items())


def _step(
    current: CurrentAssignment,
    member_epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    owner: Owner,
) -> CurrentAssignment:
    kept: dict[UUID, frozenset[int]] = {}
    revoked: dict[UUID, frozenset[int]] = {}
    given: dict[UUID, frozenset[int]] = {}
    waits = False
    none: frozenset[int] = frozenset()
    for topic_id in current.assigned.keys() | target.keys():
        assigned, wanted = current.assigned.get(topic_id, none), target.get(topic_id, none)
        free = frozenset(index for index in wanted - assigned if owner(topic_id, index) is None)
        waits = waits or free != wanted - assigned
        for part, indexes in ((kept, assigned & wanted), (revoked, assigned - wanted)):
            if indexes:
                part[topic_id] = indexes
        if (assigned & wanted) | free:
            given[topic_id] = (assigned & wanted) | free
    if revoked and _owns(owned, revoked):
        return _at(current, member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _at(current, target_epoch, state, given, NO_PARTITIONS)


def _at(
    current: CurrentAssignment,
    member_epoch: int,
    state: MemberState,
    assigned: Partitions,
    pending_revocation: Partitions,
) -> CurrentAssignment:
    former = current.member_epoch
    previous = current.previous_member_epoch if member_epoch == former else former
    return CurrentAssignment(member_epoch, previous, state, assigned, pending_revocation)
