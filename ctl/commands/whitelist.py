"""`portico whitelist`: who may connect to an instance, and to one of its topics."""

from typing import Annotated, Any

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import Console, instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_facts

app = Commands()

Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="The list of one topic.")]
Cidrs = Annotated[list[str], typer.Argument(metavar="CIDR...")]
OptionalCidrs = Annotated[list[str] | None, typer.Argument(metavar="[CIDR]...")]
AllowAll = Annotated[bool, typer.Option("--allow-all", help="Admit every address.")]


def _path(instance: str, topic: str | None) -> str:
    if topic is None:
        return instance_path(instance, "whitelist")
    return instance_path(instance, "topics", topic, "whitelist")


@app.command()
def show(console: TenantConsole, instance: InstanceArgument, topic: Topic = None) -> Answer:
    """Show a list."""
    return _answer(console.get(_path(instance, topic)))


@app.command("set")
def replace(
    console: TenantConsole,
    instance: InstanceArgument,
    cidrs: OptionalCidrs = None,
    allow_all: AllowAll = False,
    topic: Topic = None,
    yes: Yes = False,
) -> Answer:
    """Replace a list; without addresses and without --allow-all it admits nobody."""
    if topic is not None and allow_all:
        raise usage(
            "a topic has no --allow-all: `portico whitelist inherit ID --topic NAME` removes its list"
        )
    if not allow_all:
        others = f"at other addresses than {', '.join(cidrs)}" if cidrs else "at every address"
        confirm(f"Clients {others} are cut off and refused from then on.", yes=yes)
    body: dict[str, object] = {"cidrs": cidrs or []}
    if topic is None:
        body["allow_all"] = allow_all
    return _answer(console.call("PUT", _path(instance, topic), body))


@app.command()
def add(console: TenantConsole, instance: InstanceArgument, cidrs: Cidrs, topic: Topic = None) -> Answer:
    """Add addresses."""
    return _answer(_change(console, instance, topic, cidrs, []))


@app.command()
def remove(
    console: TenantConsole, instance: InstanceArgument, cidrs: Cidrs, topic: Topic = None, yes: Yes = False
) -> Answer:
    """Remove addresses; their live connections are cut."""
    confirm(f"Clients at {', '.join(cidrs)} are cut off and refused from then on.", yes=yes)
    return _answer(_change(console, instance, topic, [], cidrs))


@app.command()
def inherit(
    console: TenantConsole,
    instance: InstanceArgument,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME")],
) -> Answer:
    """Remove a topic's own list: it inherits the instance's."""
    console.call("DELETE", _path(instance, topic))
    return _answer(console.get(_path(instance, None)))


def _change(console: Console, instance: str, topic: str | None, added: list[str], removed: list[str]) -> Any:
    if topic is None:
        return console.call("PATCH", _path(instance, None), {"add": added, "remove": removed})
    present = console.get(_path(instance, topic))["cidrs"]
    if missing := set(removed) - set(present):
        raise usage(f"not in the list of topic {topic}: {', '.join(sorted(missing))}")
    kept = [cidr for cidr in present if cidr not in removed]
    return console.call("PUT", _path(instance, topic), {"cidrs": kept + added})


def _answer(whitelist: Any) -> Answer:
    if whitelist.get("inherits"):
        admits = "as the instance's list says"
    elif whitelist.get("allow_all"):
        admits = "every address"
    else:
        admits = ", ".join(whitelist["cidrs"]) or "nobody"
    return in_facts(whitelist, [("admits", admits)])
