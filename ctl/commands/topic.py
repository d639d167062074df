"""`portico topic`: topics of an instance."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from contracts.units import format_bytes
from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_table, print_facts, print_table

app = Commands()

Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Partitions = Annotated[int, typer.Option(min=1)]
OptionalPartitions = Annotated[int | None, typer.Option("--partitions", min=1)]
Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Repeat for several.")
]
Resets = Annotated[list[str] | None, typer.Option("--reset", metavar="KEY", help="Back to the default.")]


def pairs(configs: list[str] | None) -> dict[str, str]:
    """Configs by their names. Raises: CommandError."""
    found = {}
    for text in configs or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise usage(f"--config '{text}' is not KEY=VALUE")
        found[key] = value
    return found


def changes_of(
    partitions: int | None, configs: list[str] | None, resets: list[str] | None
) -> Mapping[str, str | None]:
    """Configs to set, and to reset where there is no value. Raises: CommandError without any change."""
    changes = dict[str, str | None](pairs(configs)) | dict.fromkeys(resets or [])
    if not changes and partitions is None:
        raise usage("nothing to change: name --partitions, --config or --reset")
    return changes


@app.command("list")
def list_topics(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """List topics."""
    items = console.all_items(instance_path(instance, "topics"))
    rows = ([item["name"], item["partitions"], format_bytes(item["stored_bytes"] or 0)] for item in items)
    return in_table(items, ["TOPIC", "PARTITIONS", "STORED"], rows, empty="No topics.")


@app.command()
def create(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    partitions: OptionalPartitions = None,
    config: Configs = None,
) -> Answer:
    """Create a topic. Without --partitions it has the instance's default number."""
    body = {"name": name, "partitions": partitions, "configs": pairs(config)}
    return _answer(console.call("POST", instance_path(instance, "topics"), body))


@app.command()
def describe(console: TenantConsole, instance: InstanceArgument, name: Name) -> Answer:
    """Show partitions and configs of a topic."""
    return _answer(console.get(instance_path(instance, "topics", name)))


@app.command()
def alter(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    partitions: OptionalPartitions = None,
    config: Configs = None,
    reset: Resets = None,
) -> Answer:
    """Change configs or add partitions."""
    changes = changes_of(partitions, config, reset)
    body: dict[str, object] = {"configs": changes} if changes else {}
    if partitions is not None:
        body["partitions"] = partitions
    return _answer(console.call("PATCH", instance_path(instance, "topics", name), body))


@app.command()
def delete(console: TenantConsole, instance: InstanceArgument, name: Name, yes: Yes = False) -> None:
    """Delete a topic and its data."""
    confirm(f"Topic {name} and all its records go for good.", yes=yes)
    console.call("DELETE", instance_path(instance, "topics", name))
    print_facts([("deleted", name)])


@app.command("delete-records")
def delete_records(
    console: TenantConsole,
    instance: InstanceArgument,
    name: Name,
    before: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="Repeat; without it all records go.")
    ] = None,
    yes: Yes = False,
) -> Answer:
    """Delete the oldest records of a topic; their space is free at once."""
    body: dict[str, object] = {}
    if before:
        body["partitions"] = [_cut(text) for text in before]
    which = f"Records of {name} before {', '.join(before)}" if before else f"All records of {name}"
    confirm(f"{which} go for good.", yes=yes)
    result = console.call("POST", instance_path(instance, "topics", name, "delete-records"), body)
    rows = ([item["partition"], item["error"] or item["log_start_offset"]] for item in result["partitions"])
    return in_table(result, ["PARTITION", "LOG START OFFSET"], rows, empty="No partitions.")


def _answer(topic: Any) -> Answer:
    return Answer(topic, lambda: _show(topic))


def _cut(text: str) -> dict[str, int]:
    partition, _, offset = text.partition(":")
    try:
        return {"partition": int(partition), "before_offset": int(offset)}
    except ValueError:
        raise usage(f"--before '{text}' is not PARTITION:OFFSET") from None


def _show(topic: Any) -> None:
    chosen = [(config["name"], config["value"]) for config in topic["configs"] if not config["is_default"]]
    print_facts([("topic", topic["name"]), ("stored", format_bytes(topic["stored_bytes"] or 0)), *chosen])
    columns = ["PARTITION", "LEADER", "LOG START OFFSET", "HIGH WATERMARK", "STORED"]
    names = ("partition", "leader", "log_start_offset", "high_watermark")
    rows = (
        [
            *("-" if part[name] is None else part[name] for name in names),
            format_bytes(part["size_bytes"] or 0),
        ]
        for part in topic["partitions"]
    )
    print_table(columns, rows, empty="")
