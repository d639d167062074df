"""Replies of one connection that leave in the order of its requests, whichever is ready first. Pure."""

from broker.requests.call import Call, Ready


class PendingReplies:
    """Calls whose work is done and whose replies are not yet sent, oldest first."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: dict[Call, Ready | None] = {}
        """To be asked, not changed."""

    def __len__(self) -> int:
        return len(self.calls)

    def add(self, call: Call) -> None:
        """The call's reply will come; later requests are handled meanwhile."""
        self.calls[call] = None

    def put(self, call: Call, reply: Ready) -> None:
        """The reply has come; of a call that was not added it stands behind the others."""
        self.calls[call] = reply

    def take(self) -> tuple[Call, Ready] | None:
        """The oldest call, when it is ready: send its reply now."""
        for call, reply in self.calls.items():
            if reply is None:
                return None
            del self.calls[call]
            return call, reply
        return None
