"""`portico pipeline activity`: invented activity of a site, the streams that watch it, and their report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from ctl.command import Commands
from ctl.errors import CommandError, usage
from ctl.options import (
    InstanceArgument,
    parse_duration,
    parse_time,
)
from ctl.output import Answer, in_facts, in_table
from ctl.pipeline.lineage import table, topic
from ctl.pipeline.run import JobRun, ReportJob, StreamJob, TenantJob

if TYPE_CHECKING:
    from pipeline.activity.jobs import Source

JOBS: Final = ("views", "feed", "abuse", "ops")
_EVENTS_MAX: Final = 50_000_000

activity = Commands(help="Page views, a news feed, abuse, operations, daily reports.")


def _parse_rate(text: object) -> float:
    """Events a second: `2000`, `2000/s`."""
    try:
        return float(str(text).removesuffix("/s"))
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no rate like 2000/s") from None


@activity.command()
def generate(
    start_job: TenantJob,
    instance: InstanceArgument,
    rate: Annotated[
        float, typer.Option(parser=_parse_rate, metavar="RATE", help="Events a second, like 2000/s.")
    ] = 2000.0,
    seconds: Annotated[
        float, typer.Option(parser=parse_duration, metavar="TIME", help="How long, like 60 or 2m.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and start give the same events.")] = 1,
    span: Annotated[
        float,
        typer.Option(parser=parse_duration, metavar="TIME", help="How much of the site's time that is."),
    ] = 86_400.0,
    start: Annotated[
        int | None,
        typer.Option(
            parser=parse_time, metavar="TIME", help="When the site's time begins; default: it ends now."
        ),
    ] = None,
    at_once: Annotated[bool, typer.Option("--at-once", help="As fast as the instance takes them.")] = False,
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what was sent, counted, as JSON.")
    ] = None,
) -> Answer:
    """Send invented activity to an instance; its topics are made where they are missing."""
    if rate <= 0 or seconds <= 0 or span <= 0:
        raise usage("--rate, --seconds and --span must be more than 0")
    if rate * seconds > _EVENTS_MAX:
        raise usage(
            f"{rate * seconds:.0f} events are more than one run invents ({_EVENTS_MAX}): ask for fewer"
        )
    with start_job("activity-generate", instance) as run:
        from pipeline.activity.generator import generate as send

        bootstrap = _source(run, instance).bootstrap_servers
        sent = send(
            bootstrap,
            seconds,
            rate,
            seed,
            span_h=span / 3600,
            start_ms=start,
            paced=not at_once,
            progress=run.progress,
        )
    if truth is not None:
        truth.write_bytes(msgspec.json.encode(sent))
    rows = [
        (topic, count, sent.duplicates[topic], sent.late[topic], sent.damaged[topic])
        for topic, count in sent.records.items()
    ]
    columns = ("TOPIC", "RECORDS", "TWICE", "LATE", "DAMAGED")
    return in_table(msgspec.to_builtins(sent), columns, rows, empty="no event")


@activity.command("run")
def run_jobs(
    start_job: StreamJob,
    instance: InstanceArgument,
    only: Annotated[str, typer.Option(metavar="JOBS", help="Some of views,feed,abuse,ops.")] = ",".join(JOBS),
    for_s: Annotated[
        float | None,
        typer.Option("--for", parser=parse_duration, metavar="TIME", help="Stop after, like 60s."),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read what is there now, then stop.")
    ] = False,
) -> Answer:
    """Turn an instance's activity into tables and alerts, until stopped."""
    names = _jobs(only)
    if available_now and for_s is not None:
        raise usage("--available-now stops by itself: leave out --for")
    if for_s is not None and for_s <= 0:
        raise usage("--for must be more than 0 s")
    with start_job("activity", instance) as run:
        from pipeline.activity.jobs import moves, run_activity

        source = _source(run, instance)
        for read, written in moves(run.layout, source, names):
            run.lineage.moved(topic(source.bootstrap_servers, read), table(written))
        totals = run_activity(
            run.spark,
            source,
            run.layout,
            lambda name: run.part(f"activity-{name}", instance),
            only=names,
            available_now=available_now,
            for_s=for_s,
        )
    columns = ("events", "late", "dead_letters")
    rows = [(name, *(found.get(column, 0) for column in columns)) for name, found in totals.items()]
    return in_table(totals, ("JOB", "EVENTS", "LATE", "DEAD LETTERS"), rows, empty="no job")


@activity.command()
def report(
    start_job: ReportJob,
    instance: InstanceArgument,
    start: Annotated[
        int | None,
        typer.Option(
            "--from", parser=parse_time, metavar="TIME", help="24 hours from then; default: the last ones."
        ),
    ] = None,
) -> Answer:
    """A report of a day of an instance's activity: Markdown, HTML and pictures."""
    with start_job("activity-report", instance) as run:
        from pipeline.activity.report import report as write

        instance_id = str(run.instance(instance)["id"])
        paths = write(run.layout, instance_id, None if start is None else start * 1000)
    return in_facts([str(path) for path in paths], ((path.suffix.removeprefix("."), path) for path in paths))


def _jobs(only: str) -> Sequence[str]:
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names or (unknown := [name for name in names if name not in JOBS]):
        raise usage(f"--only takes some of {', '.join(JOBS)}, not '{only if not names else unknown[0]}'")
    return tuple(dict.fromkeys(names))


def _source(run: JobRun, name: str) -> "Source":
    from pipeline.activity.jobs import Source

    instance = run.instance(name)
    if instance["state"] != "running":
        raise CommandError(f"instance {name} is {instance['state']}: it must be running")
    return Source(str(instance["bootstrap_servers"]), str(instance["id"]))
