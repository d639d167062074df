"""`portico tenant` and `portico key`: who owns instances, and with which keys."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl import ceilings
from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_options import OperatorConsole, TenantConsole
from ctl.options import parse_hours
from ctl.output import Answer, in_facts, in_table, print_facts

Ckafka = Annotated[
    bool, typer.Option("--ckafka", help="Of the access-key pairs that Tencent's SDK and tccli sign with.")
]
ValidFor = Annotated[
    int | None,
    typer.Option("--for", parser=parse_hours, metavar="TIME", help="How long it is good, such as 90d."),
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
    role: Annotated[str, typer.Option(metavar="owner|developer|viewer|operator|admin")] = "owner",
    ckafka: Ckafka = False,
    valid_for: ValidFor = None,
) -> Answer:
    """Create an API key, or an access-key pair; it is shown once."""
    body: dict[str, object] = {"name": name, "role": role}
    if valid_for is not None:
        body["valid_hours"] = valid_for
    created = console.call("POST", _path(ckafka), body)
    secrets = (
        [("key", "secret")] if not ckafka else [("secret id", "secret_id"), ("secret key", "secret_key")]
    )
    facts = [(words, created[name]) for words, name in [*secrets, ("role", "role")]]
    return in_facts(created, [*facts, ("note", "shown once: store it now")])


@keys.command("rotate")
def rotate_key(
    console: TenantConsole,
    key_id: str,
    overlap: Annotated[
        int, typer.Option(parser=parse_hours, metavar="TIME", help="How long the old secret stays good.")
    ] = 24,
) -> Answer:
    """Give an API key another secret; it is shown once."""
    rotated = console.call("POST", f"keys/{quote(key_id, safe='')}/rotate", {"overlap_hours": overlap})
    return in_facts(rotated, [("key", rotated["secret"]), ("old secret until", rotated["previous_until"])])


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
