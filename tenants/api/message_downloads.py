"""Messages of a topic as a file: NDJSON for programs, CSV for tables."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Response

from runtime.clock import epoch_ms
from tenants.api.answers import CSV, csv_answer
from tenants.api.context import Asker, Found, Plane
from tenants.api.messages import VALUE_BYTES_MAX, Sought, sought_of
from tenants.api.routers import api_router
from tenants.api.topics import Topic
from tenants.backend.topics import check_name
from tenants.rules.decoding import Note
from tenants.rules.message_scan import Asked, Message, Piece
from tenants.rules.message_text import Encoding, text_of
from tenants.usecases.messages import Viewed

router = api_router("/v1/instances/{instance}/topics/{topic}/messages/download", "messages")
LIMIT_MAX: Final = 1_000
"""Messages of one download; `portico-next-cursor` goes on behind them."""
NDJSON: Final = "application/x-ndjson"
NEXT_CURSOR: Final = "Portico-Next-Cursor"
_AS_SENT: Final = Note()
_COLUMNS: Final = (
    *("partition", "offset", "timestamp_ms"),
    *("key_format", "key", "value_format", "value", "value_is_cut", "headers"),
    *("value_schema_id", "value_schema_guid", "value_problem"),
)
_EXAMPLES: Final = {
    NDJSON: '{"partition": 0, "offset": 4711, "timestamp_ms": 1795000000000, "key_format": "text", '
    '"key": "order-17", "value_format": "json", "value": "{\\"order\\": 17}", "value_is_cut": false, '
    '"headers": [], "value_schema_id": null, "value_schema_guid": null, "value_problem": ""}\n',
    CSV: ",".join(_COLUMNS) + "\r\n0,4711,1795000000000,text,order-17,text,paid,false,[],,,\r\n",
}


class FileFormat(StrEnum):
    """How a download is written."""

    NDJSON = "ndjson"
    CSV = "csv"


@router.get(
    "",
    response_class=Response,
    responses={
        200: {
            "description": "a line for each message",
            "content": {
                kind: {"schema": {"type": "string"}, "example": example}
                for kind, example in _EXAMPLES.items()
            },
            "headers": {
                NEXT_CURSOR: {
                    "description": "goes on where this ended, as `cursor`; left out: there is no more",
                    "schema": {"type": "string"},
                }
            },
        }
    },
)
async def download_messages(
    plane: Plane,
    caller: Asker,
    found: Found,
    topic: Topic,
    sought: Annotated[Sought, Depends(sought_of)],
    format: Annotated[FileFormat, Query(description="a JSON object a line, or a table")] = FileFormat.NDJSON,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="messages at most")] = 500,
    value_bytes: Annotated[
        int, Query(ge=1, le=VALUE_BYTES_MAX, description="bytes of each key and value that are told")
    ] = 4096,
) -> Response:
    """Messages of a topic to keep, found like those that are listed. Each download is in the audit log, and
    the instance pays for what is read, like a consumer."""
    check_name(topic)
    asked = Asked(limit, value_bytes, sought.filter, sought.newest_first)
    answer: Response = await plane.messages.view(
        caller,
        found,
        topic,
        sought.partition,
        sought.begin,
        asked,
        read_committed=not sought.uncommitted,
        as_sent=sought.encoding is not Encoding.AUTO,
        told=lambda viewed: _answer(viewed, sought, format, f"{topic}-{epoch_ms()}"),
        is_download=True,
    )
    return answer


def _answer(viewed: Viewed, sought: Sought, wanted: FileFormat, name: str) -> Response:
    rows = (_row(message, sought.encoding) for message in viewed.page.messages)
    if wanted is FileFormat.CSV:
        answer = csv_answer(f"{name}.csv", _COLUMNS, map(_cells, rows))
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        headers = {"Content-Disposition": f'attachment; filename="{name}.ndjson"'}
        answer = Response(lines, media_type=NDJSON, headers=headers)
    cursor = sought.next_cursor(viewed)
    if cursor is not None:
        answer.headers[NEXT_CURSOR] = cursor
    return answer


def _cells(row: dict[str, Any]) -> Sequence[object]:
    return [json.dumps(row[name]) if name == "headers" else row[name] for name in _COLUMNS]


def _row(message: Message, encoding: Encoding) -> dict[str, Any]:
    key_format, key = _shown(message.key, encoding, message.key_note)
    value_format, value = _shown(message.value, encoding, message.value_note)
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "key_format": key_format,
        "key": key,
        "value_format": value_format,
        "value": value,
        "value_is_cut": message.value is not None and len(message.value.data) < message.value.size_bytes,
        "headers": [
            [_shown(name, Encoding.AUTO)[1], _shown(content, encoding)[1]]
            for name, content in message.headers
        ],
        "value_schema_id": message.value_note.schema_id,
        "value_schema_guid": message.value_note.schema_guid,
        "value_problem": message.value_note.problem,
    }


def _shown(piece: Piece | None, encoding: Encoding, note: Note = _AS_SENT) -> tuple[str | None, str | None]:
    if piece is None:
        return None, None
    told = text_of(piece, encoding, note)
    return told.shown.value, told.text
