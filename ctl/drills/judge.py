"""What a drill is worth: is all that was acknowledged there, was it seen, has it ended? Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Facts(NamedTuple):
    """What a drill has found."""

    acknowledged: Mapping[int, Sequence[int]]
    """Numbers by partition, as they were acknowledged."""
    stored: Mapping[int, Sequence[int]]
    """Numbers by partition, as they were read at the end."""
    refused: Sequence[str]
    """Errors of records that were given up."""
    alerts_wanted: Sequence[str]
    alerts_seen: Iterable[str]
    sign: str | None
    """What the drill's own look had to see while the fault lasted; None: it did not see it."""
    recovered_after_s: float | None
    """Since the fault was undone; None: it did not within its time."""
    within_s: float


class Check(NamedTuple):
    """One thing that has to hold."""

    what: str
    found: str
    holds: bool


def judge(facts: Facts) -> tuple[Check, ...]:
    """Every check of a drill."""
    sent = sum(map(len, facts.acknowledged.values()))
    lost = sum(
        len(set(numbers) - set(facts.stored.get(partition, ())))
        for partition, numbers in facts.acknowledged.items()
    )
    disordered = sum(
        any(later <= earlier for earlier, later in pairwise(numbers)) for numbers in facts.stored.values()
    )
    missing = sorted(set(facts.alerts_wanted) - set(facts.alerts_seen))
    after_s = facts.recovered_after_s
    return (
        Check("records were acknowledged", f"{sent:,}", sent > 0),
        Check("nothing acknowledged is lost", f"{lost:,} of {sent:,} lost", lost == 0),
        Check("nothing is doubled or reordered", f"in {disordered} partitions", disordered == 0),
        Check(
            "clients were given no error",
            f"{len(facts.refused)} records given up" + (f": {facts.refused[0]}" if facts.refused else ""),
            not facts.refused,
        ),
        Check("the alert would fire", _named(facts.alerts_wanted, missing), not missing),
        Check("it showed", facts.sign or "not while it lasted", facts.sign is not None),
        Check(
            f"recovered within {facts.within_s:.0f} s",
            "no" if after_s is None else f"after {after_s:.1f} s",
            after_s is not None,
        ),
    )


def _named(wanted: Sequence[str], missing: Sequence[str]) -> str:
    return f"not seen: {', '.join(missing)}" if missing else ", ".join(wanted)
