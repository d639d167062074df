"""`portico tenant` and `portico key`: who owns instances, and with which keys."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl import ceilings
from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_options import OperatorConsole, TenantConsole
from ctl.output import Answer, in_facts, in_table, print_facts

Ckafka = Annotated[
    bool, typer.Option("--ckafka", help="Of the access-key pairs that Tencent's SDK and tccli sign with.")
]
TenantName = Annotated[str, typer.Argument(metavar="TENANT")]
app = Commands()
keys = Commands()


@app.command("create")
def create_tenant(console: OperatorConsole, name: str) -> Answer:
    """Create a tenant."""
    created = console.call("POST", "tenants", {"name": name})
    return in_facts(created, [("tenant", created["name"])])


@app.command("list")
def list_tenants(console: OperatorConsole) -> Answer:
    """List tenants."""
    items = console.all_items("tenants")
    return in_table(
        items, ["TENANT", "CREATED"], ([t["name"], t["created_at"]] for t in items), empty="No tenants."
    )


@app.command("show")
def show_tenant(console: OperatorConsole, name: TenantName) -> Answer:
    """What a tenant may have, has, and may still order."""
    standing = console.get(f"tenants/{quote(name, safe='')}/ceilings")
    return ceilings.answer(standing)


@app.command("set-limits")
def set_limits(console: OperatorConsole, name: TenantName, wanted: ceilings.Wanted) -> Answer:
    """Set how much a tenant may have in all; `default` undoes it. Instances keep what they have."""
    changed = console.call("PATCH", f"tenants/{quote(name, safe='')}/ceilings", wanted)
    return ceilings.answer(changed)


@keys.command("create")
def create_key(
    console: TenantConsole,
    name: str,
    role: Annotated[str, typer.Option(metavar="owner|viewer|operator")] = "owner",
    ckafka: Ckafka = False,
) -> Answer:
    """Create an API key, or an access-key pair; it is shown once."""
    created = console.call("POST", _path(ckafka), {"name": name, "role": role})
    secrets = (
        [("key", "secret")] if not ckafka else [("secret id", "secret_id"), ("secret key", "secret_key")]
    )
    facts = [(words, created[name]) for words, name in [*secrets, ("role", "role")]]
    return in_facts(created, [*facts, ("note", "shown once: store it now")])


@keys.command("list")
def list_keys(console: TenantConsole, ckafka: Ckafka = False) -> Answer:
    """List keys."""
    items = console.all_items(_path(ckafka))
    name_of_id = "secret_id" if ckafka else "id"
    rows = ([k[name_of_id], k["name"], k["role"], k["tenant"], k["created_at"]] for k in items)
    return in_table(items, ["ID", "NAME", "ROLE", "TENANT", "CREATED"], rows, empty="No keys.")


@keys.command("delete")
def delete_key(console: TenantConsole, key_id: str, ckafka: Ckafka = False, yes: Yes = False) -> None:
    """Revoke a key at once."""
    confirm(f"Whoever uses key {key_id} is refused from then on.", yes=yes)
    console.call("DELETE", f"{_path(ckafka)}/{quote(key_id, safe='')}")
    print_facts([("deleted", key_id)])


def _path(ckafka: bool) -> str:
    return "access-keys" if ckafka else "keys"
