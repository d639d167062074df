"""`portico instance undelete|purge|adopt|discard`, and the lists of what is kept and not served."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from contracts.units import format_bytes
from ctl.console_client import Console
from ctl.errors import usage
from ctl.options import (
    DEFAULT_DATA_DIR,
    AsJson,
    DataDir,
    InstanceArgument,
    Tenant,
    parse_rate,
    parse_size,
)
from ctl.output import print_facts, print_json, print_table

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="See `portico instance list --absent`.")]
Owner = Annotated[str, typer.Option("--tenant", help="Whose it is from now on.")]
NewName = Annotated[str | None, typer.Option("--name", help="Another name, where its own is taken.")]
Rate = Annotated[int | None, typer.Option(parser=parse_rate, metavar="RATE", help="Where nobody knows it.")]
Size = Annotated[int | None, typer.Option(parser=parse_size, metavar="SIZE", help="Where nobody knows it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Yes: what is purged is gone for good.")]


def list_kept(*, absent: bool, as_json: bool, tenant: str | None, data_dir: Path) -> None:
    """List what is absent, or else deleted."""
    with Console.of(data_dir, None if absent else tenant) as console:
        items = console.get("absent-instances")["items"] if absent else console.all_items("deleted-instances")
    if as_json:
        print_json(items)
    elif absent:
        columns = ["ID", "NAME", "TENANT", "ABSENT SINCE", "STORED", "PARTITIONS", "TOLD BY"]
        print_table(columns, map(_absent_row, items), empty="No instance is absent.")
    else:
        columns = ["ID", "NAME", "TENANT", "STATE", "DELETED", "KEPT UNTIL", "STORED", "WAITS FOR"]
        print_table(columns, map(_deleted_row, items), empty="No deleted instance waits for its purge.")


def _absent_row(item: Any) -> list[str]:
    return [
        item["id"],
        (item["name"] or "unknown") + (" (purged)" if item["purged"] else ""),
        item["tenant"] or "unknown",
        item["absent_since"] or "-",
        format_bytes(item["stored_bytes"]),
        str(item["partitions"]),
        ", ".join(item["holders"]),
    ]


def _deleted_row(item: Any) -> list[str]:
    stored = item["stored_bytes"]
    return [
        item["id"],
        item["name"],
        item["tenant"],
        item["state"],
        item["deleted_at"],
        item["purge_after"],
        "unknown" if stored is None else format_bytes(stored),
        item["waits_for"] or "-",
    ]


def add_commands(app: typer.Typer, show: Callable[[Any, bool], None]) -> None:
    """Add the commands to `portico instance`; `show` prints an instance."""
    _add_deleted(app, show)
    _add_absent(app, show)


def _add_deleted(app: typer.Typer, show: Callable[[Any, bool], None]) -> None:
    @app.command()
    def undelete(
        instance: InstanceArgument,
        name: NewName = None,
        as_json: AsJson = False,
        tenant: Tenant = None,
        data_dir: DataDir = DEFAULT_DATA_DIR,
    ) -> None:
        """Bring a deleted instance back, within its grace: id, topics, address and offsets as they were."""
        with Console.of(data_dir, tenant) as console:
            back = console.call(
                "POST", f"deleted-instances/{quote(instance, safe='')}/undelete", {"name": name}
            )
            show(back if back["state"] == "suspended" else console.wait_until_serving(back["id"]), as_json)

    @app.command()
    def purge(
        instance: InstanceArgument,
        yes: Yes = False,
        as_json: AsJson = False,
        data_dir: DataDir = DEFAULT_DATA_DIR,
    ) -> None:
        """Remove a deleted instance's data now (operators). Nothing brings it back."""
        if not yes:
            raise usage("what is purged is gone for good: say --yes")
        with Console.of(data_dir) as console:
            purged = console.call("POST", f"deleted-instances/{quote(instance, safe='')}/purge")
        if as_json:
            print_json({"id": purged["id"], "state": purged["state"]})
        else:
            print_facts([("purging", f"{purged['name']} ({purged['id']})")])


def _add_absent(app: typer.Typer, show: Callable[[Any, bool], None]) -> None:
    @app.command()
    def adopt(
        instances: Ids,
        owner: Owner,
        name: NewName = None,
        produce_rate: Rate = None,
        consume_rate: Rate = None,
        capacity: Size = None,
        as_json: AsJson = False,
        data_dir: DataDir = DEFAULT_DATA_DIR,
    ) -> None:
        """Take absent instances back into service, as they were served last (operators)."""
        if name is not None and len(instances) > 1:
            raise usage("--name is for one instance")
        body = {
            "tenant": owner,
            "name": name,
            "produce_rate_bytes_per_s": produce_rate,
            "consume_rate_bytes_per_s": consume_rate,
            "capacity_bytes": capacity,
        }
        with Console.of(data_dir) as console:
            for each in instances:
                adopted = console.call("POST", f"absent-instances/{quote(each, safe='')}/adopt", body)
                waits = adopted["state"] != "suspended"
                show(console.wait_until_serving(adopted["id"]) if waits else adopted, as_json)

    @app.command()
    def discard(
        instances: Ids, owner: Owner, as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR
    ) -> None:
        """Delete absent instances (operators): kept for the grace, then purged."""
        with Console.of(data_dir, owner) as console:
            gone = [
                console.call("POST", f"absent-instances/{quote(each, safe='')}/discard") for each in instances
            ]
        if as_json:
            print_json(gone)
        else:
            print_facts(
                [("deleted", f"{one['id']}, kept until {one['deletion']['purge_after']}") for one in gone]
            )
