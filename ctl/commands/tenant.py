"""`portico tenant` and `portico key`: who owns instances, and with which keys."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl import ceilings
from ctl.console_client import Console
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, Tenant
from ctl.output import print_facts, print_json, print_table

Ckafka = Annotated[
    bool, typer.Option("--ckafka", help="Of the access-key pairs that Tencent's SDK and tccli sign with.")
]
TenantName = Annotated[str, typer.Argument(metavar="TENANT")]
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


@app.command("show")
def show_tenant(name: TenantName, as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """What a tenant may have, has, and may still order."""
    with Console.of(data_dir) as console:
        standing = console.get(f"tenants/{quote(name, safe='')}/ceilings")
    ceilings.show(standing, as_json)


@app.command("set-limits")
def set_limits(
    name: TenantName,
    instances: ceilings.InstancesOption = None,
    produce_rate: ceilings.ProduceRateOption = None,
    consume_rate: ceilings.ConsumeRateOption = None,
    capacity: ceilings.CapacityOption = None,
    partitions: ceilings.PartitionsOption = None,
    connections: ceilings.ConnectionsOption = None,
    faults: ceilings.FaultsOption = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Set how much a tenant may have in all; `default` undoes it. Instances keep what they have."""
    body = ceilings.change(
        instances=instances,
        produce_rate_bytes_per_s=produce_rate,
        consume_rate_bytes_per_s=consume_rate,
        capacity_bytes=capacity,
        partitions=partitions,
        connections=connections,
        faults=faults,
    )
    with Console.of(data_dir) as console:
        changed = console.call("PATCH", f"tenants/{quote(name, safe='')}/ceilings", body)
    ceilings.show(changed, as_json)


@keys.command("create")
def create_key(
    name: str,
    role: Annotated[str, typer.Option(metavar="owner|viewer|operator")] = "owner",
    ckafka: Ckafka = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create an API key, or an access-key pair; it is shown once."""
    with Console.of(data_dir, tenant) as console:
        created = console.call("POST", _path(ckafka), {"name": name, "role": role})
    if as_json:
        print_json(created)
    elif ckafka:
        facts = [("secret id", created["secret_id"]), ("secret key", created["secret_key"])]
        print_facts([*facts, ("role", created["role"]), ("note", "shown once: store it now")])
    else:
        print_facts(
            [("key", created["secret"]), ("role", created["role"]), ("note", "shown once: store it now")]
        )


@keys.command("list")
def list_keys(
    ckafka: Ckafka = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List keys."""
    with Console.of(data_dir, tenant) as console:
        items = console.all_items(_path(ckafka))
    if as_json:
        print_json(items)
    else:
        name_of_id = "secret_id" if ckafka else "id"
        rows = ([k[name_of_id], k["name"], k["role"], k["tenant"], k["created_at"]] for k in items)
        print_table(["ID", "NAME", "ROLE", "TENANT", "CREATED"], rows, empty="No keys.")


@keys.command("delete")
def delete_key(
    key_id: str, ckafka: Ckafka = False, tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """Revoke a key at once."""
    with Console.of(data_dir, tenant) as console:
        console.call("DELETE", f"{_path(ckafka)}/{quote(key_id, safe='')}")
    print_facts([("deleted", key_id)])


def _path(ckafka: bool) -> str:
    return "access-keys" if ckafka else "keys"
