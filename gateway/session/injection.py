"""Carries out what `injected_faults` decides for one connection: holds back, resets, says what is refused
(ADR 30). Handlers with `on_fault` answer what is refused.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from contracts.injected_faults import FaultKind
from gateway.apis import Mode
from gateway.causes import DisconnectCause
from gateway.rules.injected_faults import LEADER_APIS, Sent
from gateway.session.call import Call
from gateway.session.conversation import Conversation
from gateway.stops import ConnectionStop
from wire.batch import HEADER_SIZE, MAGIC_V2, NO_PRODUCER_ID, parse_header
from wire.messages import ProduceRequest, TopicProduceData

_ANSWERED_EARLY: Final = (Mode.LOCAL, Mode.FETCH)
"""The answer of a Fetch may leave before all of it is here."""


def hold_back_ms(conversation: Conversation, api_key: int, bytes_in: int, read_bytes: int) -> int:
    """How long the next request has to wait, with all that was read behind it; it is looked at again then."""
    instance, marks, now_ms = conversation.instance, conversation.marks(), conversation.now_ms
    faults = instance.faults
    assert faults is not None
    if marks.released_at_bytes != bytes_in:
        wait_ms = max(faults.delay_ms(api_key, now_ms), marks.muted_until_ms - now_ms)
        if wait_ms > 0 and marks.hold(instance, read_bytes):
            return wait_ms
    throttle_ms = faults.throttle_ms(now_ms)
    if throttle_ms:
        faults.count(FaultKind.THROTTLING)
        marks.muted_until_ms = now_ms + throttle_ms
    return 0


def let_go(conversation: Conversation, bytes_in: int) -> None:
    """The wait is over, or a fault has ended or begun: who ends one does not wait for it."""
    marks = conversation.marks()
    marks.muted_until_ms = 0
    marks.released_at_bytes = bytes_in
    marks.release(conversation.instance)


def is_looked_into(call: Call, mode: Mode) -> bool:
    """Whether the request may be refused, for which it has to be decoded.

    Raises: ConnectionStop when its connection is reset at once.
    """
    faults = call.instance.faults
    assert faults is not None
    if faults.resets(call.conversation.now_ms):
        if mode in _ANSWERED_EARLY or not faults.loses_the_answer():
            raise ConnectionStop(DisconnectCause.FAULT_INJECTED)
        call.exchange.taker = _lose
    return faults.refuses and call.api_key in LEADER_APIS


def _lose(_answer: bytes) -> None:
    raise ConnectionStop(DisconnectCause.FAULT_INJECTED)


def refusal_of_all(call: Call) -> ErrorCode | None:
    """What is answered for the whole request instead of passing it on."""
    faults = call.instance.faults
    assert faults is not None
    return faults.refusal(call.api_key, call.conversation.now_ms)


def produce_errors(call: Call, request: ProduceRequest) -> dict[tuple[str, int], ErrorCode]:
    """What is answered for some of a Produce, by topic and partition.

    Raises: ConnectionStop when more is refused than can be kept account of.
    """
    faults, held, now_ms = call.instance.faults, call.conversation.marks().held, call.conversation.now_ms
    assert faults is not None
    of_request = refusal_of_all(call)
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records or b""
            sent, sequence = _sent(topic_called(topic), partition.index, records)
            follows = None if sent is None else held.error(sent, sequence)
            error_code = of_request or follows
            if error_code is None and faults.is_too_large(len(records), now_ms):
                error_code = ErrorCode.message_too_large
            if error_code is None:
                continue
            errors[topic_called(topic), partition.index] = error_code
            if sent is not None and follows is None and not held.hold(sent, sequence, error_code):
                raise ConnectionStop(DisconnectCause.FAULT_INJECTED, "too many batches were refused")
    return errors


def topic_called(topic: TopicProduceData) -> str:
    """What the request calls a topic, as one text: its name, or its id."""
    return topic.name if hasattr(topic, "name") else str(topic.topic_id)


def _sent(topic: str, partition: int, records: bytes) -> tuple[Sent | None, int]:
    """Who of the idempotent producers sent the batch, and its sequence. Whether it is well made is the
    broker's to say."""
    if len(records) < HEADER_SIZE:
        return None, 0
    header = parse_header(records)
    if header.magic != MAGIC_V2 or header.producer_id == NO_PRODUCER_ID:
        return None, 0
    return Sent(header.producer_id, header.producer_epoch, topic, partition), header.base_sequence
