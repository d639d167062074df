"""`portico email`: addresses that alarms are mailed to."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl.command import Commands
from ctl.commands.webhook import log_of, switched, waited_for
from ctl.confirm import Yes, confirm
from ctl.console_options import TenantConsole
from ctl.output import Answer, in_facts, in_table, print_facts

app = Commands()

Id = Annotated[str, typer.Argument(metavar="ID", help="As `email list` names it.")]


@app.command()
def add(
    console: TenantConsole,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where alarms are mailed to.")],
) -> Answer:
    """Ask an address whether it wants alarms. Operators: --tenant '*' for everybody's alarms."""
    made = console.call("POST", "emails", {"address": address})
    told = "a link was mailed to it: nothing else is before it was opened"
    return in_facts(made, [("email", made["id"]), ("address", made["address"]), ("state", told)])


@app.command("list")
def list_emails(console: TenantConsole) -> Answer:
    """List addresses."""
    found = console.get("emails")
    rows = [
        [
            *(one["id"], one["address"], one["state"] if one["enabled"] else "disabled"),
            *(one["trouble"] or "-", one["created_by"]),
        ]
        for one in found["items"]
    ]
    nobody = "No address."
    if found["sender"] is None:
        nobody = "No address, and no mail: operators name a server with --smtp-url."
    return in_table(found, ["ID", "ADDRESS", "STATE", "TROUBLE", "ADDED BY"], rows, empty=nobody)


@app.command()
def log(console: TenantConsole, email: Id) -> Answer:
    """Show what was mailed, and how it went."""
    return log_of(console, _path(email))


@app.command()
def test(console: TenantConsole, email: Id) -> Answer:
    """Mail a test, and wait for how that went."""
    return waited_for(console, _path(email), console.call("POST", f"{_path(email)}/test"))


@app.command()
def disable(console: TenantConsole, email: Id, yes: Yes = False) -> Answer:
    """Have it mailed nothing for a while; nobody is asked anew."""
    confirm(f"What happens while {email} is disabled is never mailed to it; what waits waits on.", yes=yes)
    return switched(console, "email", _path(email), enabled=False)


@app.command()
def enable(console: TenantConsole, email: Id) -> Answer:
    """Have it mailed again."""
    return switched(console, "email", _path(email), enabled=True)


@app.command()
def remove(console: TenantConsole, email: Id, yes: Yes = False) -> None:
    """Have it mailed no more."""
    confirm(f"Address {email} is mailed nothing more; what waits is not sent.", yes=yes)
    console.call("DELETE", _path(email))
    print_facts([("removed", email)])


def _path(email: str) -> str:
    return f"emails/{quote(email, safe='')}"
