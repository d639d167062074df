"""Options that many commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.units import parse_bytes

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
