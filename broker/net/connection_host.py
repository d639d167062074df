"""What a connection uses of the server that accepted it."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from broker.config import BrokerConfig
from broker.net.request_time import RequestTime
from broker.net.rules.memory import ReceiveMemory
from broker.requests.call import Call
from broker.requests.causes import CloseCause
from broker.requests.metrics import BrokerMetrics
from runtime.network import Network

C = TypeVar("C")


class Host(Protocol[C]):
    """`C` is its class of connections."""

    call_soon: Callable[[Callable[[], None]], object]
    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    memory: ReceiveMemory
    metrics: BrokerMetrics
    muted: set[C]
    network: Network
    next_request_came: Callable[[int], None]
    """A follower has asked for more while it waits: its connection's id."""
    now_ms: Callable[[], int]
    shared: bytearray
    shared_view: memoryview
    time: RequestTime

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle: ...

    @staticmethod
    def cancel_timer(timer: asyncio.TimerHandle | None) -> None: ...

    def make_room(self) -> None: ...

    def dispatch(self, connection: C, frame: memoryview) -> None: ...

    def call_done(self, call: Call) -> None: ...

    def begin_paying(self, connection: C, instance_id: str) -> None: ...

    def connection_closed(self, connection: C, cause: CloseCause) -> None: ...
