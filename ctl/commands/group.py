"""`portico group`: consumer groups of an instance."""

import csv
import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument, parse_time
from ctl.output import Answer, in_table, print_facts, print_table

app = Commands()

Name = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
def list_groups(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """List groups."""
    items = console.all_items(instance_path(instance, "groups"))
    rows = (
        [item["group"], item["state"], item["protocol_type"], _known(item["lag"]), _age(item["lag_seconds"])]
        for item in items
    )
    return in_table(items, ["GROUP", "STATE", "TYPE", "LAG", "LAG S"], rows, empty="No groups.")


@app.command()
def describe(console: TenantConsole, instance: InstanceArgument, name: Name) -> Answer:
    """Show members, offsets and lag of a group, in records and in seconds."""
    group = console.get(instance_path(instance, "groups", name))
    return Answer(group, lambda: _show(group))


def _show(group: Any) -> None:
    print_facts(
        [
            ("group", group["group"]),
            ("state", group["state"]),
            ("lag", group["lag"]),
            ("lag seconds", _age(group["lag_seconds"])),
        ]
    )
    names = ("topic", "partition", "committed_offset", "log_end_offset", "lag")
    rows = (
        [*(_known(offset[name]) for name in names), _age(offset["lag_seconds"])]
        for offset in group["offsets"]
    )
    columns = ["TOPIC", "PARTITION", "COMMITTED OFFSET", "LOG END OFFSET", "LAG", "LAG S"]
    print_table(columns, rows, empty="No committed offsets.")
    members = ([m["member_id"], m["client_id"], m["client_host"]] for m in group["members"])
    print_table(["MEMBER", "CLIENT ID", "HOST"], members, empty="No members.")


def _known(value: object) -> object:
    return "-" if value is None else value


def _age(seconds: float | None) -> str:
    """Not known, or not yet: a dash, never 0."""
    return "-" if seconds is None else f"{seconds:.1f}"


@app.command("reset-offsets")
def reset_offsets(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Where the log starts.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Where the log ends.")] = False,
    to_datetime: Annotated[
        int | None,
        typer.Option(parser=parse_time, metavar="TIME", help="The first record from then on; RFC 3339."),
    ] = None,
    to_offset: Annotated[int | None, typer.Option(min=0, help="This offset in every partition.")] = None,
    shift_by: Annotated[
        int | None, typer.Option(help="So many records on, or with a minus back: --shift-by=-10.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Lines TOPIC,PARTITION,OFFSET, as --export prints them.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:0,1]", help="Only these; repeat. Else where the group has committed."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without this only the plan is shown.")
    ] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the plan as --from-file reads it.")] = False,
) -> Answer | None:
    """Set the committed offsets of a group without members; a dry run unless --execute is given."""
    choices: dict[str, dict[str, object] | None] = {
        "--to-earliest": {"to": "earliest"} if to_earliest else None,
        "--to-latest": {"to": "latest"} if to_latest else None,
        "--to-datetime": None if to_datetime is None else {"to": "datetime", "at": _rfc3339(to_datetime)},
        "--to-offset": None if to_offset is None else {"to": "offset", "offset": to_offset},
        "--shift-by": None if shift_by is None else {"to": "shift", "shift": shift_by},
        "--from-file": None if from_file is None else {"to": "offsets", "offsets": _listed(from_file)},
    }
    chosen = [choice for choice in choices.values() if choice is not None]
    if len(chosen) != 1:
        raise usage(f"choose one of {', '.join(choices)}")
    body: dict[str, object] = chosen[0] | {"execute": execute}
    if topic:
        body["topics"] = [_topic(text) for text in topic]
    result = console.call("POST", instance_path(instance, "groups", name, "reset-offsets"), body)
    if export:
        _export(result)
        return None
    return Answer(result, lambda: _show_plan(result))


def _export(result: Any) -> None:
    for one in result["partitions"]:
        if one["new_offset"] is not None:
            print(f"{one['topic']},{one['partition']},{one['new_offset']}")


def _show_plan(result: Any) -> None:
    names = ("topic", "partition", "committed_offset", "new_offset", "note")
    rows = (["-" if one[name] is None else one[name] for name in names] for one in result["partitions"])
    print_table(["TOPIC", "PARTITION", "COMMITTED", "NEW OFFSET", "NOTE"], rows, empty="No partitions.")
    print("Done." if result["executed"] else "A dry run: nothing was changed. --execute does it.")


def _rfc3339(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).isoformat()


def _topic(text: str) -> dict[str, object]:
    name, separator, partitions = text.rpartition(":")
    if not separator:
        return {"topic": text}
    try:
        return {"topic": name, "partitions": [int(one) for one in partitions.split(",")]}
    except ValueError:
        raise usage(f"--topic '{text}' is not TOPIC or TOPIC:0,1") from None


def _listed(path: Path) -> list[dict[str, object]]:
    """Offsets of a file in the form of Kafka's own tool. Raises: CommandError."""
    try:
        with path.open(newline="") as file:
            rows = [[cell.strip().strip('"') for cell in row] for row in csv.reader(file) if row]
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}") from None
    try:
        return [
            {"topic": topic, "partition": int(partition), "offset": int(offset)}
            for topic, partition, offset in rows
        ]
    except ValueError:
        raise usage(f"{path} is not made of lines TOPIC,PARTITION,OFFSET") from None


@app.command()
def delete(console: TenantConsole, instance: InstanceArgument, name: Name, yes: Yes = False) -> None:
    """Delete an empty group and its offsets."""
    confirm(f"Group {name} and its committed offsets go for good.", yes=yes)
    console.call("DELETE", instance_path(instance, "groups", name))
    print_facts([("deleted", name)])
