"""Produce 0-13 beside the usual way, which is edited in place and never gets here: requests whose names
cannot be mapped or whose ids are not known, instances where topics have address lists, that enforce ACLs, or
that are full at brokers which do not know it, and injected faults.

An empty transactional id is INVALID_REQUEST, a name that no physical one can hold INVALID_TOPIC_EXCEPTION, a
topic whose list lacks the client TOPIC_AUTHORIZATION_FAILED, an id that is nobody's or somebody else's
UNKNOWN_TOPIC_ID. With acks=0 nothing can be answered: the
connection is closed, as Kafka does for any error of such a request.
"""

import struct
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import Records

from contracts.acls import Operation, ResourceType
from contracts.charging import ChargeRequest
from contracts.specs import FullBehaviour
from gateway.causes import DisconnectCause
from gateway.owned_topics import Decision, with_ids_known
from gateway.session.call import Answer, Call, Edited, Forward, Later, Outcome, Unanswered
from gateway.session.deps import Charges, RefusesProduce
from gateway.session.injection import produce_errors, topic_called
from gateway.stops import ConnectionStop
from gateway.topic_access import topic_fault
from traffic.verdict import Full, stall_ms
from wire.build import throttled, with_entries
from wire.codec import encode
from wire.edits import PRODUCE_BY_ID_FROM, edit_produce_request
from wire.faults import ForeignName, NameFault
from wire.hot.produce import request_growth
from wire.messages import ProduceRequest, ProduceResponse, TopicProduceData
from wire.rewrite import rewrite_request
from wire.scope import SCOPE_BYTES, STRING_BYTES_MAX
from wire.tags import skip_tags
from wire.uvarint import pack_uvarint

_IDS_FROM: Final = 3
_FLEXIBLE_FROM: Final = 9
_I16: Final = struct.Struct(">h")
_CLIENT_ID_AT: Final = 12
_WIDENED_BYTES: Final = 1
"""A length that is edited in place gets a byte wider, one that is encoded anew need not."""
_NO_RECORDS: Final = Records.parse(b"")
_NAME_BYTES_MAX: Final = STRING_BYTES_MAX - SCOPE_BYTES


def take_frame(call: Call, frame: memoryview) -> Edited | Unanswered | None:
    """Go the usual way when nothing of the request is refused after all."""
    if call.instance.full is not None or _names_transaction(call, frame):
        return None
    try:
        edit = edit_produce_request(frame, call.instance.scope, call.conversation.client_id)
    except NameFault:
        return None
    if any(map(partial(_is_refused, call), edit.topics)):
        return None
    return edit.buffers if edit.acks else Unanswered(edit.buffers)


def _is_refused(call: Call, topic: bytes) -> bool:
    """Whether a topic of the frame, by its name or its id, is nothing for this client, or is not known."""
    if call.api_version < PRODUCE_BY_ID_FROM:
        name: str | None = topic.decode(errors="replace")
    else:
        name = call.instance.topic_ids.name(UUID(bytes=topic))
    return name is None or call.refuses_topic(name, Operation.WRITE)


def _names_transaction(call: Call, frame: memoryview) -> bool:
    """Whether ACLs decide about a transactional id, too. Raises: MalformedFrame."""
    if call.instance.authority is None or call.api_version < _IDS_FROM:
        return False
    id_at = _CLIENT_ID_AT + _I16.size + max(_I16.unpack_from(frame, _CLIENT_ID_AT)[0], 0)
    if call.api_version >= _FLEXIBLE_FROM:
        id_at, _ = skip_tags(frame, id_at)
        return len(frame) <= id_at or frame[id_at] > 0
    return len(frame) < id_at + _I16.size or bool(_I16.unpack_from(frame, id_at)[0] >= 0)


def _refuses_id(call: Call, transactional_id: str | None) -> bool:
    return transactional_id is not None and call.refuses(
        ResourceType.TRANSACTIONAL_ID, transactional_id, Operation.WRITE
    )


def on_request(call: Call, request: ProduceRequest) -> Decision:
    """What is refused is charged first; whose topics ids are of is asked before."""
    if call.api_version < PRODUCE_BY_ID_FROM:
        return _decided(call, request)
    return with_ids_known(
        call, (topic.topic_id for topic in request.topic_data), partial(_decided, call, request)
    )


def _decided(call: Call, request: ProduceRequest) -> Decision:
    full = call.instance.full
    if full is not None:
        return Later(partial(_refused_as_full, call, request, full))
    return Later(partial(_passed_in_part, call, request, call.exchange.frame_bytes))


async def _refused_as_full(call: Call, request: ProduceRequest, full: Full, deps: RefusesProduce) -> Outcome:
    """Nothing is appended, as our brokers would not. `stall`: the answer waits, and all behind it."""
    stalls = full.behaviour is FullBehaviour.STALL
    error_code = ErrorCode.request_timed_out if stalls else ErrorCode.policy_violation
    charged = ChargeRequest(produce_bytes=call.exchange.frame_bytes, reason=error_code.name)
    throttle_time_ms = await deps.charge(charged)
    if request.acks == 0:
        raise ConnectionStop(DisconnectCause.ACKS_ZERO_REFUSED)
    if stalls:
        await deps.pause(stall_ms(int(request.timeout.total_seconds() * 1000)))
    entries = [_entry(topic, error_code, full.message) for topic in request.topic_data]
    return Answer(throttled(with_entries(call.response(), "responses", entries), throttle_time_ms))


async def _passed_in_part(call: Call, request: ProduceRequest, size_bytes: int, deps: Charges) -> Outcome:
    """Answer for what is refused, once it is charged, and pass on the rest. Of the frame `size_bytes` are not
    charged yet."""
    kept: list[TopicProduceData] = []
    entries: list[dict[str, object]] = []
    reason = ErrorCode.none
    for topic in request.topic_data:
        error_code = _error(call, request, topic)
        if error_code is ErrorCode.none:
            kept.append(topic)
        else:
            reason = error_code
            entries.append(_entry(topic, error_code))
    passed = replace(request, topic_data=tuple(kept))
    if not entries:
        return await _passed_whole(call, request, size_bytes, deps)
    passed_bytes = _charged_above(call, passed) if kept and request.acks != 0 else 0
    charged = ChargeRequest(produce_bytes=size_bytes - passed_bytes, reason=reason.name)
    throttle_time_ms = await deps.charge(charged)
    if request.acks == 0:
        raise ConnectionStop(DisconnectCause.ACKS_ZERO_REFUSED)
    if not kept:
        return Answer(throttled(with_entries(call.response(), "responses", entries), throttle_time_ms))
    call.exchange.notes = entries
    return Forward(passed)


async def _passed_whole(call: Call, request: ProduceRequest, size_bytes: int, deps: Charges) -> Outcome:
    """Its ids are known by now. What its client's form had more, tagged fields nobody knows, ends here."""
    ended_bytes = size_bytes - _charged_above(call, request)
    if ended_bytes > _WIDENED_BYTES:
        await deps.charge(ChargeRequest(produce_bytes=ended_bytes, reason=ErrorCode.unknown_topic_id.name))
    return Forward(request, is_answered=request.acks != 0)


def _charged_above(call: Call, request: ProduceRequest) -> int:
    """What a broker of ours charges of a request that is encoded anew. We charge the rest: what was refused,
    and what the client's form of the same had more."""
    partitions = (each for topic in request.topic_data for each in topic.partition_data)
    records = [len(each.records) for each in partitions if each.records]
    bare = replace(request, topic_data=tuple(map(_without_records, request.topic_data)))
    body_bytes = len(encode(rewrite_request(bare, call.instance.scope))) + sum(records)
    if call.api_version >= _FLEXIBLE_FROM:
        body_bytes += sum(len(pack_uvarint(size + 1)) - 1 for size in records)
    transactional_id = getattr(request, "transactional_id", None)
    growth = request_growth(call.api_version, len(request.topic_data), transactional_id)
    return 4 + call.exchange.head_bytes + body_bytes - growth


def _without_records(topic: TopicProduceData) -> TopicProduceData:
    bare = (replace(each, records=each.records and _NO_RECORDS) for each in topic.partition_data)
    return replace(topic, partition_data=tuple(bare))


def _error(call: Call, request: ProduceRequest, topic: TopicProduceData) -> ErrorCode:
    if getattr(request, "transactional_id", None) == "":
        return ErrorCode.invalid_request
    if _refuses_id(call, getattr(request, "transactional_id", None)):
        return ErrorCode.transactional_id_authorization_failed
    if hasattr(topic, "name") and len(topic.name.encode()) > _NAME_BYTES_MAX:
        return ErrorCode.invalid_topic_exception
    return topic_fault(call, topic, Operation.WRITE) or ErrorCode.none


def _entry(topic: TopicProduceData, error_code: ErrorCode, message: str | None = None) -> dict[str, object]:
    """A response's entry of a topic that is refused; versions that have no message leave it out."""
    called = {"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}
    return {
        **called,
        "partition_responses": [
            {
                "index": partition.index,
                "error_code": error_code,
                "base_offset": -1,
                "log_start_offset": -1,
                "error_message": message,
            }
            for partition in topic.partition_data
        ],
    }


def on_fault(call: Call, request: ProduceRequest) -> Later | None:
    """An injected fault may want some of it refused; None: it goes its way."""
    errors = produce_errors(call, request)
    return Later(partial(_refused_by_fault, call, request, errors)) if errors else None


async def _refused_by_fault(
    call: Call, request: ProduceRequest, errors: dict[tuple[str, int], ErrorCode], deps: Charges
) -> Outcome:
    entries: list[dict[str, object]] = []
    kept: list[TopicProduceData] = []
    refused_bytes = 0
    for topic in request.topic_data:
        passes = []
        for partition in topic.partition_data:
            error_code = errors.get((topic_called(topic), partition.index))
            if error_code is None:
                passes.append(partition)
                continue
            refused = replace(topic, partition_data=(partition,))
            refused_bytes += len(partition.records or b"")
            entries.append(_entry(refused, error_code))
        if passes:
            kept.append(replace(topic, partition_data=tuple(passes)))
    size_bytes = refused_bytes if kept and request.acks != 0 else call.exchange.frame_bytes
    reason = next(iter(errors.values())).name
    throttle_time_ms = await deps.charge(ChargeRequest(produce_bytes=size_bytes, reason=reason))
    if request.acks == 0:
        raise ConnectionStop(DisconnectCause.FAULT_INJECTED)
    if not kept:
        return Answer(throttled(with_entries(call.response(), "responses", entries), throttle_time_ms))
    passed = replace(request, topic_data=tuple(kept))
    outcome = await _passed_in_part(call, passed, call.exchange.frame_bytes - size_bytes, deps)
    if isinstance(outcome, Answer):
        return Answer(with_entries(outcome.response, "responses", entries))
    call.exchange.notes = [*(call.exchange.notes or ()), *entries]
    return outcome


def on_response(call: Call, response: ProduceResponse) -> ProduceResponse:
    """Add what was refused; nothing is told of another's topics."""
    if call.api_version >= PRODUCE_BY_ID_FROM:
        ids = call.instance.topic_ids
        if any(ids.name(topic.topic_id) is None for topic in response.responses):
            raise ForeignName("a topic id of another instance in a response")
    return with_entries(response, "responses", call.exchange.notes or ())
