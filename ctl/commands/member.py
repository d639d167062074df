"""`portico member`: people of a tenant, who log in at the console."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import Console
from ctl.console_options import TenantConsole
from ctl.options import parse_hours
from ctl.output import Answer, in_facts, in_table, print_facts

app = Commands()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The member's name, as ann or ann@acme.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="owner, developer or viewer; admin, operator.")]
ValidFor = Annotated[
    int | None,
    typer.Option("--for", parser=parse_hours, metavar="TIME", help="How long the link is good; else 72h."),
]


@app.command("list")
def list_members(console: TenantConsole) -> Answer:
    """List members, and invitations that nobody has accepted yet."""
    items: list[dict[str, str | None]] = [*console.all_items("members"), *console.get("invitations")["items"]]
    rows = [[one["user"], one["role"], _standing(one)] for one in items]
    return in_table(items, ["MEMBER", "ROLE", "LAST LOGIN"], rows, empty="No members.")


@app.command()
def invite(
    console: TenantConsole, name: Name, role: Role = "developer", valid_for: ValidFor = None
) -> Answer:
    """Invite somebody: the link is shown once, and good once."""
    body: dict[str, object] = {"name": name, "role": role}
    if valid_for is not None:
        body["valid_hours"] = valid_for
    made = console.call("POST", "invitations", body)
    link = f"{console.url}/#/invitation/{made['secret']}"
    facts = [("member", made["user"]), ("role", made["role"]), ("link", link), ("until", made["expires_at"])]
    return in_facts({**made, "link": link}, facts)


@app.command()
def role(console: TenantConsole, name: Name, role: Role, yes: Yes = False) -> Answer:
    """Give a member another role, from the next request on."""
    confirm(f"Member {name} is {role} from then on.", yes=yes)
    changed = console.call("PATCH", _member(name), {"role": role})
    return in_facts(changed, [("member", changed["user"]), ("role", changed["role"])])


@app.command()
def remove(console: TenantConsole, name: Name, yes: Yes = False) -> None:
    """Remove a member, or withdraw an invitation."""
    confirm(f"{name} is logged out everywhere, and does not come in again. Keys stay.", yes=yes)
    invitation = _invitation(console, name)
    if invitation is None:
        console.call("DELETE", _member(name))
    else:
        console.call("DELETE", f"invitations/{quote(invitation, safe='')}")
    print_facts([("removed", name)])


@app.command("reset-password")
def reset_password(console: TenantConsole, name: Name, yes: Yes = False) -> Answer:
    """Give a member a new random password and end the member's sessions."""
    confirm(f"{name} is logged out everywhere, and needs the new password.", yes=yes)
    reset = console.call("POST", f"{_member(name)}/reset-password")
    return in_facts(reset, [("member", reset["user"]), ("password", f"{reset['password']}   (shown once)")])


def _standing(one: dict[str, str | None]) -> str:
    if "invited_by" in one:
        return f"invited until {one['expires_at']}"
    return str(one["last_login_at"] or "never")


def _member(name: str) -> str:
    return f"members/{quote(name, safe='')}"


def _invitation(console: Console, name: str) -> str | None:
    items = console.get("invitations")["items"]
    found = (one["id"] for one in items if name in (one["user"], one["user"].partition("@")[0]))
    return next(found, None)
