"""What a group's deadlines are about."""

from typing import Literal, NamedTuple


class TimerKey(NamedTuple):
    """A member's session, a group's join phase, or its sync phase; of consumer groups a member's session,
    the time it has to let go of partitions, or how long those that join wait for others."""

    kind: Literal["session", "join", "sync", "consumer", "revocation", "gathering"]
    group_id: str
    member_id: str = ""
