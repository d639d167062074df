"""Asking before data or connections go."""

import sys
from typing import Annotated

import typer

from ctl.errors import CommandError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. A script is never asked.")]


def confirm(consequence: str, *, yes: bool) -> None:
    """Ask the person at the terminal. Raises: CommandError when the answer is no."""
    if not yes and sys.stdin.isatty() and not typer.confirm(f"{consequence} Go on?", err=True):
        raise CommandError("nothing was changed")
