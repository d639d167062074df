"""`portico group-role`: which groups of the identity provider are let in where."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_options import OperatorConsole
from ctl.errors import CommandError
from ctl.output import Answer, in_facts, in_table, print_facts

app = Commands()

Group = Annotated[str, typer.Argument(metavar="GROUP", help="As the provider tells it.")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="Where its people are members.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="owner, developer or viewer; admin, operator.")]


@app.command("list")
def list_group_roles(console: OperatorConsole) -> Answer:
    """List which groups are let in, where, and as what."""
    items = console.get("group-roles")["items"]
    rows = [[one["group"], one["tenant"], one["role"], one["created_by"]] for one in items]
    return in_table(items, ["GROUP", "TENANT", "ROLE", "BY"], rows, empty="No group is let in.")


@app.command()
def add(console: OperatorConsole, group: Group, tenant: Tenant, role: Role) -> Answer:
    """Let a group in: who signs in and is of it is a member of the tenant."""
    made = console.call("POST", "group-roles", {"group": group, "tenant": tenant, "role": role})
    facts = [("group", made["group"]), ("tenant", made["tenant"]), ("role", made["role"])]
    return in_facts(made, facts)


@app.command()
def remove(console: OperatorConsole, group: Group, tenant: Tenant, yes: Yes = False) -> None:
    """Let a group in no more: who is in by it alone is logged out at once."""
    items = console.get("group-roles")["items"]
    found = next((one for one in items if (one["group"], one["tenant"]) == (group, tenant)), None)
    if found is None:
        raise CommandError(f"group '{group}' is not let into tenant '{tenant}'")
    confirm(f"Who is in tenant {tenant} by {group} alone is logged out at once.", yes=yes)
    console.call("DELETE", f"group-roles/{quote(found['id'], safe='')}")
    print_facts([("removed", group)])
