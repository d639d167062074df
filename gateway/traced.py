"""What a worker knows of traces without importing what makes them (`tracing`, ADR 33)."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gateway.causes import DisconnectCause
from gateway.session.surroundings import Traces


class TracedConnection(NamedTuple):
    """What spans tell of a connection."""

    instance_id: str
    tenant: str
    address: str
    """The client's."""
    upstream_address: Callable[[], tuple[str, int] | None]
    """Where its broker is; None: it may be any."""


class TracesOfConnection(Traces, Protocol):
    """Traces of one connection that are under way."""

    def cut(self, cause: DisconnectCause) -> None:
        """The connection has ended, and with it all that were under way."""


class TracesOfWorker(Protocol):
    """Decides which requests of a worker are traced."""

    def of(self, connection: TracedConnection) -> TracesOfConnection:
        """Traces of a connection that begins."""
