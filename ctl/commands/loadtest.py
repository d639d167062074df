"""`portico loadtest`: run a scenario of `loadtests/`."""

import importlib.util
import os
import sys
from typing import Annotated, Final

import typer

from ctl.errors import CommandError

_NEEDED: Final = ("locust", "matplotlib", "loadtests")


def loadtest(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="NAME [OPTION]...", help="--help lists them.")
    ] = None,
) -> None:
    """Make load on a stack of this machine, report with plots, and end with a verdict."""
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            raise CommandError(
                f"load tests need {name}: run them as `./portico loadtest` from a checkout, which installs "
                "what they need"
            )
    command = [sys.executable, "-m", "runtime.start", "loadtests", *(arguments or []), *context.args]
    sys.stdout.flush()
    os.execv(sys.executable, command)
