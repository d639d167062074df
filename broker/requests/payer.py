"""Who pays for a connection: the instance that its gateway named at login (docs/quota.md: Throttling).

The first frame of each kind waits, unread, until its instance has paid for what was charged before; its own
size is charged before it is carried, so that connections opened at one moment come one after the other. Later
frames are carried first and keep the channel unread afterwards.
"""

from enum import IntEnum
from typing import Final

from broker.requests.throttling import Debt, Mute, Reservation
from contracts.quota import Direction
from traffic.flow import Flow
from traffic.point import TrafficPoint

_FREE: Final = (0, None)
FREE_FETCH_REQUEST_BYTES: Final = 16 * 1024
"""A Fetch request costs nothing beside its answer up to here: what names some hundred partitions."""


class Charged(IntEnum):
    """The kinds of frames that are charged by their bytes, each to a bucket of its own."""

    PRODUCE = 1
    CONSUME = 2
    """By the answer's bytes."""
    INTERNAL = 4
    """Requests that make a coordinator write into internal topics."""


_CONSUME: Final = int(Charged.CONSUME)
_ALL: Final = Charged.PRODUCE | Charged.CONSUME | Charged.INTERNAL


class Payer:
    """The instance behind one connection, and which of its buckets this connection has waited for."""

    __slots__ = ("_traffic", "_unpaid", "instance_id", "paid_key", "reservation")

    def __init__(self, traffic: TrafficPoint, instance_id: str) -> None:
        self._traffic = traffic
        self._unpaid: int = _ALL
        """Kinds of which no frame has come."""
        self.instance_id: Final = instance_id
        self.paid_key: int | None = None
        """The API of which frames came last: they need not be looked at again."""
        self.reservation: Reservation | None = None
        """For the frame that is to be read next."""

    @property
    def is_new(self) -> bool:
        """Whether no frame that is charged has come yet."""
        return self._unpaid == _ALL

    @property
    def has_fetched(self) -> bool:
        """Whether a Fetch was answered, or waits to be."""
        return not self._unpaid & _CONSUME

    def flow(self, charged: Charged) -> Flow:
        """The bucket of one kind."""
        if charged is Charged.INTERNAL:
            return self._traffic.internal(self.instance_id)
        direction = Direction.PRODUCE if charged is Charged.PRODUCE else Direction.CONSUME
        return self._traffic.charged_flow(self.instance_id, direction)

    def reserve(self, charged: Charged, frame_bytes: int, now_ms: int) -> Reservation | None:
        """Charge the first frame of a kind before it is carried; None for later ones, and without limit."""
        if not self._unpaid & charged:
            return None
        self._unpaid &= ~charged
        flow = self.flow(charged)
        ticket = flow.reserve(frame_bytes, now_ms)
        return None if ticket is None else Reservation(flow, frame_bytes, ticket)

    def admit(self, charged: Charged, frame_bytes: int, now_ms: int) -> Mute | None:
        """A request's head has come: what it must wait for before more of it is read, if anything."""
        if not self._unpaid & charged or charged is Charged.CONSUME or self.reservation is not None:
            return None  # a Fetch waits when its answer's size is known
        self.reservation = self.reserve(charged, frame_bytes, now_ms)
        if self.reservation is None or self.reservation.remaining_ms(now_ms) == 0:
            return None
        return self.reservation.remaining_ms

    def take_reservation(self) -> Reservation | None:
        """The frame it was made for has come whole."""
        reservation, self.reservation = self.reservation, None
        return reservation

    def charge_produce(
        self, size_bytes: int, reservation: Reservation | None, now_ms: int
    ) -> tuple[int, Mute | None]:
        """Charge a Produce request that was carried: throttle_time_ms, and what keeps the channel unread."""
        if reservation is not None:
            return _throttled(reservation.carry(size_bytes, now_ms), now_ms)
        if not self._traffic.charge_produce(self.instance_id, size_bytes, now_ms):
            return _FREE
        flow = self.flow(Charged.PRODUCE)
        return _throttled(Debt(flow, flow.ticket), now_ms)

    def charge_fetch(
        self, size_bytes: int, reservation: Reservation | None, now_ms: int
    ) -> tuple[int, Mute | None]:
        """The same for a Fetch answer that leaves now."""
        if reservation is not None:
            return _throttled(reservation.carry(size_bytes, now_ms), now_ms)
        if not self._traffic.charge_fetch(self.instance_id, size_bytes, now_ms):
            return _FREE
        flow = self.flow(Charged.CONSUME)
        return _throttled(Debt(flow, flow.ticket), now_ms)

    def charge_answered(self, charged: Charged, size_bytes: int, now_ms: int) -> tuple[Debt | None, Debt]:
        """Charge what a gateway carried and answers itself: what the first of a connection waits for, and
        what is owed behind it."""
        flow = self.flow(charged)
        before = Debt(flow, flow.ticket) if self._unpaid & charged else None
        self._unpaid &= ~charged
        flow.charge(size_bytes, now_ms)
        return before, Debt(flow, flow.ticket)

    def charge_request(self, size_bytes: int, reservation: Reservation | None, now_ms: int) -> None:
        """Charge a request to a coordinator; what is written for it comes later (`charge_internal`)."""
        if reservation is not None:
            reservation.release(now_ms)
        self._traffic.charge_internal(self.instance_id, size_bytes, now_ms)

    def internal_debt(self, now_ms: int) -> tuple[int, Mute | None]:
        """What a coordinator's answer says, and what then keeps the channel unread."""
        flow = self.flow(Charged.INTERNAL)
        return _throttled(Debt(flow, flow.ticket), now_ms)

    def charge_fetch_request(self, size_bytes: int, now_ms: int) -> None:
        """A request of very many partitions, above FREE_FETCH_REQUEST_BYTES, is charged beside its answer."""
        self.flow(Charged.CONSUME).spend(size_bytes, now_ms)

    def refuse(self, reason: str) -> None:
        """Count a refused request."""
        self._traffic.refuse(self.instance_id, reason)

    def withdraw(self, now_ms: int) -> None:
        """The frame a reservation was made for does not come."""
        reservation = self.take_reservation()
        if reservation is not None:
            reservation.release(now_ms)

    def cut(self, charged: Charged, received_bytes: int, reason: str, now_ms: int) -> None:
        """A frame ends the connection, whole or in part: what came of it is charged all the same."""
        self.withdraw(now_ms)
        self.flow(charged).spend(received_bytes, now_ms)
        self.refuse(reason)


def _throttled(debt: Debt, now_ms: int) -> tuple[int, Mute | None]:
    return debt.throttle_time_ms(now_ms), debt.mute(now_ms)
