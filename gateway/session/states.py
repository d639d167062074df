"""Where the two sides of a session are, as tables. A pair that is not in them cannot happen.

The client's end of stream does not end the session: what is under way is finished. When acks=0 data went up
that nobody answers, the broker is told of the end, and closes when it has taken everything.
"""

from enum import Enum
from typing import Final


class Client(Enum):
    """Where the client's side is."""

    SENDING = "sending"
    ENDED = "ended"
    """No more requests; replies still go there."""
    CLOSED = "closed"


class Upstream(Enum):
    """Where the broker's side is."""

    ABSENT = "absent"
    """Nothing had to go up yet."""
    DIALLING = "dialling"
    LOGIN = "login"
    """Connected; our own login is not answered yet, and requests follow it unasked."""
    OPEN = "open"
    LOGIN_TOLD = "login told"
    """A login is under way, and our stream has ended."""
    TOLD = "told"
    """Our stream has ended; replies still come."""
    ENDED = "ended"
    """The broker's stream has ended; what it sent still goes to the client."""
    CLOSED = "closed"


class Event(Enum):
    """What moves them."""

    ENDS = "ends"
    """Its stream has ended."""
    CLOSES = "closes"
    """The session is over."""
    DIALS = "dials"
    CONNECTS_FOR_LOGIN = "connects for login"
    CONNECTS = "connects"
    LOGS_IN = "logs in"
    IS_TOLD = "is told"
    """The end of our stream went up."""


CLIENT: Final[dict[tuple[Client, Event], Client]] = {
    (Client.SENDING, Event.ENDS): Client.ENDED,
    (Client.SENDING, Event.CLOSES): Client.CLOSED,
    (Client.ENDED, Event.CLOSES): Client.CLOSED,
}
UPSTREAM: Final[dict[tuple[Upstream, Event], Upstream]] = {
    (Upstream.ABSENT, Event.DIALS): Upstream.DIALLING,
    (Upstream.DIALLING, Event.CONNECTS_FOR_LOGIN): Upstream.LOGIN,
    (Upstream.DIALLING, Event.CONNECTS): Upstream.OPEN,
    (Upstream.LOGIN, Event.LOGS_IN): Upstream.OPEN,
    (Upstream.LOGIN, Event.IS_TOLD): Upstream.LOGIN_TOLD,
    (Upstream.LOGIN_TOLD, Event.LOGS_IN): Upstream.TOLD,
    (Upstream.OPEN, Event.IS_TOLD): Upstream.TOLD,
    (Upstream.OPEN, Event.ENDS): Upstream.ENDED,
    (Upstream.TOLD, Event.ENDS): Upstream.ENDED,
    **{(state, Event.CLOSES): Upstream.CLOSED for state in Upstream if state is not Upstream.CLOSED},
}
LOGGING_IN: Final = frozenset({Upstream.LOGIN, Upstream.LOGIN_TOLD})
"""A broker that ends its stream here does not let us in."""


class Sides:
    """The two states of one session."""

    __slots__ = ("client", "flows", "is_over", "upstream")

    def __init__(self) -> None:
        self.client = Client.SENDING
        self.upstream = Upstream.ABSENT
        self.flows = True
        """Whether neither stream has ended: this and the next are asked with every chunk."""
        self.is_over = False
        """Whether it is closed."""

    def client_moves(self, event: Event) -> None:
        """Raises: KeyError for a pair that cannot happen, which is a bug."""
        self.client = CLIENT[self.client, event]
        self.flows = False
        self.is_over = self.client is Client.CLOSED

    def upstream_moves(self, event: Event) -> None:
        """Raises: KeyError for a pair that cannot happen, which is a bug."""
        self.upstream = UPSTREAM[self.upstream, event]
        if self.upstream in (Upstream.ENDED, Upstream.CLOSED):
            self.flows = False
