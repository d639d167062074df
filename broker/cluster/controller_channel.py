"""Delivering commands: one ordered queue and one connection per broker, tried until delivered.

Commands are idempotent, so one whose answer was lost is sent again. A channel is closed when its broker's
registration is gone or another life of the broker has registered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from broker.cluster import peer
from broker.controller.command_queue import CommandQueue
from broker.requests.login import PeerBroker
from contracts.cluster import (
    Command,
    CommandResponse,
    ControlledShutdownResponse,
    LiveBroker,
)
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.logs import get_logger
from runtime.network import Network

_log = get_logger(__name__)
_BACKOFF_FIRST_S: Final = 0.05
_BACKOFF_LAST_S: Final = 1.0
_CONNECT_TIMEOUT_S: Final = 3.0

Deliver = Callable[[Command], Awaitable[CommandResponse]]
"""Carries a command out. Raises: KafkaUnavailable."""
Answered = Callable[[int, Command, CommandResponse], None]


class RemoteBroker:
    """Delivery to another broker: its connection is kept and made again when it breaks."""

    def __init__(self, broker: LiveBroker, secret: str, me: PeerBroker, network: Network) -> None:
        self._broker = broker
        self._network = network
        self._secret = secret
        self._me = me
        self._connection: KafkaConnection | None = None

    async def deliver(self, command: Command) -> CommandResponse:
        """Raises: KafkaUnavailable."""
        if self._connection is None or self._connection.is_closed:
            self._connection = await peer.connect(
                self._broker, self._secret, self._me, self._network, timeout_s=_CONNECT_TIMEOUT_S
            )
        response = await peer.ask(self._connection, command)
        assert not isinstance(response, ControlledShutdownResponse), "the type follows from the API key"
        return response

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class Channel:
    """One life of one broker, and what it has yet to hear."""

    def __init__(self, broker: LiveBroker, deliver: Deliver, answered: Answered) -> None:
        self.broker = broker
        self._deliver = deliver
        self._answered = answered
        self._queue = CommandQueue()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task = asyncio.create_task(self._run(), name=f"commands to broker {broker.broker_id}")

    def push(self, command: Command) -> None:
        """Deliver after what was pushed before."""
        self._queue.push(command)
        self._idle.clear()
        self._wake.set()

    async def told(self) -> None:
        """Return when everything is delivered."""
        await self._idle.wait()

    def close(self) -> None:
        """Deliver nothing more; nobody waits for it."""
        self._task.cancel()
        self._idle.set()

    async def _run(self) -> None:
        while True:
            if not self._queue:
                self._idle.set()
                await self._wake.wait()
            self._wake.clear()
            if not self._queue:
                continue
            command = self._queue.pop()
            response = await self._until_delivered(command)
            self._answered(self.broker.broker_id, command, response)

    async def _until_delivered(self, command: Command) -> CommandResponse:
        backoff_s, is_told = _BACKOFF_FIRST_S, False
        while True:
            try:
                return await self._deliver(command)
            except KafkaUnavailable as error:
                if not is_told:
                    _log.warning(
                        "a command could not be delivered, trying again",
                        cause="broker_unreachable",
                        broker=self.broker.broker_id,
                        command=type(command).__name__,
                        reason=str(error),
                    )
                is_told = True
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _BACKOFF_LAST_S)


class Channels:
    """The channels to all registered brokers. `own` carries out this broker's commands without a network."""

    def __init__(
        self, broker_id: int, secret: str | None, own: Deliver, answered: Answered, network: Network
    ) -> None:
        self._broker_id = broker_id
        self._network = network
        self._secret = secret
        self._own = own
        self._answered = answered
        self._channels: dict[int, Channel] = {}
        self._remotes: dict[int, RemoteBroker] = {}

    def connect(self, brokers: Iterable[LiveBroker]) -> None:
        """Keep channels to these lives of these brokers, and to no others."""
        wanted = {broker.broker_id: broker for broker in brokers}
        for broker_id, channel in list(self._channels.items()):
            if broker_id not in wanted or _address(wanted[broker_id]) != _address(channel.broker):
                self._close(broker_id)
        me = wanted.get(self._broker_id)
        my_epoch = 0 if me is None else me.broker_epoch
        for broker_id, broker in wanted.items():
            if broker_id in self._channels:
                continue
            deliver = self._own
            if broker_id != self._broker_id:
                assert self._secret is not None, "brokers of a cluster share a secret"
                me_now = PeerBroker(self._broker_id, my_epoch)
                remote = RemoteBroker(broker, self._secret, me_now, self._network)
                self._remotes[broker_id] = remote
                deliver = remote.deliver
            self._channels[broker_id] = Channel(broker, deliver, self._answered)

    def push(self, broker_id: int, command: Command) -> None:
        """Deliver a command to a connected broker."""
        channel = self._channels.get(broker_id)
        if channel is not None and channel.broker.broker_epoch == command.broker_epoch:
            channel.push(command)

    async def told(self, others_s: float) -> None:
        """Wait until this broker has heard everything so far, and the others have or had so much time."""
        own = self._channels.get(self._broker_id)
        waits = [asyncio.ensure_future(each.told()) for each in self._channels.values() if each is not own]
        try:
            if waits:
                await asyncio.wait(waits, timeout=others_s)
            if own is not None:
                await own.told()
        finally:
            for wait in waits:
                wait.cancel()

    def close(self) -> None:
        """Close all."""
        for broker_id in list(self._channels):
            self._close(broker_id)

    def _close(self, broker_id: int) -> None:
        self._channels.pop(broker_id).close()
        remote = self._remotes.pop(broker_id, None)
        if remote is not None:
            remote.close()


def _address(broker: LiveBroker) -> tuple[str, int, int]:
    return broker.host, broker.port, broker.broker_epoch
