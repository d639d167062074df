"""`portico whitelist`: who may connect to an instance, and to one of its topics."""

from typing import Annotated, Any

import typer

from ctl.console_client import Console, instance_path
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, InstanceArgument, Tenant
from ctl.output import print_facts, print_json

app = typer.Typer(no_args_is_help=True)

Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="The list of one topic.")]
Cidrs = Annotated[list[str], typer.Argument(metavar="CIDR...")]
OptionalCidrs = Annotated[list[str] | None, typer.Argument(metavar="[CIDR]...")]
AllowAll = Annotated[bool, typer.Option("--allow-all", help="Admit every address.")]


def _path(instance: str, topic: str | None) -> str:
    if topic is None:
        return instance_path(instance, "whitelist")
    return instance_path(instance, "topics", topic, "whitelist")


@app.command()
def show(
    instance: InstanceArgument,
    topic: Topic = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show a list."""
    with Console.of(data_dir, tenant) as console:
        _show(console.get(_path(instance, topic)), as_json)


@app.command("set")
def replace(
    instance: InstanceArgument,
    cidrs: OptionalCidrs = None,
    allow_all: AllowAll = False,
    topic: Topic = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Replace a list; without addresses and without --allow-all it admits nobody."""
    if topic is not None and allow_all:
        raise usage(
            "a topic has no --allow-all: `portico whitelist inherit ID --topic NAME` removes its list"
        )
    body: dict[str, Any] = {"cidrs": cidrs or []}
    if topic is None:
        body["allow_all"] = allow_all
    with Console.of(data_dir, tenant) as console:
        _show(console.call("PUT", _path(instance, topic), body), as_json)


@app.command()
def add(
    instance: InstanceArgument,
    cidrs: Cidrs,
    topic: Topic = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Add addresses."""
    with Console.of(data_dir, tenant) as console:
        _show(_change(console, instance, topic, cidrs, []), as_json)


@app.command()
def remove(
    instance: InstanceArgument,
    cidrs: Cidrs,
    topic: Topic = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Remove addresses; their live connections are cut."""
    with Console.of(data_dir, tenant) as console:
        _show(_change(console, instance, topic, [], cidrs), as_json)


@app.command()
def inherit(
    instance: InstanceArgument,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME")],
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Remove a topic's own list: it inherits the instance's."""
    with Console.of(data_dir, tenant) as console:
        console.call("DELETE", _path(instance, topic))
        _show(console.get(_path(instance, None)), as_json)


def _change(console: Console, instance: str, topic: str | None, added: list[str], removed: list[str]) -> Any:
    if topic is None:
        return console.call("PATCH", _path(instance, None), {"add": added, "remove": removed})
    present = console.get(_path(instance, topic))["cidrs"]
    if missing := set(removed) - set(present):
        raise usage(f"not in the list of topic {topic}: {', '.join(sorted(missing))}")
    kept = [cidr for cidr in present if cidr not in removed]
    return console.call("PUT", _path(instance, topic), {"cidrs": kept + added})


def _show(whitelist: Any, as_json: bool) -> None:
    if as_json:
        print_json(whitelist)
        return
    if whitelist.get("inherits"):
        admits = "as the instance's list says"
    elif whitelist.get("allow_all"):
        admits = "every address"
    else:
        admits = ", ".join(whitelist["cidrs"]) or "nobody"
    print_facts([("admits", admits)])
