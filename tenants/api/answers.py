"""Answers made of msgspec messages: JSON, or CSV for those who ask for it."""

import csv
import io
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Query, Request
from fastapi.responses import Response

CSV: Final = "text/csv"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would take for a formula."""


class Format(StrEnum):
    """The format of an answer."""

    JSON = "json"
    CSV = "csv"


async def format_of(
    request: Request,
    format: Annotated[
        Format | None, Query(description="`csv` to download; else by the Accept header")
    ] = None,
) -> Format:
    """What the caller wants: by the query, else by the Accept header."""
    return accepted(request) if format is None else format


def accepted(request: Request) -> Format:
    """The first of the two that the Accept header names."""
    for part in request.headers.get("accept", "").split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if "q=0" in parameters:
            continue
        if kind == CSV:
            return Format.CSV
        if kind in ("application/json", "application/*", "*/*"):
            return Format.JSON
    return Format.JSON


Wanted = Annotated[Format, Depends(format_of)]


def documented(message: type[msgspec.Struct], *, as_csv: bool = False) -> dict[int | str, dict[str, Any]]:
    """The answers of a route that sends a message, for OpenAPI."""
    content: dict[str, Any] = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{message.__name__}"}}
    }
    if as_csv:
        content[CSV] = {"schema": {"type": "string"}}
    return {200: {"description": (message.__doc__ or "").split("\n")[0], "content": content}}


def json_answer(message: msgspec.Struct) -> Response:
    """A message as it is."""
    return Response(msgspec.json.encode(message), media_type="application/json")


def csv_answer(file_name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Response:
    """A table to be saved under a name, with a header line (RFC 4180)."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{file_name}"'}
    return Response(written.getvalue(), media_type=f"{CSV}; charset=utf-8", headers=headers)


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()
