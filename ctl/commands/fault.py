"""`portico fault`: faults that a tenant injects into its own instance, for a time."""

from typing import Annotated, Any

import typer

from contracts.injected_faults import FaultKind
from ctl.command import Commands
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import (
    InstanceArgument,
    parse_duration,
    parse_size,
)
from ctl.output import Answer, in_table, print_facts, terminal

app = Commands()

OptionalInstance = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="An instance's id or unique name; all that act without.")
]
Kind = Annotated[FaultKind, typer.Argument(metavar="KIND", help=", ".join(FaultKind))]
Duration = Annotated[
    float, typer.Option("--for", parser=parse_duration, metavar="TIME", help="At most 15m, then it ends.")
]
Share = Annotated[int | None, typer.Option(min=1, max=100, metavar="PERCENT", help="Of requests.")]
Delay = Annotated[
    float | None, typer.Option(parser=parse_duration, metavar="TIME", help="Of latency, such as 300ms.")
]
ThrottleTime = Annotated[
    float | None, typer.Option(parser=parse_duration, metavar="TIME", help="Of throttling, such as 500ms.")
]
Apis = Annotated[
    list[str] | None,
    typer.Option("--api", metavar="NAME", help="Of latency: only these; repeat for several."),
]
Above = Annotated[
    int | None,
    typer.Option(parser=parse_size, metavar="SIZE", help="Of message_too_large: batches above it."),
]
Once = Annotated[bool, typer.Option("--once", help="Of connection_reset: every connection once, now.")]
_MINUTE_S = 60.0


@app.command()
def start(
    console: TenantConsole,
    instance: InstanceArgument,
    kind: Kind,
    duration: Duration = _MINUTE_S,
    delay: Delay = None,
    throttle_time: ThrottleTime = None,
    share: Share = None,
    api: Apis = None,
    above: Above = None,
    once: Once = False,
) -> Answer:
    """Have the instance's clients feel a fault; other instances feel nothing."""
    given = {
        "delay_ms": None if delay is None else round(delay * 1000),
        "throttle_time_ms": None if throttle_time is None else round(throttle_time * 1000),
        "share_percent": share,
        "apis": api or None,
        "above_bytes": above,
        "once": once or None,
    }
    body: dict[str, object] = {"kind": kind.value, "duration_s": round(duration)}
    body |= {name: value for name, value in given.items() if value is not None}
    made = console.call("POST", instance_path(instance, "faults"), body)
    return Answer(made, lambda: _show_started(instance, made))


def _show_started(instance: str, made: Any) -> None:
    print_facts([("fault", made["id"]), ("what", made["summary"]), ("ends", _time(made["ends_at"]))])
    terminal().print(f"end it before: portico fault stop {instance} {made['id']}")


@app.command("list")
def list_faults(console: TenantConsole, instance: OptionalInstance = None) -> Answer:
    """Faults of an instance, ended ones too; without one, all of the tenant that act now."""
    if instance is not None:
        shown = console.get(instance_path(instance, "faults"))["items"]
        rows = [[instance, *_row(one)] for one in shown]
    else:
        shown = console.get("faults")["items"]
        rows = [[one["instance_name"], *_row(one["fault"])] for one in shown]
    columns = ["INSTANCE", "ID", "WHAT", "STARTED", "BY", "ENDS", "STATE"]
    return in_table(shown, columns, rows, empty="No faults.")


def _row(fault: Any) -> list[str]:
    ends = _time(fault["ended_at"] or fault["ends_at"])
    state = "acts" if fault["active"] else f"ended by {fault['ended_by'] or 'time'}"
    return [fault["id"], fault["summary"], _time(fault["started_at"]), fault["started_by"], ends, state]


def _time(text: str) -> str:
    return text.partition(".")[0].replace("T", " ").removesuffix("Z") + " UTC"


@app.command()
def stop(
    console: TenantConsole,
    instance: InstanceArgument,
    fault: Annotated[str | None, typer.Argument(metavar="[FAULT]", help="Its id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that act on the instance.")] = False,
) -> Answer:
    """End a fault at once, or all of an instance."""
    if (fault is None) != every:
        raise usage("say which one: its id (`portico fault list`), or --all")
    parts = ("faults",) if fault is None else ("faults", fault)
    answer = console.call("DELETE", instance_path(instance, *parts))
    ended = answer["items"] if fault is None else [answer]
    return Answer(
        ended,
        lambda: terminal().print(f"ended: {', '.join(one['summary'] for one in ended) or 'nothing acted'}"),
    )
