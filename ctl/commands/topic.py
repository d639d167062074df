"""`portico topic`: topics of an instance."""

from typing import Annotated, Any

import typer

from contracts.units import format_bytes
from ctl.console_client import Console, instance_path
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, InstanceArgument, Tenant
from ctl.output import print_facts, print_json, print_table

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Repeat for several.")
]


def _pairs(configs: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in configs or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise usage(f"--config '{text}' is not KEY=VALUE")
        pairs[key] = value
    return pairs


@app.command("list")
def list_topics(
    instance: InstanceArgument,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List topics."""
    with Console.of(data_dir, tenant) as console:
        items = console.all_items(instance_path(instance, "topics"))
    if as_json:
        print_json(items)
        return
    rows = ([item["name"], item["partitions"], format_bytes(item["stored_bytes"] or 0)] for item in items)
    print_table(["TOPIC", "PARTITIONS", "STORED"], rows, empty="No topics.")


@app.command()
def create(
    instance: InstanceArgument,
    name: Name,
    partitions: Annotated[int, typer.Option(min=1)] = 1,
    config: Configs = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create a topic."""
    body = {"name": name, "partitions": partitions, "configs": _pairs(config)}
    with Console.of(data_dir, tenant) as console:
        _show(console.call("POST", instance_path(instance, "topics"), body), as_json)


@app.command()
def describe(
    instance: InstanceArgument,
    name: Name,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show partitions and configs of a topic."""
    with Console.of(data_dir, tenant) as console:
        _show(console.get(instance_path(instance, "topics", name)), as_json)


@app.command()
def alter(
    instance: InstanceArgument,
    name: Name,
    partitions: Annotated[int | None, typer.Option(min=1)] = None,
    config: Configs = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="KEY", help="Back to the default.")
    ] = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Change configs or add partitions."""
    body: dict[str, Any] = {}
    if config or reset:
        body["configs"] = dict[str, str | None](_pairs(config)) | dict.fromkeys(reset or [])
    if partitions is not None:
        body["partitions"] = partitions
    if not body:
        raise usage("nothing to change: name --partitions, --config or --reset")
    with Console.of(data_dir, tenant) as console:
        _show(console.call("PATCH", instance_path(instance, "topics", name), body), as_json)


@app.command()
def delete(
    instance: InstanceArgument, name: Name, tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """Delete a topic and its data."""
    with Console.of(data_dir, tenant) as console:
        console.call("DELETE", instance_path(instance, "topics", name))
    print_facts([("deleted", name)])


@app.command("delete-records")
def delete_records(
    instance: InstanceArgument,
    name: Name,
    before: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="Repeat; without it all records go.")
    ] = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete the oldest records of a topic; their space is free at once."""
    body: dict[str, Any] = {}
    if before:
        body["partitions"] = [_cut(text) for text in before]
    with Console.of(data_dir, tenant) as console:
        result = console.call("POST", instance_path(instance, "topics", name, "delete-records"), body)
    if as_json:
        print_json(result)
    else:
        rows = (
            [item["partition"], item["error"] or item["log_start_offset"]] for item in result["partitions"]
        )
        print_table(["PARTITION", "LOG START OFFSET"], rows, empty="No partitions.")


def _cut(text: str) -> dict[str, int]:
    partition, _, offset = text.partition(":")
    try:
        return {"partition": int(partition), "before_offset": int(offset)}
    except ValueError:
        raise usage(f"--before '{text}' is not PARTITION:OFFSET") from None


def _show(topic: Any, as_json: bool) -> None:
    if as_json:
        print_json(topic)
        return
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
