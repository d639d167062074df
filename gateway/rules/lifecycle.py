"""The life of an instance on one gateway worker, as a table. A pair that is not in the table cannot happen.

Suspension is not a phase: the ports stay bound and connections are turned away at accept.
"""

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where an instance is on this worker."""

    INITIALIZING = "initializing"
    SERVING = "serving"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


class Event(StrEnum):
    """What moves it."""

    BOUND = "bound"
    """Every listener of the spec is bound."""
    BIND_FAILED = "bind_failed"
    """At least one is not; the others serve."""
    REMOVED = "removed"
    """Deleted, or the worker stops: connections are being closed."""
    DRAINED = "drained"
    """The last connection is gone."""


TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.INITIALIZING, Event.BOUND): Phase.SERVING,
    (Phase.INITIALIZING, Event.BIND_FAILED): Phase.FAILED,
    (Phase.SERVING, Event.BOUND): Phase.SERVING,
    (Phase.SERVING, Event.BIND_FAILED): Phase.FAILED,
    (Phase.FAILED, Event.BOUND): Phase.SERVING,
    (Phase.FAILED, Event.BIND_FAILED): Phase.FAILED,
    (Phase.INITIALIZING, Event.REMOVED): Phase.DRAINING,
    (Phase.SERVING, Event.REMOVED): Phase.DRAINING,
    (Phase.FAILED, Event.REMOVED): Phase.DRAINING,
    (Phase.DRAINING, Event.DRAINED): Phase.STOPPED,
}


def next_phase(phase: Phase, event: Event) -> Phase:
    """The phase after an event. Raises: KeyError for a pair that cannot happen, which is a bug."""
    return TRANSITIONS[phase, event]
