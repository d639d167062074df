"""`portico pipeline meter`: from the records that the quota master writes to usage and bills."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, parse_duration
from ctl.output import print_facts, print_json
from ctl.pipeline.metering import MeterSteps, ingest_into
from ctl.pipeline.run import job_run, say

if TYPE_CHECKING:
    from pipeline.metering.batch import IngestFigures

meter = typer.Typer(no_args_is_help=True, help="Usage records into usage and bills.")
Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Where the system instance is reached, unless at its own address."
    ),
]


def register(app: typer.Typer) -> None:
    """Put the commands into `portico pipeline`."""
    app.add_typer(meter, name="meter")


@meter.command("ingest")
def ingest(
    bootstrap: Bootstrap = None,
    offsets_max: Annotated[
        int | None, typer.Option("--max-records-per-batch", min=1, metavar="N", help="Records of one commit.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Bring new usage records into table usage_raw: each once, gaps recovered, impossible ones set aside."""
    with job_run("meter", "ingest", data_dir) as run:
        figures = ingest_into(run, bootstrap, offsets_max)
    if as_json:
        print_json(asdict(figures))
    else:
        print_facts(_ingested(figures))


@meter.command("run")
def run_all(
    bootstrap: Bootstrap = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Again and again, until stopped.")] = False,
    every: Annotated[
        float,
        typer.Option(parser=parse_duration, metavar="TIME", help="With --continuous: how often, like 5m."),
    ] = 300.0,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Ingest, then bring usage of slots, hours and days and the bills of open months up to date."""
    if every <= 0:
        raise usage("--every must be more than 0 s")
    with job_run("meter", "ingest, usage, bills", data_dir) as run:
        steps = MeterSteps(run, bootstrap)
        if continuous:
            steps.take_forever(every, say)
        metered = steps.take()
    if as_json:
        print_json({name: asdict(step) for name, step in metered._asdict().items()})
        return
    print_facts(
        [
            *_ingested(metered.ingest),
            ("Hours of usage made", metered.rollup.hours),
            ("Bills made or changed", metered.bills.bills),
            ("Bills held", metered.bills.held),
            ("Adjustments", metered.bills.adjustments),
        ]
    )


def _ingested(figures: "IngestFigures") -> list[tuple[str, object]]:
    return [
        ("Records read", f"{figures.records:,}"),
        ("New rows", f"{figures.rows:,}"),
        ("Duplicates", f"{figures.duplicates:,}"),
        ("Quarantined", f"{figures.quarantined:,}"),
        ("Rows recovered from totals", f"{figures.recovered_rows:,}"),
        ("Recovered rows changed by late records", f"{figures.rewritten_rows:,}"),
    ]
