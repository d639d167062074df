"""What the requests of a connection ask of others than their client: `gateway/session/deps.py` says it by
name, this does it, on the worker's own connections to the cluster."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from contracts.charging import CHARGE_KEY, ChargeRequest
from contracts.quota import Direction
from gateway.backend import Backend
from gateway.causes import DisconnectCause
from gateway.charging import charge_frame, charged_throttle_ms
from gateway.served import ServedInstance
from gateway.session.ordering import Exchange
from gateway.stops import ConnectionStop
from runtime.kafka_client import KafkaUnavailable
from traffic.flow import REPORTED_THROTTLE_MS_MAX
from traffic.relayed import RelayedFlows
from wire.api_table import VersionRange
from wire.rewrite import rewrite_request, rewrite_response
from wire.scope import View

_RETRY_S: Final = 0.1
_FULL: Final = (ErrorCode.policy_violation.name, ErrorCode.request_timed_out.name)
"""Why Produce requests of a full instance are refused."""
_NO_BROKERS: Final = View({})
"""Answers to questions of our own are for no client's eyes."""
AskUpstream: TypeAlias = Callable[[Exchange, bytes], None]
"""Sends a frame of ours behind what went up; the exchange's taker gets the answer."""


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except KafkaUnavailable as error:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error


class Outside:
    """The world outside of one connection, while one of its requests waits.

    Without `ask_upstream` the backend is one that nobody logs in at; `relay` is the account there.
    """

    def __init__(
        self,
        served: ServedInstance,
        backend: Backend,
        node_id: int | None,
        ask_upstream: AskUpstream | None,
        relay: RelayedFlows | None,
        now_ms: Callable[[], int],
        connect_ms: int,
    ) -> None:
        self._served = served
        self._backend = backend
        self._node_id = node_id
        self._ask_upstream = ask_upstream
        self._relay = relay
        self._now_ms = now_ms
        self._connect_ms = connect_ms

    async def charge(self, request: ChargeRequest) -> int:
        """Have it charged; answers throttle_time_ms, when the instance's turn has come.

        Raises: ConnectionStop, MalformedFrame.
        """
        if self._ask_upstream is None:
            return 0 if self._relay is None else self._charge_here(self._relay, request)
        exchange = Exchange(CHARGE_KEY, 0, 0)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        exchange.taker = answered.set_result
        self._ask_upstream(exchange, charge_frame(request))
        return charged_throttle_ms(await answered)

    def _charge_here(self, relay: RelayedFlows, request: ChargeRequest) -> int:
        """A Produce was charged whole when it came."""
        relay.refuse(request.reason)
        if request.reason in _FULL:
            relay.produce.refused += 1
        if request.consume_bytes:
            relay.consume.charge(request.consume_bytes, self._now_ms())
        direction = Direction.CONSUME if request.consume_bytes else Direction.PRODUCE
        return min(relay.wait_ms(direction, self._now_ms()), REPORTED_THROTTLE_MS_MAX)

    async def pause(self, wait_ms: int) -> None:
        """So much time passes."""
        await asyncio.sleep(wait_ms / 1000)

    async def versions(self) -> dict[int, VersionRange]:
        """What the broker serves; one that restarts is waited for. Raises: ConnectionStop."""
        give_up_ms = self._now_ms() + self._connect_ms
        while True:
            try:
                return await self._backend.versions(self._node_id)
            except KafkaUnavailable as error:
                if self._now_ms() >= give_up_ms:
                    raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error
            await asyncio.sleep(_RETRY_S)

    async def ask_any(self, request: Payload) -> Any:
        """Ask whichever broker answers first. Raises: ConnectionStop, MalformedFrame."""
        with _reached():
            answer = await self._backend.ask_any(rewrite_request(request, self._served.scope))
        return rewrite_response(answer, self._served.scope, _NO_BROKERS)

    async def ask_controller(self, request: Payload) -> Any:
        """Ask the cluster's controller. Raises: ConnectionStop, MalformedFrame."""
        with _reached():
            answer = await self._backend.ask_controller(rewrite_request(request, self._served.scope))
        return rewrite_response(answer, self._served.scope, _NO_BROKERS)

    def changing_partitions(self) -> AbstractAsyncContextManager[None]:
        """One request of the instance at a time on this worker."""
        return self._served.partition_changes

    async def partition_counts(self) -> dict[str, int]:
        """Partitions of every topic of the instance. Raises: ConnectionStop."""
        with _reached():
            return await self._backend.partition_counts(self._served.instance_id)

    async def missing_topics(self, names: Collection[str]) -> set[str]:
        """Which of these topics are not there. Raises: ConnectionStop."""
        with _reached():
            return await self._backend.missing_topics(self._served.instance_id, names)
