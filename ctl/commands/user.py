"""`portico user`: users of an instance, whom its clients log in as."""

from pathlib import Path
from typing import Annotated

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_facts, in_table, terminal

app = Commands()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="Its first line; without, a password is drawn."),
]


def _body(password_file: Path | None) -> dict[str, str]:
    if password_file is None:
        return {}
    password = password_file.read_text().partition("\n")[0].removesuffix("\r")
    if not password:
        raise usage(f"{password_file} has no password in its first line")
    return {"password": password}


@app.command()
def create(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    password_file: PasswordFile = None,
    superuser: Annotated[
        bool, typer.Option("--superuser", help="It may do everything, whatever ACLs say.")
    ] = False,
) -> Answer:
    """Create a user. A password that was drawn is shown now and never again."""
    body = {"name": name, "superuser": superuser, **_body(password_file)}
    return _answer(console.call("POST", instance_path(instance, "users"), body))


@app.command("list")
def list_users(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """List the users of an instance."""
    items = console.get(instance_path(instance, "users"))["items"]
    rows = [
        [one["name"], ", ".join(one["mechanisms"]), "superuser" if one["superuser"] else ""] for one in items
    ]
    return in_table(items, ["NAME", "MECHANISMS", "RIGHTS"], rows, empty="No users.")


@app.command()
def password(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    password_file: PasswordFile = None,
    yes: Yes = False,
) -> Answer:
    """Give a user another password; its connections are cut."""
    confirm(f"User {name}: its clients are cut off until they have the new password.", yes=yes)
    path = instance_path(instance, "users", name, "password")
    return _answer(console.call("POST", path, _body(password_file)))


@app.command()
def superuser(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    revoke: Annotated[bool, typer.Option("--revoke", help="It may do what ACLs allow, no more.")] = False,
) -> Answer:
    """Let a user do everything in the instance, whatever ACLs say."""
    path = instance_path(instance, "users", name)
    user = console.call("PATCH", path, {"superuser": not revoke})
    return in_facts(user, [("user", name), ("rights", "superuser" if user["superuser"] else "as ACLs say")])


@app.command()
def delete(console: TenantConsole, instance: InstanceArgument, name: Name, yes: Yes = False) -> Answer:
    """Delete a user; its connections are cut."""
    confirm(f"User {name}: its clients are cut off for good.", yes=yes)
    console.call("DELETE", instance_path(instance, "users", name))
    return Answer({"name": name, "deleted": True}, lambda: terminal().print(f"deleted: {name}"))


def _answer(user: dict[str, str]) -> Answer:
    shown = [("user", user["name"]), ("mechanisms", ", ".join(user["mechanisms"]))]
    if user["password"]:
        shown.append(("password", f"{user['password']}  (shown only now)"))
    return in_facts(user, shown)
