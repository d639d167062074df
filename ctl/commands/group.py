"""`portico group`: consumer groups of an instance."""

from typing import Annotated

import typer

from ctl.console_client import Console, instance_path
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, InstanceArgument, Tenant
from ctl.output import print_facts, print_json, print_table

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
def list_groups(
    instance: InstanceArgument,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List groups."""
    with Console.of(data_dir, tenant) as console:
        items = console.all_items(instance_path(instance, "groups"))
    if as_json:
        print_json(items)
        return
    rows = ([item["group"], item["state"], item["protocol_type"]] for item in items)
    print_table(["GROUP", "STATE", "TYPE"], rows, empty="No groups.")


@app.command()
def describe(
    instance: InstanceArgument,
    name: Name,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show members, offsets and lag of a group."""
    with Console.of(data_dir, tenant) as console:
        group = console.get(instance_path(instance, "groups", name))
    if as_json:
        print_json(group)
        return
    print_facts([("group", group["group"]), ("state", group["state"]), ("lag", group["lag"])])
    names = ("topic", "partition", "committed_offset", "log_end_offset", "lag")
    rows = (["-" if offset[name] is None else offset[name] for name in names] for offset in group["offsets"])
    columns = ["TOPIC", "PARTITION", "COMMITTED OFFSET", "LOG END OFFSET", "LAG"]
    print_table(columns, rows, empty="No committed offsets.")
    members = ([m["member_id"], m["client_id"], m["client_host"]] for m in group["members"])
    print_table(["MEMBER", "CLIENT ID", "HOST"], members, empty="No members.")


@app.command()
def delete(
    instance: InstanceArgument, name: Name, tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """Delete an empty group and its offsets."""
    with Console.of(data_dir, tenant) as console:
        console.call("DELETE", instance_path(instance, "groups", name))
    print_facts([("deleted", name)])
