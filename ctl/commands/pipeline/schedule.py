"""`portico pipeline schedule`: jobs that run by themselves (operators)."""

import signal
import sys
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import Console, instance_path
from ctl.console_options import OperatorConsole
from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, DataDir, parse_duration
from ctl.output import Answer, in_table
from tenants.rules.pipeline_schedules import ScheduledJob

if TYPE_CHECKING:
    from ctl.pipeline.schedule_runner import Listed

schedule = Commands(help="Jobs that run by themselves, where a stack was started with --pipeline.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `schedule list` names it.")]
_UNKNOWN: Final = "-"
_COLUMNS: Final = ["NAME", "JOB", "INSTANCE", "WHEN (UTC)", "NEXT", "LAST RUN", "STATE", "ERROR"]


@schedule.command("list")
def list_schedules(console: OperatorConsole) -> Answer:
    """Show what runs when, what is due, and how it went last."""
    from ctl.pipeline.schedule_runner import PATH

    found = console.get(PATH)
    return in_table(
        found,
        _COLUMNS,
        map(_row, found["items"]),
        empty="Nothing is scheduled: `portico up --pipeline` runs meter, advise, close, tidy by themselves.",
    )


@schedule.command("set")
def set_schedule(
    console: OperatorConsole,
    name: Name,
    job: Annotated[ScheduledJob, typer.Option(help="What runs.")],
    cron: Annotated[
        str,
        typer.Option(metavar="EXPRESSION", help="Minute, hour, day, month, weekday; UTC."),
    ],
    instance: Annotated[
        str | None, typer.Option(metavar="ID", help="For load, compact, audit: what it works on.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Only when it is asked to.")] = False,
) -> Answer:
    """Make a schedule or change it. Runs that were missed before are not made good."""
    instance_id = None if instance is None else console.get(instance_path(instance))["id"]
    body = {"job": job.value, "instance_id": instance_id, "cron": cron, "paused": paused}
    return _shown(console.call("PUT", _path(name), body))


@schedule.command("pause")
def pause(console: OperatorConsole, name: Name) -> Answer:
    """Have it run only when it is asked to."""
    return _paused(console, name, is_paused=True)


@schedule.command("resume")
def resume(console: OperatorConsole, name: Name) -> Answer:
    """Have it run by itself again, from its next time on."""
    return _paused(console, name, is_paused=False)


@schedule.command("run")
def run(console: OperatorConsole, name: Name) -> Answer:
    """Have it run as soon as the runner has time, paused or not."""
    return _shown(console.call("POST", f"{_path(name)}/runs"))


@schedule.command("remove")
def remove(console: OperatorConsole, name: Name, yes: Yes = False) -> None:
    """Remove a schedule. Those that every deployment has are paused instead."""
    confirm(f"Schedule {name} runs no more; what it made stays.", yes=yes)
    console.call("DELETE", _path(name))


@schedule.command("serve")
def serve(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    job_limit: Annotated[
        float, typer.Option(parser=parse_duration, metavar="TIME", help="A job that runs longer is ended.")
    ] = 3600.0,
) -> None:
    """Run what is due, until stopped: what `portico up --pipeline` starts. One for each deployment."""
    from ctl.pipeline.run import say
    from ctl.pipeline.schedule_runner import ScheduleRunner

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    command = (sys.executable, "-m", "runtime.start", "ctl.main", "pipeline")
    with Console.of(data_dir) as console:
        variables = {"PORTICO_DATA_DIR": str(data_dir.resolve())}
        ScheduleRunner(console, command, variables, say, stopping, round(job_limit * 1000)).serve()


def _paused(console: Console, name: str, *, is_paused: bool) -> Answer:
    from ctl.pipeline.schedule_runner import PATH

    found = next((one for one in console.get(PATH)["items"] if one["name"] == name), None)
    if found is None:
        raise CommandError(f"there is no schedule '{name}': see `portico pipeline schedule list`")
    kept = {key: found[key] for key in ("job", "instance_id", "cron")}
    return _shown(console.call("PUT", _path(name), {**kept, "paused": is_paused}))


def _path(name: str) -> str:
    from ctl.pipeline.schedule_runner import schedule_path

    return schedule_path(name)


def _shown(one: "Listed") -> Answer:
    return in_table(one, _COLUMNS, [_row(one)], empty="")


def _row(one: "Listed") -> list[str]:
    last = one["last"]
    when = "now" if one["due_at"] else _time(one["next_at"]) if one["next_at"] else "paused"
    return [
        *(one["name"], one["job"], one["instance_id"] or _UNKNOWN, one["cron"], when),
        *(
            (_UNKNOWN, _UNKNOWN, "")
            if last is None
            else (_time(last["started_at"]), last["state"], last["error"])
        ),
    ]


def _time(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"
