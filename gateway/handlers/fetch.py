"""Fetch 0-18: names edited in place, or (13) ids looked up; fetch sessions and topics with address lists.

Session ids are guessable numbers without an owner in Apache Kafka, so only ids that this connection received
go up. An unknown id goes up as id 0, which with an epoch above 0 is FETCH_SESSION_ID_NOT_FOUND, after which
clients fetch in full. Instances with topic lists or ACLs are served without sessions: in an
incremental fetch a topic that was refused meanwhile would not be named any more.

Ids of topics go up when they are known to be the instance's; those that are not are asked for, and what is
nobody's or somebody else's is answered UNKNOWN_TOPIC_ID here. A session cannot have them, so its client is
made to fetch in full, and gets that answer without one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64
from kio.static.protocol import Payload

from contracts.acls import Operation
from contracts.charging import ChargeRequest
from gateway.owned_topics import Decision, with_ids_known
from gateway.session.call import Answer, Call, Edited, Forward, Later, Outcome
from gateway.session.deps import Charges
from gateway.session.injection import refusal_of_all
from gateway.topic_access import topic_fault
from wire.api_table import ApiKey
from wire.build import build, entry_class, throttled
from wire.codec import encode, framed_response, response_class
from wire.edits import FETCH_BY_ID_FROM, AddedTopics, edit_fetch_request, fetch_session
from wire.messages import FetchRequest, FetchTopic

_FULL_FETCH: Final = 0
_NO_SESSION: Final = i32(-1)
_CONSUMER: Final = BrokerId(-1)
_NO_EPOCH: Final = i64(-1)
_Refused = tuple[FetchTopic, ErrorCode]


def take_frame(call: Call, frame: memoryview) -> Edited | None:
    """The usual way: sessions checked, names edited, nothing decoded. None when topics have lists, or ids
    that are not known."""
    session_id, epoch = fetch_session(frame)
    if call.instance.tells_clients_apart and epoch in (_FULL_FETCH, _NO_SESSION):
        return None
    replacement = None if _owns(call, session_id) else 0
    scope, client_id = call.instance.scope, call.conversation.client_id
    edit = edit_fetch_request(frame, scope, session_id=replacement, client_id=client_id)
    if call.api_version >= FETCH_BY_ID_FROM and not call.instance.topic_ids.knows(edit.topics):
        return None
    if epoch == _NO_SESSION:
        _close(call, session_id)
    return edit.buffers


def _owns(call: Call, session_id: int) -> bool:
    """Whether a request of this session may go up as one. With topics that have lists, none may: the backend
    says that there is no such session."""
    owned = call.conversation.fetch_sessions
    if call.instance.tells_clients_apart:
        return False
    return session_id == 0 or (owned is not None and session_id in owned)


def _close(call: Call, session_id: int) -> None:
    """The request closes its session; the id may become somebody else's."""
    owned = call.conversation.fetch_sessions
    if owned is not None:
        owned.discard(session_id)


def on_request(call: Call, request: FetchRequest) -> Decision:
    """Topics with lists: leave out what this client may not read, and ask for no session. Ids: learn whose
    they are before."""
    if call.api_version < FETCH_BY_ID_FROM:
        return _decided(call, request)
    return with_ids_known(call, _ids(request), partial(_decided, call, request))


def _ids(request: FetchRequest) -> Iterator[UUID | None]:
    for topics in (request.topics, request.forgotten_topics_data):
        for topic in topics:
            yield topic.topic_id


def _as_consumer(request: FetchRequest) -> FetchRequest:
    """A client's request, for whomever it says that it asks: a replica reads what consumers may not yet."""
    if hasattr(request, "replica_state"):
        state = replace(request.replica_state, replica_id=_CONSUMER, replica_epoch=_NO_EPOCH)
        return replace(request, replica_state=state)
    return replace(request, replica_id=_CONSUMER)


def _decided(call: Call, request: FetchRequest) -> Decision:
    request = _as_consumer(request)
    kept: list[FetchTopic] = []
    refused: list[_Refused] = []
    for topic in request.topics:
        fault = topic_fault(call, topic, Operation.READ)
        if fault is None:
            kept.append(topic)
        else:
            refused.append((topic, fault))
    session_id, epoch = _session(request)
    is_incremental = epoch not in (_FULL_FETCH, _NO_SESSION)
    is_own = not refused and _knows_forgotten(call, request)
    if is_own and (is_incremental or not call.instance.tells_clients_apart):
        if not _owns(call, session_id):
            request = replace(request, session_id=i32(0))
        if epoch == _NO_SESSION:
            _close(call, session_id)
        return Forward(request)
    if is_incremental:
        error = ErrorCode.fetch_session_id_not_found
        return Later(partial(_charged_answer, call, call.response(error_code=error), error))
    request = replace(request, topics=tuple(kept))
    if hasattr(request, "session_id"):
        request = replace(request, session_id=i32(0), session_epoch=_NO_SESSION, forgotten_topics_data=())
    return Later(partial(_charged, call, request, refused)) if refused else Forward(request)


def _session(request: FetchRequest) -> tuple[int, int]:
    return getattr(request, "session_id", 0), getattr(request, "session_epoch", _NO_SESSION)


def _knows_forgotten(call: Call, request: FetchRequest) -> bool:
    if call.api_version < FETCH_BY_ID_FROM:
        return True
    ids = call.instance.topic_ids
    return all(ids.name(topic.topic_id) is not None for topic in request.forgotten_topics_data)


async def _charged(call: Call, request: FetchRequest, refused: list[_Refused], deps: Charges) -> Outcome:
    """Answer for what is refused, once that is charged, and pass on the rest."""
    error_code = refused[0][1]
    if not request.topics:
        response = call.response(responses=[_answered(topic, fault) for topic, fault in refused])
        return await _charged_answer(call, response, error_code, deps)
    call.exchange.notes = _added(call, refused)
    charged = ChargeRequest(consume_bytes=len(call.exchange.notes.encoded), reason=error_code.name)
    await deps.charge(charged)
    return Forward(request)


def on_fault(call: Call, request: FetchRequest) -> Later | None:
    """An injected fault may want it refused. A session's request does not say which partitions it is for: its
    client is made to ask in full."""
    error_code = refusal_of_all(call)
    if error_code is None:
        return None
    if getattr(request, "session_epoch", 0) > 0:
        error_code = ErrorCode.fetch_session_id_not_found
        return Later(partial(_charged_answer, call, call.response(error_code=error_code), error_code))
    if not request.topics:
        return None
    entries = [_answered(topic, error_code) for topic in request.topics]
    return Later(partial(_charged_answer, call, call.response(responses=entries), error_code))


async def _charged_answer(call: Call, response: Payload, error_code: ErrorCode, deps: Charges) -> Outcome:
    size_bytes = len(framed_response(response, call.exchange.correlation_id))
    charged = ChargeRequest(consume_bytes=size_bytes, reason=error_code.name)
    return Answer(throttled(response, await deps.charge(charged)))


def _added(call: Call, refused: list[_Refused]) -> AddedTopics:
    """What the reply gets at its end: it is edited as it comes by, large ones without ever being whole."""
    topic_class = entry_class(response_class(ApiKey.FETCH, call.api_version), "responses")
    encoded = (encode(build(topic_class, _answered(topic, fault))) for topic, fault in refused)
    return AddedTopics(len(refused), b"".join(encoded))


def _answered(topic: FetchTopic, error_code: ErrorCode) -> dict[str, object]:
    """A response's entry of a topic that is not read, with one error for all partitions asked for."""
    name = {"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"topic": topic.topic}
    return {
        **name,
        "partitions": [
            {
                "partition_index": partition.partition,
                "error_code": error_code,
                "high_watermark": -1,
                "last_stable_offset": -1,
                "log_start_offset": -1,
                "records": b"",
            }
            for partition in topic.partitions
        ],
    }
