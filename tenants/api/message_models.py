"""What the REST API takes and answers with for messages."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import ConfigDict, Field

from contracts.registered_schemas import SchemaKind
from tenants.api.models import Count, RequestModel, ViewModel
from tenants.api.shapes import of, where
from tenants.rules.message_text import Shown


class StoppedBy(StrEnum):
    """Why a view ended where it did."""

    END = "end"
    LIMIT = "limit"
    SCANNED = "scanned"
    TIME = "time"


_PAYLOAD: Final = {
    "format": "text",
    "text": "order-17",
    "size_bytes": 8,
    "is_cut": False,
    "decoded_by": None,
    "schema_id": None,
    "schema_guid": None,
    "problem": "",
}


class Payload(ViewModel):
    """Bytes of a message: a key, a value, a header's name or value."""

    format: Shown = Field(description="what `text` is: `json` (as it was sent, or decoded), `text`, or `hex`")
    text: str = Field(description="the bytes, or their begin", examples=['{"order": 17}'])
    size_bytes: int = Field(description="of the whole, also where `text` is its begin", examples=[13])
    is_cut: bool = Field(description="whether `text` is its begin only")
    decoded_by: SchemaKind | None = Field(
        default=None, description="which kind of schema says what it is; null: none does", examples=["avro"]
    )
    schema_id: int | None = Field(
        default=None, description="of the registry; null: it names none", examples=[17]
    )
    schema_guid: str | None = Field(
        default=None,
        description="of the registry, which a header names instead; null: none does",
        examples=["89791762-2336-4186-9674-299b90a802e2"],
    )
    problem: str = Field(
        default="",
        description="why it was not decoded, or does not fit its schema; empty: nothing is wrong",
        examples=[""],
    )


class HeaderView(ViewModel):
    """A header; names may repeat, and values be null."""

    name: Payload = Field(description="its name")
    value: Payload | None = Field(description="its value", examples=[_PAYLOAD])


class MessageView(ViewModel):
    """One message."""

    partition: int
    offset: int = Field(examples=[4711])
    timestamp: datetime | None = Field(description="null: it has none, or one that is no date")
    timestamp_ms: int = Field(
        description="as it is stored; producers may write any", examples=[1795000000000]
    )
    is_log_append_time: bool = Field(description="whether the broker set the time, not the producer")
    key: Payload | None = Field(description="null: it has none", examples=[_PAYLOAD])
    value: Payload | None = Field(
        examples=[_PAYLOAD], description="null: a tombstone, which deletes its key from a compacted topic"
    )
    headers: list[HeaderView] = Field(
        description="the first ones, 20 and 4 KiB at most; with `limit` 1 100 at most"
    )
    header_count: int = Field(description="how many headers it has", examples=[1])
    size_bytes: int = Field(description="of the record, decompressed", examples=[120])


class UnreadableBatch(ViewModel):
    """Messages that cannot be shown: their batch is damaged, or too large when it is decompressed."""

    partition: int
    first_offset: int
    last_offset: int = Field(description="of the last message in it")
    reason: str = Field(examples=["more than 16777216 bytes"])


class LookedThrough(ViewModel):
    """How far one partition was looked through."""

    partition: int
    log_start_offset: int
    end_offset: int = Field(description="behind the last message that readers see")
    from_offset: int = Field(description="the first offset that was looked at")
    to_offset: int = Field(description="exclusive; equal to `from_offset`: nothing was looked at yet")
    error: str | None = Field(
        description="why it could not be read; the cursors go on where it was to be read", examples=[None]
    )


class MessageList(ViewModel):
    """GET messages. With a filter few may be told of many that were looked at: `next_cursor` looks on."""

    messages: list[MessageView] = Field(description="what was found, in its order")
    partitions: list[LookedThrough]
    unreadable: list[UnreadableBatch] = Field(description="what could not be looked into", examples=[[]])
    scanned_messages: int = Field(description="how many were looked at")
    scanned_bytes: int = Field(
        description="what brokers sent for it, which is counted in the instance's rate"
    )
    stopped_by: StoppedBy = Field(
        description="`end`: there is no more; `limit`: so many were asked for; `scanned`, `time`: one "
        "request does not look further"
    )
    next_cursor: str | None = Field(description="goes on where this ended; null: there is no more")
    live_cursor: str | None = Field(
        description="tells what is written from now on: ask with it again and again; null: the view has not "
        "come to the newest message"
    )


class SendEncoding(StrEnum):
    """How bytes are written in a request."""

    TEXT = "text"
    HEX = "hex"


class SentHeader(RequestModel):
    """A header of a message to send."""

    name: str = Field(max_length=1000, description="its name", examples=["source"])
    value: str | None = Field(default=None, examples=["console"])


HEX_SHAPE: Final = r"^([0-9A-Fa-f]{2})*$"
_HEX: Final = {"pattern": HEX_SHAPE}


class MessageSend(RequestModel):
    """POST a message."""

    model_config = ConfigDict(
        json_schema_extra=where(
            "encoding",
            SendEncoding.HEX.value,
            of(key=_HEX, value=_HEX, headers={"items": of(value=_HEX)}),
        )
    )

    partition: Count | None = Field(
        default=None, description="left out: by the key, as Kafka's Java client chooses; without a key any"
    )
    key: str | None = Field(default=None, description="null: none", examples=["order-17"])
    value: str | None = Field(default=None, description="null: a tombstone", examples=['{"order": 17}'])
    headers: list[SentHeader] = Field(default=[], max_length=100, description="in this order")
    encoding: SendEncoding = Field(
        default=SendEncoding.TEXT, strict=False, description="of key, value and headers' values"
    )


class MessageSent(ViewModel):
    """Where a message is."""

    partition: int
    offset: int = Field(examples=[4711])
