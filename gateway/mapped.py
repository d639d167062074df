"""Requests and replies that are decoded: checked by a handler, rewritten by schema, encoded."""

import struct
from collections.abc import Coroutine
from functools import lru_cache
from time import monotonic_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from gateway.apis import Row
from gateway.call import Answer, Call, Forward, Later, Outcome
from gateway.injection import is_looked_into
from gateway.ordering import Exchange
from runtime.clock import monotonic_ms
from runtime.durations import observe
from wire.api_table import ApiKey
from wire.codec import (
    decode,
    decode_response,
    encode,
    framed_response,
    is_flexible,
    parse_request_header,
    request_class,
)
from wire.framing import Buffer
from wire.request_bounds import bound_of
from wire.rewrite import rewrite_request, rewrite_response
from wire.throttle_time import raised

if TYPE_CHECKING:
    from gateway.connection import Connection

_HEAD: Final = struct.Struct(">hhih")
_I32: Final = struct.Struct(">i")
_DECODING_WORK: Final = 8
_WORK_BYTES: Final = 512
_COSTLY_BYTES: Final = 4096
_METADATA: Final = int(ApiKey.METADATA)


def decoding_work(size_bytes: int) -> int:
    """What a frame costs that is decoded and encoded again, one that is edited in place costing one."""
    return _DECODING_WORK + size_bytes // _WORK_BYTES


@lru_cache(maxsize=64)
def _handler(row: Row) -> ModuleType | None:
    return row.load_handler()


def take_request(
    conn: "Connection", row: Row, frame: memoryview, out: list[Buffer]
) -> Coroutine[Any, Any, None] | None:
    """Handle one whole request; `out` gets what goes up. A coroutine is answered when it has to wait.

    Raises: ConnectionStop, MalformedFrame, NameFault.
    """
    body = frame[4:]
    api_key, api_version, correlation_id, _ = _HEAD.unpack_from(body)
    exchange = Exchange(api_key, api_version, correlation_id, monotonic_ns(), conn.requests.trace)
    exchange.frame_bytes = len(frame)
    handler = _handler(row)
    call = Call(conn, exchange)
    faults = conn.served.faults
    if faults is not None and faults.decodes and is_looked_into(call, row.mode):
        head, request = _decoded(exchange, body)
        assert handler is not None, "it answers what only leaders do"
        refused = handler.on_fault(call, request)
        if refused is not None:
            exchange.handler = _of_responses(handler)
            return _later(conn, exchange, head, refused)
    before_decoding = getattr(handler, "take_frame", None)
    if before_decoding is not None and before_decoding(call, frame, out):
        return None
    head, request = _decoded(exchange, body)
    if exchange.trace is not None:
        exchange.trace.decoded(request)
    exchange.handler = _of_responses(handler)
    on_request = getattr(handler, "on_request", None)
    outcome = Forward(request) if on_request is None else on_request(call, request)
    if isinstance(outcome, Coroutine):
        return _later(conn, exchange, head, outcome)
    _settle(conn, exchange, head, outcome, out)
    return None


def _of_responses(handler: ModuleType | None) -> ModuleType | None:
    return handler if hasattr(handler, "on_response") else None


def _decoded(exchange: Exchange, body: memoryview) -> tuple[bytes, Any]:
    """(the header as it goes up, the request). Unknown tagged fields do not get past this."""
    flexible = is_flexible(exchange.api_key, exchange.api_version)
    frame = bytes(body)
    header = parse_request_header(frame, flexible)
    exchange.client_id = header.client_id
    client_id_bytes = _HEAD.unpack_from(frame)[3]
    head = frame[: 10 + max(client_id_bytes, 0)] + (b"\0" if flexible else b"")
    message_class = request_class(exchange.api_key, exchange.api_version)
    entries_max = bound_of(exchange.api_key).entries_max
    return head, decode(message_class, frame, header.body_at, entries_max=entries_max)


async def _later(conn: "Connection", exchange: Exchange, head: bytes, outcome: Later) -> None:
    out: list[Buffer] = []
    _settle(conn, exchange, head, await outcome, out)
    if out and not conn.closed:
        conn.dialled().send(out)


def _settle(conn: "Connection", exchange: Exchange, head: bytes, outcome: Outcome, out: list[Buffer]) -> None:
    """Do what the handler decided."""
    if isinstance(outcome, Forward):
        body = encode(rewrite_request(outcome.request, conn.served.scope))
        if exchange.trace is not None:
            exchange.trace.forwarded(out)
        conn.queue.forwarded(exchange)
        out.append(_I32.pack(len(head) + len(body)) + head + body)
    elif isinstance(outcome, Answer):
        answer_locally(conn, exchange, outcome.response)


def answer_locally(conn: "Connection", exchange: Exchange, response: Any) -> None:
    """Reply ourselves, when it is this request's turn."""
    reply_locally(conn, exchange, framed_response(response, exchange.correlation_id))


def reply_locally(conn: "Connection", exchange: Exchange, frame: bytes) -> None:
    """The same with a frame."""
    observe(conn.worker.own_answer_times[exchange.api_key], monotonic_ns() - exchange.began_ns)
    if exchange.trace is not None:
        exchange.trace.answered()
    reply = conn.queue.answered(exchange, _throttled(conn, exchange, frame))
    if reply is not None:
        conn.send_client([reply])


def _throttled(conn: "Connection", exchange: Exchange, frame: bytes) -> bytes:
    """The reply, which says so when the instance is in debt, with what it has cost itself."""
    if not conn.turn.owed_lately and len(frame) < _COSTLY_BYTES and conn.served.faults is None:
        return frame
    throttle_ms = told_throttle_ms(conn)
    if not throttle_ms:
        return frame
    conn.worker.told_throttle_ms[exchange.api_key] += throttle_ms
    return raised(frame, exchange.api_key, exchange.api_version, throttle_ms)


def told_throttle_ms(conn: "Connection") -> int:
    """throttle_time_ms of a reply that leaves now."""
    throttle_ms = conn.worker.pacing.throttle_ms(conn.turn)
    faults = conn.served.faults
    return throttle_ms if faults is None else max(throttle_ms, faults.throttle_ms(monotonic_ms()))


def kept_reply(conn: "Connection", exchange: Exchange, frame: memoryview) -> bytes | None:
    """The tenant's form of what a broker has said before; None: it has not, or it depends on who asks."""
    if exchange.api_key != _METADATA or exchange.notes or conn.served.topic_whitelists:
        return None
    kept = conn.served.kept_answers.get(_METADATA, exchange.api_version, frame)
    return None if kept is None else _throttled(conn, exchange, kept)


def mapped_reply(conn: "Connection", exchange: Exchange, frame: memoryview) -> bytes:
    """The tenant's form of one whole reply, length prefix included both ways.

    Raises: MalformedFrame (ForeignName among them).
    """
    _, decoded = decode_response(bytes(frame[4:]), exchange.api_key, exchange.api_version)
    response = rewrite_response(decoded, conn.served.scope, conn.served.view)
    if exchange.handler is not None:
        response = exchange.handler.on_response(Call(conn, exchange), response)
    answer = framed_response(response, exchange.correlation_id)
    if exchange.api_key == _METADATA and not exchange.notes and not conn.served.topic_whitelists:
        conn.served.kept_answers.keep(_METADATA, exchange.api_version, frame, answer)
    return _throttled(conn, exchange, answer)
