"""Who leads: Kafka's rules (PartitionLeaderElectionAlgorithms). Pure functions.

A replica in the ISR has every committed record, so only such a one is elected; one from outside it only where
an unclean election is allowed, and then records may be lost.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from contracts.cluster import NO_LEADER

Eligible = Callable[[int], bool]
"""Whether a broker may lead the partition now."""


class Choice(NamedTuple):
    """A leader and ISR to be written with the next leader epoch."""

    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False


def elect_offline(
    replicas: Sequence[int], isr: Sequence[int], eligible: Eligible, alive: Eligible, unclean: bool
) -> Choice:
    """After the leader died: the first eligible replica in the ISR; members of the ISR that died leave it.

    Without one: the first eligible replica at all where `unclean`, else none, and the ISR stays to tell
    whom to wait for.
    """
    for replica in replicas:
        if replica in isr and eligible(replica):
            return Choice(replica, tuple(each for each in isr if alive(each)))
    if unclean:
        for replica in replicas:
            if eligible(replica):
                return Choice(replica, (replica,), is_unclean=True)
    return Choice(NO_LEADER, tuple(isr))


def elect_from(targets: Sequence[int], isr: Sequence[int], eligible: Eligible) -> int | None:
    """The first of `targets` that is in the ISR and eligible."""
    for replica in targets:
        if replica in isr and eligible(replica):
            return replica
    return None


def first_leader(replicas: Sequence[int], eligible: Eligible, alive: Eligible) -> Choice | None:
    """The leader of a new partition: no replica has data, so every live one is in sync. None: none lives."""
    for replica in replicas:
        if eligible(replica):
            return Choice(replica, tuple(each for each in replicas if alive(each)))
    return None


def elect_for_shutdown(
    replicas: Sequence[int], isr: Sequence[int], eligible: Eligible, leaving: Sequence[int]
) -> Choice | None:
    """Away from brokers that stop, which leave the ISR at once. None: nobody else is in sync."""
    leader = elect_from(replicas, isr, eligible)
    if leader is None:
        return None
    return Choice(leader, tuple(each for each in isr if each not in leaving))
