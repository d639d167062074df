"""`portico instance undelete|purge|adopt|discard`, and the lists of what is kept and not served."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from contracts.units import format_bytes
from ctl.console_client import Console
from ctl.console_options import OperatorConsole, TenantConsole
from ctl.errors import usage
from ctl.options import (
    DEFAULT_DATA_DIR,
    DataDir,
    InstanceArgument,
    parse_rate,
    parse_size,
)
from ctl.output import Answer, in_facts, in_table

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="See `portico instance list --absent`.")]
Owner = Annotated[str, typer.Option("--tenant", help="Whose it is from now on.")]
NewName = Annotated[str | None, typer.Option("--name", help="Another name, where its own is taken.")]
Rate = Annotated[int | None, typer.Option(parser=parse_rate, metavar="RATE", help="Where nobody knows it.")]
Size = Annotated[int | None, typer.Option(parser=parse_size, metavar="SIZE", help="Where nobody knows it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Yes: what is purged is gone for good.")]


def absent_instances(console: Console) -> Answer:
    """What brokers hold and the console does not know."""
    items = console.get("absent-instances")["items"]
    columns = ["ID", "NAME", "TENANT", "ABSENT SINCE", "STORED", "PARTITIONS", "TOLD BY"]
    return in_table(items, columns, map(_absent_row, items), empty="No instance is absent.")


def deleted_instances(console: Console) -> Answer:
    """What waits for its purge."""
    items = console.all_items("deleted-instances")
    columns = ["ID", "NAME", "TENANT", "STATE", "DELETED", "KEPT UNTIL", "STORED", "WAITS FOR"]
    rows = map(_deleted_row, items)
    return in_table(items, columns, rows, empty="No deleted instance waits for its purge.")


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


def add_commands(app: typer.Typer, answer: Callable[[Any], Answer]) -> None:
    """Add the commands to `portico instance`; `answer` shows an instance."""
    _add_deleted(app, answer)
    _add_absent(app, answer)


def _add_deleted(app: typer.Typer, answer: Callable[[Any], Answer]) -> None:
    @app.command()
    def undelete(console: TenantConsole, instance: InstanceArgument, name: NewName = None) -> Answer:
        """Bring a deleted instance back, within its grace: id, topics, address and offsets as they were."""
        back = console.call("POST", f"deleted-instances/{quote(instance, safe='')}/undelete", {"name": name})
        return answer(back if back["state"] == "suspended" else console.wait_until_serving(back["id"]))

    @app.command()
    def purge(console: OperatorConsole, instance: InstanceArgument, yes: Yes = False) -> Answer:
        """Remove a deleted instance's data now (operators). Nothing brings it back."""
        if not yes:
            raise usage("what is purged is gone for good: say --yes")
        purged = console.call("POST", f"deleted-instances/{quote(instance, safe='')}/purge")
        return in_facts(
            {"id": purged["id"], "state": purged["state"]},
            [("purging", f"{purged['name']} ({purged['id']})")],
        )


def _add_absent(app: typer.Typer, answer: Callable[[Any], Answer]) -> None:
    @app.command()
    def adopt(
        console: OperatorConsole,
        instances: Ids,
        owner: Owner,
        name: NewName = None,
        produce_rate: Rate = None,
        consume_rate: Rate = None,
        capacity: Size = None,
    ) -> Iterator[Answer]:
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
        for each in instances:
            adopted = console.call("POST", f"absent-instances/{quote(each, safe='')}/adopt", body)
            waits = adopted["state"] != "suspended"
            yield answer(console.wait_until_serving(adopted["id"]) if waits else adopted)

    @app.command()
    def discard(instances: Ids, owner: Owner, data_dir: DataDir = DEFAULT_DATA_DIR) -> Answer:
        """Delete absent instances (operators): kept for the grace, then purged."""
        with Console.of(data_dir, owner) as console:
            gone = [
                console.call("POST", f"absent-instances/{quote(each, safe='')}/discard") for each in instances
            ]
        return in_facts(
            gone, [("deleted", f"{one['id']}, kept until {one['deletion']['purge_after']}") for one in gone]
        )
