"""Messages of a topic: a bounded look at them, and one sent."""

from typing import Annotated, Final, NamedTuple

import msgspec
from fastapi import Depends, Query, Response

from contracts.shapes import matching
from runtime.clock import epoch_ms
from tenants.api.context import Asker, Found, Plane, at, read, written
from tenants.api.message_models import (
    HEX_SHAPE,
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
from tenants.api.routers import api_router
from tenants.api.times import Time
from tenants.api.topics import Topic
from tenants.backend.topics import check_name
from tenants.rules.decoding import Note
from tenants.rules.errors import Invalid
from tenants.rules.lifecycle import Fault, unfit
from tenants.rules.message_begin import From
from tenants.rules.message_filter import EXPRESSION_CHARACTERS_MAX, BadExpression, Filter, JsonCondition
from tenants.rules.message_scan import Asked, Message, Piece
from tenants.rules.message_text import Encoding, text_of
from tenants.usecases.messages import Viewed
from wire.batch import Record

router = api_router("/v1/instances/{instance}/topics/{topic}/messages", "messages")
LIMIT_MAX: Final = 200
VALUE_BYTES_MAX: Final = 1024 * 1024
_AS_SENT: Final = Note()
_HEX: Final = matching(HEX_SHAPE)
_CURSOR_CHARACTERS_MAX: Final = 2_000
_Cursor = Annotated[
    str | None,
    Query(
        max_length=_CURSOR_CHARACTERS_MAX,
        pattern="^[A-Za-z0-9_-]+$",
        description="of a view before this one, which goes on: beside it `offset` and `at` mean nothing",
    ),
]
_At = Annotated[
    Time | None,
    Query(description="forwards from the first message of this time; beside `offset` it means nothing"),
]
_Partition = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="left out: all")]
_Offset = Annotated[
    int | None,
    Query(ge=0, le=2**63 - 1, description="forwards from this offset; 0 is the begin of every log"),
]
_Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="messages at most")]
_ValueBytes = Annotated[
    int, Query(ge=1, le=VALUE_BYTES_MAX, description="bytes of each key and value that are told")
]
_Word = Annotated[str | None, Query(min_length=1, max_length=200)]
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


_Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a view ended, so that the next one goes on there."""

    is_older: bool
    """Whether it goes on to older messages, else to newer ones."""
    at_ms: _Long
    next_offsets: dict[_Number, _Long | None]
    """By partition; None: it did not answer, and begins at `at_ms`."""

    @property
    def cursor(self) -> str:
        """As it is told: of a hundred partitions some 2,000 letters at most."""
        return written(msgspec.msgpack.encode(self))


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
        return Place(self.newest_first, viewed.at_ms, viewed.page.next_offsets).cursor


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
        if text is None or body.encoding is not SendEncoding.HEX:
            return None if text is None else text.encode()
        if _HEX.match(text) is None:
            faults.append(Fault(field, "is no hex"))
            return None
        return bytes.fromhex(text)

    headers = tuple((one.name, encoded("headers", one.value)) for one in body.headers)
    record = Record(0, epoch_ms(), encoded("key", body.key), encoded("value", body.value), headers)
    if faults:
        raise Invalid(faults)
    partition, offset = await plane.messages.send(caller, found, topic, body.partition, record)
    return MessageSent(partition=partition, offset=offset)


def _begin(offset: int | None, at_ms: int | None, cursor: str | None) -> tuple[From, bool]:
    """Where a view begins, and whether the newest come first. Raises: Invalid."""
    if cursor is not None:
        place = _of_cursor(cursor)
        return From(at_ms=place.at_ms, next_offsets=place.next_offsets), place.is_older
    if offset is not None:
        return From(offset), False
    return From(at_ms=None if at_ms is None else max(0, at_ms)), at_ms is None


def _filter(text: str | None, key: str | None, header: str | None, json: str | None) -> Filter:
    """Raises: Invalid."""
    try:
        condition = None if json is None else JsonCondition(json)
    except BadExpression as error:
        raise Invalid([unfit("json", str(error))]) from error
    name, equals, value = (header or "").partition("=")
    return Filter(
        text=_encoded(text),
        key=_encoded(key),
        header=None if header is None else (name.encode(), value.encode() if equals else None),
        condition=condition,
    )


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="replace")


def _of_cursor(cursor: str) -> Place:
    try:
        return msgspec.msgpack.decode(read(cursor), type=Place)
    except (ValueError, RecursionError) as error:  # what msgspec raises is a ValueError
        raise Invalid([unfit("cursor", "is not a cursor of messages")]) from error


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
        live_cursor=Place(False, viewed.at_ms, live).cursor if is_live else None,
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
        schema_guid=note.schema_guid,
        problem=note.problem,
    )
