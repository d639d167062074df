"""Options that many commands share."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.units import parse_bytes, parse_duration_ms

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", envvar="PORTICO_DATA_DIR", help="The stack to talk to, unless PORTICO_URL is set."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Tenant = Annotated[
    str | None, typer.Option("--tenant", help="Act for this tenant (operators; '*' lists all).")
]
InstanceArgument = Annotated[str, typer.Argument(metavar="ID", help="An instance's id or unique name.")]

DEFAULT_DATA_DIR = Path("data")


def _parser(*, rate: bool) -> Callable[[Any], int]:
    def parse(text: Any) -> int:
        if isinstance(text, int):
            return text
        try:
            return parse_bytes(text, rate=rate)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parse


parse_rate = _parser(rate=True)
parse_size = _parser(rate=False)


def parse_time(text: Any) -> int:
    """Epoch ms of a time as people write it (UTC unless it names a zone), or of epoch ms."""
    if isinstance(text, int):
        return text
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no time like 2026-01-31T12:00:00Z, nor epoch ms") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)


def parse_hours(text: int | str) -> int:
    """Whole hours, rounded up, of a duration as people write it: `72h`, `30d`, `90m`."""
    if isinstance(text, int):
        return text
    try:
        return -(-parse_duration_ms(text) // 3_600_000)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def parse_duration(text: Any) -> float:
    """Seconds of a duration as people write it: `10s`, `500ms`, `2m`, `1h`; a bare number is seconds."""
    if isinstance(text, int | float):
        return float(text)
    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
