"""Replies of one connection that leave in the order of its requests, whichever is ready first. Pure."""

from broker.call import Call, Ready


class PendingReplies:
    """Calls whose work is done and whose replies are not yet sent, oldest first."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[Call, Ready | None] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        """The call's reply will come; later requests are handled meanwhile."""
        self._calls[call] = None

    def put(self, call: Call, reply: Ready) -> None:
        """The reply has come; of a call that was not added it stands behind the others."""
        self._calls[call] = reply

    def take(self) -> tuple[Call, Ready] | None:
        """The oldest call, when it is ready: send its reply now."""
        for call, reply in self._calls.items():
            if reply is None:
                return None
            del self._calls[call]
            return call, reply
        return None
