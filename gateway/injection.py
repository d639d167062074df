"""Carries out what `injected_faults` decides for one connection: holds back, resets, says what is refused
(ADR 30). Handlers with `on_fault` answer what is refused.

A request that is held back stays unread in front of its connection, of which no more is read meanwhile: a
fault holds no memory that back-pressure does not hold anyhow.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from contracts.injected_faults import FaultKind
from gateway.apis import Mode
from gateway.call import Call
from gateway.causes import DisconnectCause
from gateway.injected_faults import LEADER_APIS, HeldSequences, Sent
from gateway.stops import ConnectionStop
from runtime.clock import monotonic_ms
from wire.batch import HEADER_SIZE, MAGIC_V2, NO_PRODUCER_ID, parse_header

if TYPE_CHECKING:
    from gateway.connection import Connection
    from gateway.served import ServedInstance


HELD_BACK_BYTES_MAX: Final = 64 * 1024 * 1024
"""What injected faults keep of an instance's requests on one worker; what would be more is not held back."""


class ConnectionFaults:
    """What faults have left behind on one connection."""

    __slots__ = ("held", "held_back_bytes", "muted_until_ms", "released_at_bytes")

    def __init__(self) -> None:
        self.held = HeldSequences()
        self.held_back_bytes = 0
        self.muted_until_ms = 0
        self.released_at_bytes = -1
        """Up to here the client's bytes have waited: what came with them came as early."""

    @property
    def holds_back(self) -> bool:
        """Whether the next request waits."""
        return self.held_back_bytes > 0

    def hold(self, served: "ServedInstance", size_bytes: int) -> bool:
        """Keep so much of what was read waiting; False: the instance has too much waiting."""
        if served.held_back_bytes + size_bytes > HELD_BACK_BYTES_MAX:
            return False
        self.held_back_bytes = size_bytes
        served.held_back_bytes += size_bytes
        return True

    def release(self, served: "ServedInstance") -> None:
        """Nothing waits any more."""
        served.held_back_bytes -= self.held_back_bytes
        self.held_back_bytes = 0


def _of(conn: "Connection") -> ConnectionFaults:
    if conn.requests.faults is None:
        conn.requests.faults = ConnectionFaults()
    return conn.requests.faults


def holds_back(conn: "Connection", api_key: int, read_bytes: int) -> bool:
    """Whether the next request has to wait, with all that was read behind it; it is looked at again then."""
    faults, marks, now_ms = conn.served.faults, _of(conn), monotonic_ms()
    assert faults is not None
    if marks.released_at_bytes != conn.bytes_in:
        wait_ms = max(faults.delay_ms(api_key, now_ms), marks.muted_until_ms - now_ms)
        if wait_ms > 0 and marks.hold(conn.served, read_bytes):
            conn.wait_for(_wait(conn, marks, wait_ms))
            return True
    throttle_ms = faults.throttle_ms(now_ms)
    if throttle_ms:
        faults.count(FaultKind.THROTTLING)
        marks.muted_until_ms = now_ms + throttle_ms
    return False


async def _wait(conn: "Connection", marks: ConnectionFaults, wait_ms: int) -> None:
    """Until the time is over, or a fault ends or begins: who ends one does not wait for it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_ms / 1000):
            await conn.served.faults_changed.wait()
    marks.muted_until_ms = 0
    marks.released_at_bytes = conn.bytes_in
    marks.release(conn.served)


def is_looked_into(call: Call, mode: Mode) -> bool:
    """Whether the request may be refused, for which it has to be decoded.

    Raises: ConnectionStop when its connection is reset at once.
    """
    faults = call.served.faults
    assert faults is not None
    if faults.resets(monotonic_ms()):
        # The answer of a Fetch may leave before all of it is here.
        if mode in (Mode.LOCAL, Mode.FETCH) or not faults.loses_the_answer():
            raise ConnectionStop(DisconnectCause.FAULT_INJECTED)
        call.exchange.taker = _lose
    return faults.refuses and call.api_key in LEADER_APIS


def _lose(_answer: bytes) -> None:
    raise ConnectionStop(DisconnectCause.FAULT_INJECTED)


def refusal_of_all(call: Call) -> ErrorCode | None:
    """What is answered for the whole request instead of passing it on."""
    faults = call.served.faults
    assert faults is not None
    return faults.refusal(call.api_key, monotonic_ms())


def produce_errors(call: Call, request: Any) -> dict[tuple[str, int], ErrorCode]:
    """What is answered for some of a Produce, by topic and partition.

    Raises: ConnectionStop when more is refused than can be kept account of.
    """
    faults, held, now_ms = call.served.faults, _of(call.conn).held, monotonic_ms()
    assert faults is not None
    of_request = refusal_of_all(call)
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records or b""
            sent, sequence = _sent(topic.name, partition.index, records)
            follows = None if sent is None else held.error(sent, sequence)
            error_code = of_request or follows
            if error_code is None and faults.is_too_large(len(records), now_ms):
                error_code = ErrorCode.message_too_large
            if error_code is None:
                continue
            errors[topic.name, partition.index] = error_code
            if sent is not None and follows is None and not held.hold(sent, sequence, error_code):
                raise ConnectionStop(DisconnectCause.FAULT_INJECTED, "too many batches were refused")
    return errors


def _sent(topic: str, partition: int, records: bytes) -> tuple[Sent | None, int]:
    """Of an idempotent producer: who sent the batch and its sequence. Whether it is well made is the
    broker's to say."""
    if len(records) < HEADER_SIZE:
        return None, 0
    header = parse_header(records)
    if header.magic != MAGIC_V2 or header.producer_id == NO_PRODUCER_ID:
        return None, 0
    return Sent(header.producer_id, header.producer_epoch, topic, partition), header.base_sequence
