"""Messages of a topic: a bounded look at them, and one sent."""

import base64
import binascii
import json
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime

from runtime.clock import epoch_ms
from tenants.api.context import Asker, Found, Plane, at
from tenants.api.message_models import (
    HeaderView,
    LookedThrough,
    MessageList,
    MessageSend,
    MessageSent,
    MessageView,
    Payload,
    SendEncoding,
    StoppedBy,
    UnreadableBatch,
)
from tenants.api.topics import Topic
from tenants.backend.topics import check_name
from tenants.rules.decoding import Note
from tenants.rules.errors import Invalid
from tenants.rules.lifecycle import Fault
from tenants.rules.message_begin import From
from tenants.rules.message_filter import EXPRESSION_CHARACTERS_MAX, BadExpression, Filter, JsonCondition
from tenants.rules.message_scan import Asked, Message, Piece
from tenants.rules.message_text import Encoding, text_of
from tenants.usecases.messages import Viewed
from wire.batch import Record

router = APIRouter(prefix="/v1/instances/{instance}/topics/{topic}/messages", tags=["messages"])
LIMIT_MAX: Final = 200
VALUE_BYTES_MAX: Final = 1024 * 1024
_OLDER, _NEWER = "older", "newer"
_AS_SENT: Final = Note()
_CURSOR_CHARACTERS_MAX: Final = 8_000
_Cursor = Annotated[
    str | None, Query(max_length=_CURSOR_CHARACTERS_MAX, description="of a view before this one")
]
_At = Annotated[AwareDatetime | None, Query(description="forwards from the first message of this time")]
_Partition = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="left out: all")]
_Offset = Annotated[
    int | None,
    Query(ge=0, le=2**63 - 1, description="forwards from this offset; 0 is the begin of every log"),
]
_Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="messages at most")]
_ValueBytes = Annotated[
    int, Query(ge=1, le=VALUE_BYTES_MAX, description="bytes of each key and value that are told")
]
_Word = Annotated[str | None, Query(min_length=1, max_length=1000)]
_Text = Annotated[_Word, Query(description="only messages with this text in their key or value")]
_Key = Annotated[_Word, Query(description="only messages of this key")]
_Header = Annotated[
    _Word, Query(description="only messages with this header: its name, or `name=value`", examples=["a=b"])
]
_Json = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=EXPRESSION_CHARACTERS_MAX,
        description="only messages whose value is JSON of which this holds, by RFC 9535: a condition about "
        "the value `@`, or a path from `$` that finds something. Values of up to 256 KiB are looked into; "
        "with `..`, `*` or a slice up to 16 KiB",
        examples=['@.amount > 100 && @.kind == "new"'],
    ),
]


class Sought(NamedTuple):
    """Which messages are wanted."""

    partition: int | None
    begin: From
    newest_first: bool
    filter: Filter
    encoding: Encoding
    uncommitted: bool

    def next_cursor(self, viewed: Viewed) -> str | None:
        """Goes on where a view ended; None: there is no more."""
        if not viewed.page.has_more:
            return None
        direction = _OLDER if self.newest_first else _NEWER
        return _cursor(direction, viewed.at_ms, viewed.page.next_offsets)


async def sought_of(
    partition: _Partition = None,
    offset: _Offset = None,
    at: _At = None,
    cursor: _Cursor = None,
    encoding: Annotated[Encoding, Query(description="how bytes are told")] = Encoding.AUTO,
    uncommitted: Annotated[
        bool, Query(description="also messages of transactions that are open or were aborted")
    ] = False,
    text: _Text = None,
    key: _Key = None,
    header: _Header = None,
    json: _Json = None,
) -> Sought:
    """Raises: Invalid."""
    begin, newest_first = _begin(offset, None if at is None else round(at.timestamp() * 1000), cursor)
    found = _filter(text, key, header, json)
    return Sought(partition, begin, newest_first, found, encoding, uncommitted)


@router.get("", response_model=MessageList)
async def messages(
    plane: Plane,
    caller: Asker,
    found: Found,
    topic: Topic,
    sought: Annotated[Sought, Depends(sought_of)],
    limit: _Limit = 50,
    value_bytes: _ValueBytes = 2048,
) -> Response:
    """Messages of a topic, the newest first; from an offset or a time on in the order of their times.

    The instance pays for what is read, like a consumer. Who looks is in the audit log.
    """
    check_name(topic)
    asked = Asked(limit, value_bytes, sought.filter, sought.newest_first)
    told = await plane.messages.view(
        caller,
        found,
        topic,
        sought.partition,
        sought.begin,
        asked,
        read_committed=not sought.uncommitted,
        as_sent=sought.encoding is not Encoding.AUTO,
        told=lambda viewed: _list_view(viewed, sought).model_dump_json().encode(),
    )
    return Response(told, media_type="application/json")


@router.post("", status_code=201)
async def send_message(
    plane: Plane, caller: Asker, found: Found, topic: Topic, body: MessageSend
) -> MessageSent:
    """Write one message, and wait until every replica in sync has it.

    After a 503 it may have been written all the same. A request with an idempotency key is not written twice:
    sent again after it was refused or had no answer from the brokers, it is answered with 409.
    """
    check_name(topic)
    faults: list[Fault] = []

    def encoded(field: str, text: str | None) -> bytes | None:
        try:
            if text is None:
                return None
            return bytes.fromhex(text) if body.encoding is SendEncoding.HEX else text.encode()
        except ValueError as error:
            faults.append(Fault(field, "is no hex" if body.encoding is SendEncoding.HEX else str(error)))
            return None

    names = [one.name for one in body.headers]
    for name in names:
        if not _is_utf8(name):
            faults.append(Fault("headers", "a name is no text"))
    headers = tuple((one.name, encoded("headers", one.value)) for one in body.headers)
    record = Record(0, epoch_ms(), encoded("key", body.key), encoded("value", body.value), headers)
    if faults:
        raise Invalid(faults)
    partition, offset = await plane.messages.send(caller, found, topic, body.partition, record)
    return MessageSent(partition=partition, offset=offset)


def _is_utf8(text: str) -> bool:
    return all(not 0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def _begin(offset: int | None, at_ms: int | None, cursor: str | None) -> tuple[From, bool]:
    """Where a view begins, and whether the newest come first. Raises: Invalid."""
    if sum(one is not None for one in (offset, at_ms, cursor)) > 1:
        raise Invalid([Fault("offset", "give one of offset, at and cursor")])
    if cursor is not None:
        direction, at_ms, next_offsets = _of_cursor(cursor)
        return From(at_ms=at_ms, next_offsets=next_offsets), direction == _OLDER
    return From(offset, None if at_ms is None else max(0, at_ms)), offset is None and at_ms is None


def _filter(text: str | None, key: str | None, header: str | None, json: str | None) -> Filter:
    """Raises: Invalid."""
    try:
        condition = None if json is None else JsonCondition(json)
    except BadExpression as error:
        raise Invalid([Fault("json", str(error))]) from error
    name, equals, value = (header or "").partition("=")
    return Filter(
        text=_encoded(text),
        key=_encoded(key),
        header=None if header is None else (name.encode(), value.encode() if equals else None),
        condition=condition,
    )


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="replace")


def _cursor(direction: str, at_ms: int, next_offsets: dict[int, int | None]) -> str:
    places = sorted(next_offsets.items(), key=lambda place: place[0])
    told = json.dumps([direction, at_ms, places], separators=(",", ":"))
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def _of_cursor(cursor: str) -> tuple[str, int, dict[int, int | None]]:
    try:
        direction, at_ms, places = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        next_offsets = {
            _whole(partition): None if offset is None else _whole(offset) for partition, offset in places
        }
        at_ms = _whole(at_ms)
        if direction not in (_OLDER, _NEWER):
            raise ValueError(direction)
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise Invalid([Fault("cursor", "is not a cursor of messages")]) from error
    return direction, at_ms, next_offsets


def _whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("no offset")
    return value


def _list_view(viewed: Viewed, sought: Sought) -> MessageList:
    page, looks = viewed.page, viewed.looks
    if sought.newest_first:
        live: dict[int, int | None] = {
            look.partition: look.high_offset if look.is_placed else None for look in looks
        }
        is_live = all(look.high_offset == look.end_offset for look in looks)
    else:
        live = page.next_offsets
        is_live = not page.has_more
    return MessageList(
        messages=[_message_view(one, sought.encoding) for one in page.messages],
        partitions=[
            LookedThrough(
                partition=look.partition,
                log_start_offset=look.log_start_offset,
                end_offset=look.end_offset,
                from_offset=look.low_offset,
                to_offset=look.high_offset,
                error=look.fault,
            )
            for look in looks
        ],
        unreadable=[UnreadableBatch(**one._asdict()) for look in looks for one in look.unreadable],
        scanned_messages=viewed.budget.records,
        scanned_bytes=viewed.budget.fetched_bytes,
        stopped_by=StoppedBy(viewed.stopped_by),
        next_cursor=sought.next_cursor(viewed),
        live_cursor=_cursor(_NEWER, viewed.at_ms, live) if is_live else None,
    )


def _message_view(message: Message, encoding: Encoding) -> MessageView:
    timestamp_ms = message.timestamp_ms
    try:
        timestamp = at(timestamp_ms) if timestamp_ms >= 0 else None
    except (OverflowError, ValueError, OSError):
        timestamp = None
    return MessageView(
        partition=message.partition,
        offset=message.offset,
        timestamp=timestamp,
        timestamp_ms=timestamp_ms,
        is_log_append_time=message.is_log_append_time,
        key=_payload(message.key, encoding, message.key_note),
        value=_payload(message.value, encoding, message.value_note),
        headers=[
            HeaderView(name=_shown(name, Encoding.AUTO), value=_payload(value, encoding))
            for name, value in message.headers
        ],
        header_count=message.header_count,
        size_bytes=message.size_bytes,
    )


def _payload(piece: Piece | None, encoding: Encoding, note: Note = _AS_SENT) -> Payload | None:
    return None if piece is None else _shown(piece, encoding, note)


def _shown(piece: Piece, encoding: Encoding, note: Note = _AS_SENT) -> Payload:
    told = text_of(piece, encoding, note)
    return Payload(
        format=told.shown,
        text=told.text,
        size_bytes=piece.size_bytes,
        is_cut=len(piece.data) < piece.size_bytes,
        decoded_by=note.kind,
        schema_id=note.schema_id,
        problem=note.problem,
    )
