"""What a group's deadlines are about."""

from typing import Literal, NamedTuple


class TimerKey(NamedTuple):
    """A member's session, a group's join phase, or its sync phase."""

    kind: Literal["session", "join", "sync"]
    group_id: str
    member_id: str = ""
