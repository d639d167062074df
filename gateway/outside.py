"""What the requests of a connection ask of others than their client: `gateway/session/deps.py` says it by
name, this does it, on the worker's own connections to the cluster."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from contracts.access_orders import ACCESS_PATH, AccessAnswer, AccessOrder
from contracts.charging import CHARGE_KEY, ChargeRequest
from contracts.quota import Direction
from gateway.backend import Backend
from gateway.causes import DisconnectCause
from gateway.charging import charge_frame, charged_throttle_ms
from gateway.served import ServedInstance
from gateway.session.ordering import Exchange
from gateway.stops import ConnectionStop
from runtime.internal_http import InternalError
from runtime.kafka_client import KafkaUnavailable
from runtime.logs import get_logger
from traffic.engine_time import of_listing_us
from traffic.relayed import RelayedFlows
from wire.api_table import Served
from wire.rewrite import rewrite_request, rewrite_response
from wire.scope import View

_log = get_logger(__name__)
T = TypeVar("T")
_NO_CONTROL: Final = "the control plane does not answer: try again later"
_RETRY_S: Final = 0.1
_FULL: Final = (ErrorCode.policy_violation.name, ErrorCode.request_timed_out.name)
"""Why Produce requests of a full instance are refused."""
_NO_BROKERS: Final = View({})
"""Answers to questions of our own are for no client's eyes."""
_ORDER_S: Final = 10.0
_APPLIED_S: Final = 5.0
"""So long an answer waits for this worker to hear of what was changed."""
_BETWEEN_ORDERS_S: Final = 0.1
"""Each order is told to every gateway and broker with all of the instance's spec."""
AskUpstream: TypeAlias = Callable[[Exchange, bytes], None]
"""Sends a frame of ours behind what went up; the exchange's taker gets the answer."""


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except KafkaUnavailable as error:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error


class Control(Protocol):
    """The control plane, as far as it is asked here."""

    async def post(self, path: str, message: msgspec.Struct, answer: type[T], *, timeout_s: float) -> T:
        """Raises: InternalError."""


class Outside:
    """The world outside of one connection, while one of its requests waits.

    Without `ask_upstream` the backend is one that nobody logs in at; `relay` is the account there, and what
    is asked of it in the gateway's own name the instance `spends` of its time here, in us.
    """

    def __init__(
        self,
        served: ServedInstance,
        backend: Backend,
        node_id: int | None,
        ask_upstream: AskUpstream | None,
        relay: RelayedFlows | None,
        spends: Callable[[int], None],
        now_ms: Callable[[], int],
        connect_ms: int,
        control: Control | None,
    ) -> None:
        self._served = served
        self._backend = backend
        self._node_id = node_id
        self._ask_upstream = ask_upstream
        self._relay = relay
        self._spends = spends
        self._now_ms = now_ms
        self._connect_ms = connect_ms
        self._control = control

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
        return relay.told_ms(direction, self._now_ms())

    async def change_access(self, order: AccessOrder) -> AccessAnswer:
        """Ask the control plane, one order of an instance at a time."""
        if self._control is None:
            return AccessAnswer(refusal=_NO_CONTROL, is_passing=True)
        async with self._served.access_changes:
            try:
                answer = await self._control.post(ACCESS_PATH, order, AccessAnswer, timeout_s=_ORDER_S)
            except InternalError as error:
                _log.warning("users cannot change access", instance=order.instance_id, error=str(error))
                return AccessAnswer(refusal=_NO_CONTROL, is_passing=True)
            await asyncio.sleep(_BETWEEN_ORDERS_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_APPLIED_S):
                    while self._served.spec.revision < answer.revision:
                        await self._served.spec_changed.wait()
            return answer

    async def pause(self, wait_ms: int) -> None:
        """So much time passes."""
        await asyncio.sleep(wait_ms / 1000)

    async def engine_room(self, cost_us: int) -> None:
        """Back when the broker has room for so much more of the instance, and it is taken."""
        assert self._relay is not None, "a broker that is ours has turns of its own"
        room = self._relay.engine_room
        has_room = asyncio.Event()
        entry = room.wait(cost_us, has_room.set)
        try:
            await has_room.wait()
        except asyncio.CancelledError:
            if has_room.is_set():
                room.leave(cost_us)
            else:
                room.give_up(entry)
            raise

    async def versions(self) -> Served:
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

    def in_portions(self, entries: int) -> AbstractAsyncContextManager[None]:
        """One request of the instance at a time on this worker. Entering raises: ConnectionStop."""
        return self._served.portions.turn(entries)

    async def look_up_topics(self, topic_ids: Collection[UUID]) -> None:
        """Ask whose these are; what is found is in `topic_ids` then. Raises: ConnectionStop."""
        known = self._served.topic_ids
        async with self._served.topic_lookups:
            asked = known.to_ask(topic_ids, self._now_ms())
            if not asked:
                return  # somebody else's request has asked meanwhile
            with _reached():
                found = await self._backend.topic_names(self._served.instance_id, asked)
            known.learn(found.items())
            known.not_found(asked, self._now_ms())

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
            return await self._served.partition_counts.ask(self._count_partitions)

    async def _count_partitions(self) -> dict[str, int]:
        """Asked under the gateway's own name: a broker that is not ours holds no instance to it."""
        served = self._served
        counts = await self._backend.partition_counts(served.instance_id, served.partitions_counted)
        served.partitions_counted = sum(counts.values())
        if self._relay is not None:
            self._spends(of_listing_us(served.partitions_counted))
        return counts

    async def partitions_of(self, names: Collection[str]) -> dict[str, int]:
        """Partitions of those of these topics that are there. Raises: ConnectionStop."""
        with _reached():
            return await self._backend.partitions_of(self._served.instance_id, names)
