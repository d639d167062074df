"""`portico pipeline rollup`, `prices`, `bill`, `close`, `reconcile`: from usage to money, and the proof."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from contracts.billing import Adjustment, Bill, BillLine
from contracts.names import is_instance_id
from contracts.units import counted
from ctl.command import Commands
from ctl.errors import CommandError, usage
from ctl.options import DEFAULT_DATA_DIR, DataDir, parse_duration
from ctl.output import Answer, Shortfall, in_facts, print_facts, print_table
from ctl.pipeline.run import JobRun, OperatorJob, TenantJob, say, sentences
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.calendar import first_day
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pipeline.metering.billing_run import CloseFigures
    from pipeline.metering.reconcile import Check

_MONTH_HELP = "A month of UTC, such as 2026-11."
AnyMonth = Annotated[str | None, typer.Option(metavar="YYYY-MM", help=f"{_MONTH_HELP} Default: all.")]
Instance = Annotated[
    str | None, typer.Option(metavar="ID", help="Only this instance: its id, also of a deleted one, or name.")
]
prices = Commands(help="The price book, whose versions bills name.")


def rollup(
    start_job: OperatorJob,
    day: Annotated[
        list[str] | None,
        typer.Option(metavar="YYYY-MM-DD", help="Also make this day (UTC) again, which changes nothing."),
    ] = None,
) -> Answer:
    """Bring usage of five minutes, hours and days up to date with the records that are in."""
    from pipeline.metering.rollup import roll_up

    days = [_day(text) for text in day or ()]
    with start_job("rollup", "") as run:
        figures = roll_up(run.layout, run.progress, days=days)
    return in_facts(
        msgspec.to_builtins(figures),
        [
            ("Records up to batch", "none" if figures.raw_batch < 0 else figures.raw_batch),
            ("Hours made", figures.hours),
            ("Five-minute slots written", figures.slots),
        ],
    )


@prices.command("show")
def show_prices(
    version: Annotated[int | None, typer.Option(help="Not the newest but this version.")] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Answer:
    """Print a version of the price book, as the file that `prices set` takes."""
    from pipeline.metering.price_book import book_text, shown_books

    books = shown_books(_layout(data_dir))
    found = {book.version: book for book in books}.get(books[-1].version if version is None else version)
    if found is None:
        raise CommandError(f"the price book has versions 1 to {books[-1].version}, not {version}")

    def show() -> None:
        say(book_text(found))
        print(found.text, end="")

    return Answer(msgspec.to_builtins(found), show)


@prices.command("set")
def set_prices(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML, as `prices show` prints it.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Answer:
    """Make a file the newest version of the price book; bills that are closed keep theirs."""
    from pipeline.metering.price_book import book_text
    from pipeline.metering.price_book import set_prices as set_book

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {error}") from error
    with sentences():
        book, is_new = set_book(_layout(data_dir), text, epoch_ms())
    return Answer(
        msgspec.to_builtins(book) | {"new": is_new},
        lambda: print(f"{book_text(book)}{'' if is_new else ': unchanged'}"),
    )


def bill(start_job: TenantJob, month: AnyMonth = None, instance: Instance = None) -> Answer:
    """Bring bills of open months and adjustments of closed ones up to date, and show them."""
    from pipeline.metering.billing import make_bills
    from pipeline.metering.ledger import Ledger

    _must_be_month(month)
    with start_job("bill", month or "") as run:
        only = _instance_id(run, instance)
        make_bills(run.layout, run.progress, now_ms=epoch_ms(), month=month, instance_id=only)
        ledger = Ledger(run.layout)
    bills = [
        each
        for each in ledger.all_bills()
        if month in (None, each.month) and only in (None, each.instance_id)
    ]
    bills.sort(key=lambda each: (each.month, each.instance_id))
    adjustments = ledger.all_adjustments()
    lines = {each: ledger.lines_of(each) for each in {each.month for each in bills}}
    document = [_document(each, lines[each.month], adjustments) for each in bills]
    if only is not None and month is not None:
        return Answer(document, lambda: _print_invoices(bills, lines.get(month, []), adjustments))
    return Answer(document, lambda: _print_bills(bills))


def close(
    start_job: TenantJob,
    month: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM", help=f"{_MONTH_HELP} Default: all whose grace period is over."),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            parser=parse_duration,
            metavar="TIME",
            help="How long after its end a month waits for missing reports, such as 24h.",
        ),
    ] = 72 * 3600.0,
    force_with_gaps: Annotated[
        bool, typer.Option("--force-with-gaps", help="Do not wait: close with the gaps itemised.")
    ] = False,
    instance: Instance = None,
) -> Answer:
    """Close the bills of a month that is over, for good; what comes later is an adjustment."""
    from pipeline.metering.billing import close_month, months_to_close
    from pipeline.metering.billing_run import CloseFigures

    _must_be_month(month)
    now_ms, grace_ms = epoch_ms(), round(grace * 1000)
    with start_job("close", month or "") as run:
        months = [month] if month else months_to_close(run.layout, now_ms, grace_ms)
        only = _instance_id(run, instance)
        closed = [
            close_month(
                run.layout,
                run.progress,
                now_ms=now_ms,
                month=each,
                grace_ms=grace_ms,
                force_with_gaps=force_with_gaps,
                instance_id=only,
            )
            for each in months
        ]
    figures = CloseFigures.of(closed)
    answer = Answer(msgspec.to_builtins(figures), lambda: _show_closed(figures))
    if figures.waiting:
        subject, why = figures.waiting[0]
        raise Shortfall(
            f"{counted(len(figures.waiting), 'bill')} not closed, such as {subject}'s: {why}", answer
        )
    return answer


def _show_closed(figures: "CloseFigures") -> None:
    print_facts([("Closed now", figures.closed), ("Closed before", figures.closed_before)])
    print_table(["NOT CLOSED", "WHY"], figures.waiting, empty="No bill of a month that is over is open.")


def reconcile(start_job: OperatorJob, month: AnyMonth = None) -> Answer:
    """Prove that records, usage and bills agree to the byte; exit 1 with what differs."""
    from pipeline.metering.reconcile import reconcile as reconcile_tables

    _must_be_month(month)
    with start_job("reconcile", month or "") as run:
        checks = reconcile_tables(run.layout, run.progress, month=month)
    answer = Answer(msgspec.to_builtins(checks), lambda: _print_checks(checks))
    if differences := sum(check.differences for check in checks):
        raise Shortfall(f"{differences} rows differ: the tables do not agree", answer)
    return answer


def _print_checks(checks: "Sequence[Check]") -> None:
    print_table(
        ["CHECK", "COMPARED", "DIFFERENT"],
        ([check.name, check.compared, check.differences] for check in checks),
        empty="",
    )
    for check in checks:
        for example in check.examples:
            print(f"{check.name}: {example}")


def _print_bills(bills: Sequence[Bill]) -> None:
    print_table(
        ["MONTH", "INSTANCE", "STATE", "TOTAL", "LINES", "ADJUSTMENTS", "REPORTED", "PRICES", "NOTE"],
        (
            [
                each.month,
                each.instance_id,
                each.state,
                f"{_amount(each.total_minor, each)} {each.currency}",
                _amount(each.lines_minor, each),
                _amount(each.adjustments_minor, each),
                "-" if not each.expected_ms else f"{each.covered_ms / each.expected_ms:.4%}",
                each.price_version,
                f"held: {each.hold_reason}" if each.hold_reason else each.gaps,
            ]
            for each in bills
        ),
        empty="No bill yet: `portico pipeline meter run` brings usage in.",
    )


def _print_invoices(
    bills: Sequence[Bill], lines: Sequence[BillLine], adjustments: Sequence[Adjustment]
) -> None:
    from pipeline.metering.amounts.invoice import invoice

    if not bills:
        print("No bill of this instance and month.")
    for each in bills:
        print(invoice(each, *_parts(each, lines, adjustments)), end="")


def _parts(
    bill: Bill, lines: Sequence[BillLine], adjustments: Sequence[Adjustment]
) -> tuple[list[BillLine], list[Adjustment]]:
    own = [line for line in lines if line.instance_id == bill.instance_id]
    on_bill = [
        each for each in adjustments if (each.instance_id, each.bill_month) == (bill.instance_id, bill.month)
    ]
    return own, on_bill


def _document(bill: Bill, lines: Sequence[BillLine], adjustments: Sequence[Adjustment]) -> dict[str, object]:
    own, on_bill = _parts(bill, lines, adjustments)
    document: dict[str, object] = msgspec.to_builtins(bill)
    return document | {"lines": msgspec.to_builtins(own), "adjustments": msgspec.to_builtins(on_bill)}


def _amount(minor: int, bill: Bill) -> str:
    return f"{Decimal(minor).scaleb(-bill.minor_unit_digits):,.{bill.minor_unit_digits}f}"


def _instance_id(run: JobRun, instance: str | None) -> str | None:
    if instance is None or is_instance_id(instance):
        return instance
    return str(run.instance(instance)["id"])


def _layout(data_dir: Path) -> PipelineLayout:
    if not data_dir.is_dir():
        raise CommandError(f"there is no data directory {data_dir}: name one with --data-dir")
    return PipelineLayout(data_dir.resolve())


def _must_be_month(month: str | None) -> None:
    if month is not None:
        try:
            first_day(month)
        except PipelineError as error:
            raise usage(error.sentence) from error


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise usage(f"'{text}' is not a day: write it like 2026-11-03") from error
