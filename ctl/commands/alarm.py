"""`portico alarm`: what is raised and why, and what people do about it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, TypedDict

import typer

from ctl.command import Commands
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import parse_duration
from ctl.output import Answer, in_facts, in_table

app = Commands()

Kind = Annotated[str, typer.Argument(metavar="KIND", help="As `alarm list` names it.")]
Instance = Annotated[
    str | None, typer.Option(metavar="ID", help="An instance's id or unique name; operators' own without.")
]
Subject = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of operators' own: which broker, gateway, ...")
]
Duration = Annotated[
    float, typer.Option("--for", parser=parse_duration, metavar="TIME", help="Such as 4h, 30 days at most.")
]
Over = Annotated[bool, typer.Option("--over", help="Have people told again.")]
_HOUR_S = 3600.0


class _Told(TypedDict):
    """An alarm as the API tells it."""

    kind: str
    subject: str
    state: str
    says: str
    raised_at: str | None
    acknowledged_by: str | None
    silenced_until: str | None


@app.command("list")
def list_alarms(
    console: TenantConsole,
    instance: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="All alarms of one instance; else what is raised.")
    ] = None,
) -> Answer:
    """Show what is raised, or all alarms of one instance with what is known."""
    if instance is None:
        items = console.all_items("alarms")
        columns = ["INSTANCE", "ALARM", "SUBJECT", "STATE", "RAISED", "WHY", "SEEN BY", "SILENT UNTIL"]
        rows = [[one["instance_name"] or "-", *_row(one)] for one in items]
        return in_table(items, columns, rows, empty="No alarm is raised.")
    found = console.get(f"{instance_path(instance)}/alarms")
    columns = ["ALARM", "SUBJECT", "STATE", "RAISED", "WHY", "SEEN BY", "SILENT UNTIL"]
    return in_table(found, columns, map(_row, found["items"]), empty="")


@app.command()
def ack(console: TenantConsole, kind: Kind, instance: Instance = None, subject: Subject = None) -> Answer:
    """Say that somebody has seen it."""
    path, params = _place(kind, instance, subject)
    return _shown(console.call("POST", f"{path}/acknowledge", params=params))


@app.command()
def silence(
    console: TenantConsole,
    kind: Kind,
    instance: Instance = None,
    subject: Subject = None,
    duration: Duration = _HOUR_S,
    over: Over = False,
) -> Answer:
    """Have nobody told of it for a time; it is looked at all the same."""
    path, params = _place(kind, instance, subject)
    if over:
        return _shown(console.call("DELETE", f"{path}/silence", params=params))
    until = datetime.now(UTC) + timedelta(seconds=duration)
    return _shown(console.call("PUT", f"{path}/silence", {"until": until.isoformat()}, params=params))


def _place(kind: str, instance: str | None, subject: str | None) -> tuple[str, dict[str, str]]:
    if instance is not None and subject is not None:
        raise usage("--subject is of operators' own alarms: leave --instance out")
    base = "alarms" if instance is None else f"{instance_path(instance)}/alarms"
    return f"{base}/{kind}", {} if subject is None else {"subject": subject}


def _shown(one: _Told) -> Answer:
    facts = [("alarm", one["kind"]), ("state", one["state"]), ("why", one["says"])]
    if one["acknowledged_by"]:
        facts.append(("seen by", one["acknowledged_by"]))
    if one["silenced_until"]:
        facts.append(("silent until", one["silenced_until"]))
    return in_facts(one, facts)


def _row(one: _Told) -> list[str]:
    return [
        *(one["kind"], one["subject"], one["state"], _time(one["raised_at"]), one["says"]),
        *(one["acknowledged_by"] or "-", _time(one["silenced_until"])),
    ]


def _time(text: str | None) -> str:
    return "-" if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"
