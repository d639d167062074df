"""`portico admin`: what only the owner of the data directory may do."""

import typer

from ctl.console_client import Console
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir
from ctl.output import print_facts, print_json

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Administration of this stack."""


@app.command("reset-password")
def reset_password(
    user: str = "admin", as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """Give a console user a new random password and end the user's sessions."""
    with Console.of(data_dir) as console:
        reset = console.call("POST", f"users/{user}/reset-password")
    if as_json:
        print_json(reset)
    else:
        print_facts([("user", reset["user"]), ("password", f"{reset['password']}   (shown once)")])
