"""`portico bill`: what instances cost, for people, as CSV and as FOCUS."""

import csv
import io
import sys
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, TypedDict

import typer

from ctl.command import Commands
from ctl.console_client import Console, instance_path
from ctl.console_options import TenantConsole
from ctl.errors import CommandError, usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_table, print_facts, print_table

app = Commands()


class FileFormat(StrEnum):
    """What is written for a spreadsheet or a program instead of a table."""

    CSV = "csv"
    FOCUS = "focus"


Format = Annotated[
    FileFormat | None,
    typer.Option("--format", help="CSV on stdout: as the console's, or with the columns of FOCUS 1.2."),
]


class _Money(TypedDict):
    currency: str
    minor_unit_digits: int


class _Bill(_Money):
    month: str
    state: str
    name: str
    tenant: str
    lines_minor: int
    adjustments_minor: int
    total_minor: int
    estimated: bool
    hold_reason: str


class _Line(TypedDict):
    dimension: str
    quantity: str
    unit: str
    amount_minor: int
    detail: str


class _Adjustment(TypedDict):
    month: str
    dimension: str
    quantity_delta: str
    unit: str
    amount_delta_minor: int
    reason: str


class _CostLine(TypedDict):
    dimension: str
    unit: str
    quantity: str
    amount_minor: int
    projected_quantity: str | None
    projected_minor: int | None


class _LeftOut(TypedDict):
    dimension: str
    reason: str


class _Costs(_Money):
    month: str
    known_until: str
    price_version: int | None
    so_far_minor: int
    projected_minor: int | None
    lines: list[_CostLine]
    left_out: list[_LeftOut]


class _Detail(_Bill):
    lines: list[_Line]
    adjustments: list[_Adjustment]


@app.command("list")
def list_bills(
    console: TenantConsole,
    instance: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="All months of one instance; else one month of all.")
    ] = None,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="Of all instances; default: the newest with bills.")
    ] = None,
    file_format: Format = None,
) -> Answer:
    """Show the bills of a month, or of an instance."""
    if instance is not None:
        if month is not None or file_format is FileFormat.FOCUS:
            raise usage("one month of one instance is `portico bill show ID YYYY-MM`")
        path, asked = instance_path(instance, "bills"), {}
    else:
        path, asked = "bills", {} if month is None else {"month": month}
    if file_format is not None:
        return _file(console, path, file_format, asked)
    found = console.get(path, **asked)
    rows = (
        [
            *(one["month"], one["tenant"], one["name"], one["state"]),
            _money(one["total_minor"], one),
            _note(one),
        ]
        for one in found["items"]
    )
    columns = ["MONTH", "TENANT", "INSTANCE", "STATE", "TOTAL", "NOTE"]
    return in_table(found, columns, rows, empty=found["hint"] or "No bills.")


@app.command()
def show(
    console: TenantConsole,
    instance: InstanceArgument,
    month: Annotated[
        str | None, typer.Argument(metavar="[YYYY-MM]", help="Of UTC; default: the newest.")
    ] = None,
    file_format: Format = None,
) -> Answer:
    """Show one bill: its lines, how they came about, and its adjustments."""
    if month is None:
        found = console.get(instance_path(instance, "bills"))
        if not found["items"]:
            raise CommandError(found["hint"] or f"{instance} has no bills yet")
        month = found["items"][0]["month"]
    path = instance_path(instance, "bills", month)
    if file_format is not None:
        return _file(console, path, file_format, {})
    bill = console.get(path)
    return Answer(bill, lambda: _show(bill))


@app.command()
def estimate(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """What this month costs so far, and at its end if it goes on like the last seven days: provisional."""
    costs = console.get(instance_path(instance, "costs"))
    return Answer(costs, lambda: _show_costs(costs) if costs["available"] else print(costs["hint"]))


def _show_costs(costs: _Costs) -> None:
    version = costs["price_version"]
    prices = "the default: none is set" if version is None else f"version {version}"
    told = f"provisional, known until {costs['known_until']}"
    print_facts([("month", f"{costs['month']} ({told})"), ("price book", prices)])
    rows = [
        [
            *(one["dimension"], f"{one['quantity']} {one['unit']}", _money(one["amount_minor"], costs)),
            "-" if one["projected_quantity"] is None else f"{one['projected_quantity']} {one['unit']}",
            _perhaps(one["projected_minor"], costs),
        ]
        for one in costs["lines"]
    ]
    total = [_money(costs["so_far_minor"], costs), "", _perhaps(costs["projected_minor"], costs)]
    print_table(
        ["WHAT", "SO FAR", "COSTS", "AT THE END", "COSTS THEN"], [*rows, ["total", "", *total]], empty=""
    )
    for left in costs["left_out"]:
        print(f"not in it: {left['dimension']}, {left['reason']}")


def _file(console: Console, path: str, file_format: FileFormat, asked: dict[str, str]) -> Answer:
    """As the console wrote it; for `--json` its rows."""
    text = console.text(path, format=file_format.value, **asked)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    return Answer(rows, lambda: sys.stdout.write(text))


def _show(bill: _Detail) -> None:
    print_facts(
        [("bill", f"{bill['month']}, {bill['name']}"), ("state", f"{bill['state']}{_estimated(bill)}")]
    )
    if bill["hold_reason"]:
        print_facts([("cannot be closed", bill["hold_reason"])])
    rows = [
        [
            one["dimension"],
            f"{one['quantity']} {one['unit']}",
            one["detail"],
            _money(one["amount_minor"], bill),
        ]
        for one in bill["lines"]
    ]
    rows += [
        [
            *(f"{one['month']} {one['dimension']}", f"{one['quantity_delta']} {one['unit']}"),
            *(one["reason"], _money(one["amount_delta_minor"], bill)),
        ]
        for one in bill["adjustments"]
    ]
    rows.append(["total", "", "", _money(bill["total_minor"], bill)])
    print_table(["WHAT", "QUANTITY", "HOW", "AMOUNT"], rows, empty="")


def _estimated(bill: _Bill) -> str:
    return " (estimated)" if bill["estimated"] else ""


def _note(bill: _Bill) -> str:
    return f"held: {bill['hold_reason']}" if bill["hold_reason"] else "estimated" if bill["estimated"] else ""


def _perhaps(minor: int | None, of: _Money) -> str:
    return "-" if minor is None else _money(minor, of)


def _money(minor: int, bill: _Money) -> str:
    digits = bill["minor_unit_digits"]
    return f"{Decimal(minor).scaleb(-digits):,.{digits}f} {bill['currency']}"
