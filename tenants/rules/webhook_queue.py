"""Which messages of a webhook wait, when there are more than may. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

PENDING_MAX: Final = 100
"""Messages of one tenant's webhook that wait; what comes beyond that is lost, and the log says so."""
OPERATORS_PENDING_MAX: Final = 400
"""Messages of one of the operators' webhooks that wait: it is told of everybody's alarms."""
SHARE_MAX: Final = 20
"""Messages about one tenant's alarms that wait at one of the operators' webhooks."""
LOST: Final = "not sent: too many messages waited"
REPLACED: Final = "not sent: a later message about the same alarm took its place"
NOBODY: Final = ""
"""In place of a tenant: the operators' own alarms, which no tenant can multiply."""


class Waiting(NamedTuple):
    """A message that waits, or would."""

    id: str
    owner: str
    """The tenant whose alarm it is about."""
    about: tuple[str, str, str] | None
    """The alarm: instance, kind, subject; None: it is about none."""
    is_critical: bool


def unsent(messages: Sequence[Waiting], *, is_operators: bool) -> dict[str, str]:
    """Of messages, oldest first: the ids of those that are not to be sent, and why.

    Of one alarm the newest waits, so one that comes and goes takes one place. Critical ones come before
    others. At operators' webhooks a tenant has a share, and where all shares together are too many, those
    of each tenant go by turns; the operators' own come first.
    """
    ended: dict[str, str] = {}
    left: list[Waiting] = []
    seen = set[tuple[str, str, str]]()
    for one in reversed(messages):
        if one.about is not None and one.about in seen:
            ended[one.id] = REPLACED
            continue
        if one.about is not None:
            seen.add(one.about)
        left.append(one)
    left.reverse()
    turns = Counter[str]()
    ranked: list[tuple[bool, bool, int, Waiting]] = []
    for one in sorted(left, key=lambda each: not each.is_critical):  # stable: the oldest first
        turn = turns[one.owner]
        turns[one.owner] += 1
        if is_operators and one.owner != NOBODY and turn >= SHARE_MAX:
            ended[one.id] = LOST
        else:
            ranked.append((one.owner != NOBODY, not one.is_critical, turn, one))
    ranked.sort(key=lambda each: each[:3])
    surplus = ranked[OPERATORS_PENDING_MAX if is_operators else PENDING_MAX :]
    return ended | {one.id: LOST for *_, one in surplus}
