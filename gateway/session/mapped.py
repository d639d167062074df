"""Requests and replies that are decoded: checked by a handler, rewritten by schema, encoded."""

import struct
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final

from gateway.apis import Row, handler_named
from gateway.rules.client_metrics import cut
from gateway.session.call import Answer, Call, Encoded, Forward, ForwardBody, Later, Pending, Unanswered
from gateway.session.conversation import Conversation
from gateway.session.deps import EntersEngine
from gateway.session.injection import is_looked_into
from gateway.session.ordering import Exchange, Trace
from traffic.engine_time import of_request
from traffic.relayed import Place, RelayedFlows
from wire.api_table import ApiKey
from wire.codec import (
    decode,
    decode_response,
    encode,
    framed_response,
    is_flexible,
    milliseconds,
    parse_request_header,
    request_class,
)
from wire.edits import EDITED
from wire.framing import Buffer
from wire.request_bounds import bound_of
from wire.rewrite import rewrite_request, rewrite_response
from wire.throttle_time import raised

_HEAD: Final = struct.Struct(">hhih")
_REPLY_HEAD: Final = struct.Struct(">ii")
_I32: Final = struct.Struct(">i")
_DECODING_WORK: Final = 8
_WORK_BYTES: Final = 512
_COSTLY_BYTES: Final = 4096
_METADATA: Final = int(ApiKey.METADATA)
_NAMES_MEMBERS: Final = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
"""Members of groups are known by the client ids of these: they keep the client's own."""


def decoding_work(size_bytes: int) -> int:
    """What a frame costs that is decoded and encoded again, one that is edited in place costing one."""
    return _DECODING_WORK + size_bytes // _WORK_BYTES


def take_request(
    conversation: Conversation,
    row: Row,
    frame: memoryview,
    trace: Trace | None,
    up: list[Buffer],
    down: list[Buffer],
) -> Pending | None:
    """Handle one whole request; `up` and `down` get what goes to the broker and to the client. A pending one
    is answered when it has to wait.

    Raises: ConnectionStop, MalformedFrame, NameFault.
    """
    body = frame[4:]
    api_key, api_version, correlation_id, _ = _HEAD.unpack_from(body)
    exchange = Exchange(api_key, api_version, correlation_id, conversation.now_ns, trace)
    exchange.frame_bytes = len(frame)
    handler = handler_named(row.handler)
    call = Call(conversation, exchange)
    faults = conversation.instance.faults
    if faults is not None and faults.decodes and is_looked_into(call, row.mode):
        head, request = _decoded(exchange, body, conversation.client_id)
        assert handler is not None, "it answers what only leaders do"
        refused: Later | None = handler.on_fault(call, request)
        if refused is not None:
            exchange.handler = _of_responses(handler)
            return Pending(exchange, head, refused)
    before_decoding = getattr(handler, "take_frame", None)
    if before_decoding is not None:
        outcome = before_decoding(call, frame)
        if type(outcome) is list:
            _go_up(conversation, exchange, outcome, up)
            return None
        if outcome is not None:
            return settle(conversation, exchange, b"", outcome, up, down)
    head, request = _decoded(exchange, body, conversation.client_id)
    if not conversation.client_name:  # who asks for no versions says it here
        conversation.client_name = cut(exchange.client_id)
    if trace is not None:
        trace.decoded(request)
    exchange.handler = _of_responses(handler)
    on_request = getattr(handler, "on_request", None)
    outcome = Forward(request) if on_request is None else on_request(call, request)
    return settle(conversation, exchange, head, outcome, up, down)


def _of_responses(handler: ModuleType | None) -> ModuleType | None:
    return handler if hasattr(handler, "on_response") else None


def _decoded(exchange: Exchange, body: memoryview, client_id: bytes | None) -> tuple[bytes, Any]:
    """(the header as it goes up, the request). Unknown tagged fields do not get past this. `client_id` is
    what requests go up with, where it is not the client's."""
    flexible = is_flexible(exchange.api_key, exchange.api_version)
    frame = bytes(body)
    header = parse_request_header(frame, flexible)
    exchange.client_id = header.client_id
    client_id_bytes = _HEAD.unpack_from(frame)[3]
    field = frame[8 : 10 + max(client_id_bytes, 0)]
    if client_id is not None and exchange.api_key not in _NAMES_MEMBERS:
        field = client_id
    head = frame[:8] + field + (b"\0" if flexible else b"")
    exchange.head_bytes = len(head)
    message_class = request_class(exchange.api_key, exchange.api_version)
    entries_max = bound_of(exchange.api_key).tenant_entries_max
    return head, decode(message_class, frame, header.body_at, entries_max=entries_max)


def settle(
    conversation: Conversation,
    exchange: Exchange,
    head: bytes,
    outcome: Unanswered | Forward | ForwardBody | Answer | Encoded | Later,
    up: list[Buffer],
    down: list[Buffer],
) -> Pending | None:
    """Do what the handler decided; `head` is the request's header as it goes up."""
    if isinstance(outcome, Forward | ForwardBody):
        place = conversation.place
        if place is not None and exchange.api_key not in EDITED:
            if not exchange.engine_us:
                exchange.engine_us = cost_us = place.flows.engine_room.cost_us(exchange.api_key)
                if cost_us and not place.enters_engine(cost_us):
                    return Pending(exchange, head, Later(partial(_with_room, place, cost_us, outcome)))
            _engine_works(conversation, place.flows, exchange.api_key)
        if isinstance(outcome, ForwardBody):
            body, go_up = outcome.body, _go_up
        else:
            body = encode(rewrite_request(outcome.request, conversation.instance.scope))
            go_up = _go_up if outcome.is_answered else _go_up_unanswered
        go_up(conversation, exchange, (_I32.pack(len(head) + len(body)) + head + body,), up)
    elif isinstance(outcome, Answer):
        _note_wait(conversation, outcome.response)
        answer_here(conversation, exchange, framed_response(outcome.response, exchange.correlation_id), down)
        if outcome.ends is not None:
            raise outcome.ends
    elif isinstance(outcome, Encoded):
        size = _REPLY_HEAD.size - 4 + len(outcome.body)
        answer_here(
            conversation, exchange, _REPLY_HEAD.pack(size, exchange.correlation_id) + outcome.body, down
        )
    elif isinstance(outcome, Unanswered):
        _go_up_unanswered(conversation, exchange, outcome.buffers, up)
    else:
        return Pending(exchange, head, outcome)
    return None


async def _with_room(
    place: Place, cost_us: int, outcome: Forward | ForwardBody, deps: EntersEngine
) -> Forward | ForwardBody:
    """The same, once the broker has less before it."""
    await deps.engine_room(cost_us)
    place.engine_entered(cost_us)
    return outcome


def _engine_works(conversation: Conversation, relay: RelayedFlows, api_key: int) -> None:
    """A broker that is not ours has work: what its own quota sees is reckoned, the rest is paid here."""
    time = of_request(api_key)
    relay.works(time.threads_us)
    if time.coordinator_us:
        conversation.host.spends(time.coordinator_us)


def _go_up(
    conversation: Conversation, exchange: Exchange, buffers: Sequence[Buffer], up: list[Buffer]
) -> None:
    if exchange.trace is not None:
        exchange.trace.forwarded(up, takes_traces=conversation.takes_traces)
    conversation.queue.forwarded(exchange)
    up += buffers


def _go_up_unanswered(
    conversation: Conversation, exchange: Exchange, buffers: Sequence[Buffer], up: list[Buffer]
) -> None:
    conversation.sent_unanswered = True
    if exchange.trace is not None:
        exchange.trace.forwarded(up, takes_traces=conversation.takes_traces)
        exchange.trace.answered()
    up += buffers


def answer_here(conversation: Conversation, exchange: Exchange, frame: bytes, down: list[Buffer]) -> None:
    """Reply ourselves, when it is this request's turn."""
    conversation.host.answered_here(exchange)
    if exchange.trace is not None:
        exchange.trace.answered()
    reply = conversation.queue.answered(exchange, _throttled(conversation, exchange, frame))
    if reply is not None:
        down.append(reply)


def _throttled(conversation: Conversation, exchange: Exchange, frame: bytes) -> bytes:
    """The reply, which says so when the instance is in debt, with what it has cost itself."""
    instance = conversation.instance
    if not instance.turn.owed_lately and len(frame) < _COSTLY_BYTES and instance.faults is None:
        return frame
    throttle_ms = conversation.host.throttle_ms(exchange.api_key)
    conversation.tells_to_wait(throttle_ms)
    return raised(frame, exchange.api_key, exchange.api_version, throttle_ms) if throttle_ms else frame


def _note_wait(conversation: Conversation, response: object) -> None:
    """An answer may say that its client is to wait."""
    told = getattr(response, "throttle_time", None)
    if told:
        conversation.tells_to_wait(milliseconds(told))


def kept_reply(conversation: Conversation, exchange: Exchange, frame: memoryview) -> bytes | None:
    """The tenant's form of what a broker has said before; None: it has not, or it depends on who asks."""
    instance = conversation.instance
    if exchange.api_key != _METADATA or exchange.notes or instance.tells_clients_apart:
        return None
    kept = instance.kept_answers.get(conversation.entrance, _METADATA, exchange.api_version, frame)
    return None if kept is None else _throttled(conversation, exchange, kept)


def mapped_reply(conversation: Conversation, exchange: Exchange, frame: memoryview) -> bytes:
    """The tenant's form of one whole reply, length prefix included both ways.

    Raises: MalformedFrame (ForeignName among them).
    """
    instance = conversation.instance
    _, decoded = decode_response(bytes(frame[4:]), exchange.api_key, exchange.api_version)
    response = rewrite_response(decoded, instance.scope, instance.views[conversation.entrance])
    if exchange.handler is not None:
        response = exchange.handler.on_response(Call(conversation, exchange), response)
    _note_wait(conversation, response)
    answer = framed_response(response, exchange.correlation_id)
    if exchange.api_key == _METADATA and not exchange.notes and not instance.tells_clients_apart:
        instance.kept_answers.keep(conversation.entrance, _METADATA, exchange.api_version, frame, answer)
    return _throttled(conversation, exchange, answer)
