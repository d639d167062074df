"""What connections have of their worker, by name. Nothing of it is one connection's."""

import asyncio
from typing import Protocol

from gateway.causes import DisconnectCause
from gateway.dial import Way
from gateway.instance_host import AnswerTimes
from gateway.outside import AskUpstream, Outside
from gateway.served import Served, ServedInstance
from gateway.session.session import Session
from gateway.sockets import ReceiveBuffer
from gateway.splicing import SplicePipe
from runtime.network import Network
from runtime.pacing import Pacing
from traffic.relayed import RelayedFlows
from wire.framing import Buffer


class Leaving(Served, Protocol):
    """A connection that has ended."""

    @property
    def served(self) -> ServedInstance:
        """The instance whose port the client came to."""

    @property
    def peer(self) -> str:
        """The client's address and port."""

    @property
    def session(self) -> Session:
        """What its bytes meant."""

    @property
    def counted(self) -> tuple[str, ...]:
        """The names in the shared table that it was counted under."""


class Workplace(Protocol):
    """What all connections of a worker share, and what a connection asks of it."""

    now_ms: int
    """The time of the last tick or connect."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Which everything here runs on."""

    @property
    def network(self) -> Network:
        """In which brokers are reached."""

    @property
    def pacing(self) -> Pacing:
        """The turns of instances."""

    @property
    def buffer(self) -> ReceiveBuffer:
        """What every read goes through."""

    @property
    def pipe(self) -> SplicePipe:
        """What large batches go through unread."""

    @property
    def times(self) -> AnswerTimes:
        """What requests took."""

    def way(self, cluster_id: str, node_id: int | None) -> Way:
        """Where the upstream connection goes, and what is asked for there."""

    def login_frames(self, instance_id: str, peer: str) -> list[Buffer]:
        """What goes up in front of a client's first request."""

    def outside(
        self,
        served: ServedInstance,
        node_id: int | None,
        relay: RelayedFlows | None,
        ask_upstream: AskUpstream,
    ) -> Outside:
        """What a request of a connection may ask of others."""

    def forget(self, connection: Leaving, cause: DisconnectCause, detail: str) -> None:
        """The connection has ended. Called once."""
