"""`portico pipeline meter`: from the records that the quota master writes to usage and bills."""

import sys
from dataclasses import asdict
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Annotated

import typer

from ctl.command import Commands
from ctl.errors import usage
from ctl.options import parse_duration
from ctl.output import Answer, in_facts
from ctl.pipeline.metering import MeterSteps, ingest_into
from ctl.pipeline.run import OperatorJob, say
from pipeline.metering import KEEP_DAYS, KEEP_DAYS_MIN
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pipeline.metering.batch import IngestFigures

meter = Commands(help="Usage records into usage and bills.")
Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Where the system instance is reached, unless at its own address."
    ),
]


@meter.command("ingest")
def ingest(
    start_job: OperatorJob,
    bootstrap: Bootstrap = None,
    messages_max: Annotated[
        int | None,
        typer.Option("--max-messages-per-batch", min=1, metavar="N", help="Kafka's messages of one commit."),
    ] = None,
) -> Answer:
    """Bring new usage records into table usage_raw: each once, gaps recovered, impossible ones set aside."""
    _import_datasets()
    with start_job("meter", "ingest") as run:
        figures = ingest_into(run, bootstrap, messages_max)
    return in_facts(asdict(figures), _ingested(figures))


@meter.command("run")
def run_all(
    start_job: OperatorJob,
    bootstrap: Bootstrap = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Again and again, until stopped.")] = False,
    every: Annotated[
        float,
        typer.Option(parser=parse_duration, metavar="TIME", help="With --continuous: how often, like 5m."),
    ] = 300.0,
) -> Answer:
    """Ingest, then bring usage of slots, hours and days and the bills of open months up to date."""
    if every <= 0:
        raise usage("--every must be more than 0 s")
    _import_datasets()
    with start_job("meter", "ingest, usage, bills") as run:
        steps = MeterSteps(run, bootstrap)
        if continuous:
            steps.take_forever(every, say)
        metered = steps.take()
    return in_facts(
        {name: asdict(step) for name, step in metered._asdict().items()},
        [
            *_ingested(metered.ingest),
            ("Hours of usage made", metered.rollup.hours),
            ("Bills made or changed", metered.bills.bills),
            ("Bills held", metered.bills.held),
            ("Adjustments", metered.bills.adjustments),
        ],
    )


@meter.command("tidy")
def tidy_records(
    start_job: OperatorJob,
    keep: Annotated[
        int, typer.Option("--keep-days", min=KEEP_DAYS_MIN, help="After a month and its bills are closed.")
    ] = KEEP_DAYS,
) -> Answer:
    """Remove records of months whose bills closed long ago, and join small files of usage_raw."""
    from pipeline.metering.tidy import tidy

    _import_datasets()
    with start_job("meter", "tidy") as run:
        figures = tidy(run.layout, run.progress, now_ms=epoch_ms(), keep_days=keep)
    return in_facts(
        asdict(figures),
        [
            ("Records are kept from", str(figures.removed_before)),
            ("Rows removed", f"{figures.removed_rows:,}"),
            ("Days whose files were joined", figures.joined_days),
            ("Files", f"{figures.files_before:,} before, {figures.files_after:,} now"),
            ("Files deleted", f"{figures.deleted_files:,}"),
        ],
    )


class _WithoutPandas(MetaPathFinder):
    """Says that it is not installed."""

    @staticmethod
    def find_spec(fullname: str, *_where: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def _import_datasets() -> None:
    """pyarrow's datasets import pandas where it is installed. That takes a fourth of a small run, and nothing
    of metering asks for it."""
    without = _WithoutPandas()
    sys.meta_path.insert(0, without)
    try:
        import_module("pyarrow.dataset")
    finally:
        sys.meta_path.remove(without)


def _ingested(figures: "IngestFigures") -> list[tuple[str, object]]:
    return [
        ("Records read", f"{figures.records:,}"),
        ("New rows", f"{figures.rows:,}"),
        ("Duplicates", f"{figures.duplicates:,}"),
        ("Quarantined", f"{figures.quarantined:,}"),
        ("Rows recovered from totals", f"{figures.recovered_rows:,}"),
        ("Recovered rows changed by late records", f"{figures.rewritten_rows:,}"),
    ]
