"""`portico tenant` and `portico key`: who owns instances, and with which keys."""

from typing import Annotated

import typer

from ctl.console_client import Console
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, Tenant
from ctl.output import print_facts, print_json, print_table

app = typer.Typer(no_args_is_help=True)
keys = typer.Typer(no_args_is_help=True)


@app.command("create")
def create_tenant(name: str, as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Create a tenant."""
    with Console.of(data_dir) as console:
        created = console.call("POST", "tenants", {"name": name})
    if as_json:
        print_json(created)
    else:
        print_facts([("tenant", created["name"])])


@app.command("list")
def list_tenants(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """List tenants."""
    with Console.of(data_dir) as console:
        items = console.all_items("tenants")
    if as_json:
        print_json(items)
    else:
        print_table(["TENANT", "CREATED"], ([t["name"], t["created_at"]] for t in items), empty="No tenants.")


@keys.command("create")
def create_key(
    name: str,
    role: Annotated[str, typer.Option(metavar="owner|viewer|operator")] = "owner",
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create an API key; it is shown once."""
    with Console.of(data_dir, tenant) as console:
        created = console.call("POST", "keys", {"name": name, "role": role})
    if as_json:
        print_json(created)
    else:
        print_facts(
            [("key", created["secret"]), ("role", created["role"]), ("note", "shown once: store it now")]
        )


@keys.command("list")
def list_keys(as_json: AsJson = False, tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """List keys."""
    with Console.of(data_dir, tenant) as console:
        items = console.all_items("keys")
    if as_json:
        print_json(items)
    else:
        rows = ([k["id"], k["name"], k["role"], k["tenant"], k["created_at"]] for k in items)
        print_table(["ID", "NAME", "ROLE", "TENANT", "CREATED"], rows, empty="No keys.")


@keys.command("delete")
def delete_key(key_id: str, tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Revoke a key."""
    with Console.of(data_dir, tenant) as console:
        console.call("DELETE", f"keys/{key_id}")
    print_facts([("deleted", key_id)])
