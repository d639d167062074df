"""Fetch 0-12: names edited in place; fetch sessions and topics with address lists.

Session ids are guessable numbers without an owner in Apache Kafka, so only ids that this connection received
go up. An unknown id goes up as id 0, which with an epoch above 0 is FETCH_SESSION_ID_NOT_FOUND, after which
clients fetch in full. Instances with topic lists or ACLs are served without sessions: in an
incremental fetch a topic that was refused meanwhile would not be named any more.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32
from kio.static.protocol import Payload

from contracts.acls import Operation
from contracts.charging import ChargeRequest
from gateway.session.call import Answer, Call, Edited, Forward, Later, Outcome
from gateway.session.deps import Charges
from gateway.session.injection import refusal_of_all
from gateway.topic_access import split
from wire.api_table import ApiKey
from wire.build import build, entry_class, throttled
from wire.codec import encode, framed_response, response_class
from wire.edits import AddedTopics, edit_fetch_request, fetch_session
from wire.messages import FetchRequest, FetchTopic

_FULL_FETCH: Final = 0
_NO_SESSION: Final = i32(-1)
_CONSUMER: Final = BrokerId(-1)


def take_frame(call: Call, frame: memoryview) -> Edited | None:
    """The usual way: sessions checked, names edited, nothing decoded. None when topics have lists."""
    session_id, epoch = fetch_session(frame)
    owned = call.conversation.fetch_sessions
    replacement = None
    if call.instance.tells_clients_apart:
        if epoch in (_FULL_FETCH, _NO_SESSION):
            return None
        replacement = 0  # the backend says that there is no such session
    elif session_id and (owned is None or session_id not in owned):
        replacement = 0
    elif session_id and owned is not None and epoch == _NO_SESSION:
        owned.discard(session_id)  # closed by this request; the id may become somebody else's
    scope, client_id = call.instance.scope, call.conversation.client_id
    return edit_fetch_request(frame, scope, session_id=replacement, client_id=client_id).buffers


def on_request(call: Call, request: FetchRequest) -> Outcome | Later:
    """Topics with lists: leave out what this client may not read, and ask for no session."""
    kept, refused = split(request.topics, lambda topic: call.refuses_topic(topic.topic, Operation.READ))
    request = replace(request, topics=kept, replica_id=_CONSUMER)
    if hasattr(request, "session_id"):
        request = replace(request, session_id=i32(0), session_epoch=_NO_SESSION, forgotten_topics_data=())
    return Later(partial(_charged, call, request, refused)) if refused else Forward(request)


async def _charged(call: Call, request: FetchRequest, refused: list[FetchTopic], deps: Charges) -> Outcome:
    """Answer for what is refused, once that is charged, and pass on the rest."""
    if not request.topics:
        response = call.response(responses=[_refused(topic) for topic in refused])
        return await _charged_answer(call, response, ErrorCode.topic_authorization_failed, deps)
    reason = ErrorCode.topic_authorization_failed.name
    call.exchange.notes = _added(call, refused)
    await deps.charge(ChargeRequest(consume_bytes=len(call.exchange.notes.encoded), reason=reason))
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
    entries = [_refused(topic, error_code) for topic in request.topics]
    return Later(partial(_charged_answer, call, call.response(responses=entries), error_code))


async def _charged_answer(call: Call, response: Payload, error_code: ErrorCode, deps: Charges) -> Outcome:
    size_bytes = len(framed_response(response, call.exchange.correlation_id))
    charged = ChargeRequest(consume_bytes=size_bytes, reason=error_code.name)
    return Answer(throttled(response, await deps.charge(charged)))


def _added(call: Call, refused: list[FetchTopic]) -> AddedTopics:
    """What the reply gets at its end: it is edited as it comes by, large ones without ever being whole."""
    topic_class = entry_class(response_class(ApiKey.FETCH, call.api_version), "responses")
    return AddedTopics(
        len(refused), b"".join(encode(build(topic_class, _refused(topic))) for topic in refused)
    )


def _refused(
    topic: FetchTopic, error_code: ErrorCode = ErrorCode.topic_authorization_failed
) -> dict[str, object]:
    """A response's entry of a topic that is not read, with one error for all partitions asked for."""
    return {
        "topic": topic.topic,
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
