"""How code below a connection says that the connection has to end, and why."""

from gateway.causes import DisconnectCause


class ConnectionStop(Exception):  # noqa: N818 - an order, not an error
    """The connection must be closed with this cause; `detail` goes to the log, never to a client."""

    def __init__(self, cause: DisconnectCause, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else str(cause))
        self.cause = cause
        self.detail = detail
